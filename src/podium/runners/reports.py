"""Reports: outcomes gather while one list is on its way, and go together when it is answered.

One outcome that the server will not take must not hold up its neighbours: a list that is refused is
sent again in halves, until the refusal reaches the one that caused it, which then fails for good.
While the server is away outcomes wait, each until its lease is over.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from podium.contracts.work import ITEMS_MAX, Failure, Report, Success
from podium.runners.calling import Outcome, failure
from podium.runners.leases import OK, Held
from podium.sdk.desk import WorkDesk
from podium.sdk.errors import ApiError, ChannelClosed, InvalidRequest

BYTES_MAX = 4 * 1024 * 1024
"""Well below what one request or one frame may have."""
PAUSE_SECONDS = 0.2
PAUSE_SECONDS_MAX = 5.0

log = logging.getLogger(__name__)


class Ended(NamedTuple):
    held: Held
    outcome: Outcome


class Reports:
    def __init__(
        self, desk: WorkDesk, rng: random.Random, on_settled: Callable[[Held, bool], None]
    ) -> None:
        self._desk = desk
        self._rng = rng
        self._on_settled = on_settled
        """Told of each item that is out of our hands: whether the outcome was taken."""
        self._waiting: deque[Ended] = deque()
        self._some = asyncio.Event()
        self._none = asyncio.Event()
        self._none.set()
        self._tries = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, held: Held, outcome: Outcome) -> None:
        self._waiting.append(Ended(held, outcome))
        self._none.clear()
        self._some.set()

    async def all_sent(self) -> None:
        await self._none.wait()

    async def keep_sending(self) -> None:
        while True:
            await self._some.wait()
            batch = self._take()
            if batch:
                await self._send_or_wait(batch)
            if not self._waiting:
                self._some.clear()
                self._none.set()

    def _take(self) -> list[Ended]:
        batch: list[Ended] = []
        size = 0
        while self._waiting and len(batch) < ITEMS_MAX:
            size += self._waiting[0].outcome.bytes
            if batch and size > BYTES_MAX:
                break
            ended = self._waiting.popleft()
            if ended.held.lost is None:
                batch.append(ended)
        return batch

    async def _send_or_wait(self, batch: list[Ended]) -> None:
        try:
            await self._send(batch)
            self._tries = 0
        except ChannelClosed:
            raise
        except ApiError as error:
            self._tries += 1
            log.warning("results cannot be reported", extra={"facts": {"error": str(error)}})
            again = [ended for ended in batch if not ended.held.is_settled]
            self._waiting.extendleft(reversed(again))
            grown = min(PAUSE_SECONDS * 2.0 ** min(self._tries, 10), PAUSE_SECONDS_MAX)
            await asyncio.sleep(grown * (0.5 + self._rng.random()))

    async def _send(self, batch: list[Ended]) -> None:
        try:
            await self._report(batch)
        except InvalidRequest as error:
            if len(batch) > 1:
                middle = len(batch) // 2
                await self._send(batch[:middle])
                await self._send(batch[middle:])
            else:
                await self._refused(batch[0], error)

    async def _refused(self, ended: Ended, error: ApiError) -> None:
        held, outcome = ended
        if isinstance(outcome.said, Failure):
            log.error("a failure cannot be reported", extra={"facts": {"error": str(error)}})
            self._settle(held, False)
            return
        text = f"its result cannot be stored: {error}"
        await self._send([Ended(held, failure(held.item, text, retryable=False))])

    async def _report(self, batch: list[Ended]) -> None:
        # The server answers in this order: what is done, then what failed.
        done = [ended for ended in batch if isinstance(ended.outcome.said, Success)]
        failed = [ended for ended in batch if isinstance(ended.outcome.said, Failure)]
        answer = await self._desk.report(
            Report(
                done=[e.outcome.said for e in done if isinstance(e.outcome.said, Success)],
                failed=[e.outcome.said for e in failed if isinstance(e.outcome.said, Failure)],
            )
        )
        for ended, verdict in zip([*done, *failed], answer.verdicts, strict=True):
            if verdict.verdict != OK:
                facts = {"task_id": verdict.id, "epoch": verdict.epoch, "verdict": verdict.verdict}
                log.warning("a result was refused", extra={"facts": facts})
            self._settle(ended.held, verdict.verdict == OK)

    def _settle(self, held: Held, is_taken: bool) -> None:
        held.is_settled = True
        self._on_settled(held, is_taken)
