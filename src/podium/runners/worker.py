"""The worker: takes items from a desk, runs their handlers, reports.

It claims no more than it can begin at once, in one call; it starts what it got in one call; it renews
and reports in lists. Claiming is not starting: an answer that is lost on the way costs no attempt.

Asked to stop, it takes nothing new and gives back what it has not begun. What runs gets the grace
time; what is not done by then is cancelled and given back, and somebody else begins it anew.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from podium.contracts.work import ITEMS_MAX, Claim, ClaimedWork, Grant, Grants
from podium.runners.calling import Outcome, Refused, Task, failure, outcome_of, task_of
from podium.runners.leases import OK, Held, Leases, grants
from podium.runners.reports import Reports
from podium.sdk.desk import WorkDesk
from podium.sdk.errors import ApiError, ChannelClosed, RateLimited, ServerFailure, Unavailable
from podium.sdk.handlers import Registered

CONCURRENCY = 8
WAIT_SECONDS = 2.0
"""How long a claim waits for items. A worker that is asked to stop waits for that claim's answer, since
an answer which nobody reads would hold its items until their leases end."""
GRACE_SECONDS = 25.0
CANCEL_SECONDS = 1.0
LAST_CALL_SECONDS = 5.0
PAUSE_SECONDS = 0.5
PAUSE_SECONDS_MAX = 10.0

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Running:
    held: Held
    task: Task
    call: asyncio.Task[None]


class Worker:
    def __init__(
        self,
        desk: WorkDesk,
        handlers: Mapping[str, Registered],
        *,
        holder: str,
        queues: Sequence[str] = (),
        concurrency: int = CONCURRENCY,
        wait_seconds: float = WAIT_SECONDS,
        grace_seconds: float = GRACE_SECONDS,
        rng: random.Random | None = None,
    ) -> None:
        """`queues`: those of the handlers, if none are named."""
        self.queues = list(queues) or sorted({handler.queue for handler in handlers.values()})
        if not self.queues:
            raise ValueError("a worker needs a queue, or a handler that names one")
        self.counts: Counter[str] = Counter()
        """taken, reported, refused, lost, given_back, left_behind: how it has gone so far."""
        self._desk = desk
        self._handlers = handlers
        self._holder = holder
        self._concurrency = concurrency
        self._wait_seconds = wait_seconds
        self._grace_seconds = grace_seconds
        self._rng = rng or random.Random()
        self._leases = Leases(desk, self._on_lost)
        self._reports = Reports(desk, self._rng, self._on_settled)
        self._running: dict[Held, Running] = {}
        self._stop = asyncio.Event()
        self._room = asyncio.Event()

    @property
    def is_stopping(self) -> bool:
        return self._stop.is_set()

    def ask_to_stop(self) -> None:
        self._stop.set()
        self._room.set()

    async def run(self) -> None:
        """Until asked to stop, or until the desk says that we may not or cannot go on."""
        services = [
            asyncio.create_task(self._leases.keep(), name="leases"),
            asyncio.create_task(self._reports.keep_sending(), name="reports"),
        ]
        claiming = asyncio.create_task(self._claim_until_told(), name="claims")
        try:
            await asyncio.wait([claiming, *services], return_when=asyncio.FIRST_COMPLETED)
            if not claiming.done():
                claiming.cancel()
                for service in services:
                    if service.done():
                        service.result()  # it never ends by itself: this raises what ended it
            await claiming
        finally:
            await self._wind_up()
            for service in services:
                service.cancel()
            await asyncio.gather(*services, return_exceptions=True)

    # Taking ----------------------------------------------------------------------------------

    async def _claim_until_told(self) -> None:
        failures = 0
        while not self._stop.is_set():
            free = self._free()
            if free == 0:
                self._room.clear()
                await self._room.wait()
                continue
            try:
                await self._take(free)
                failures = 0
            except (Unavailable, RateLimited, ServerFailure) as error:
                if isinstance(error, ChannelClosed):
                    raise
                failures += 1
                await self._pause(error, failures)

    def _free(self) -> int:
        """How many could begin now. Results that cannot be reported take up room too, after a while."""
        unreported = max(0, len(self._reports) - ITEMS_MAX)
        return min(max(0, self._concurrency - len(self._running) - unreported), ITEMS_MAX)

    async def _take(self, n: int) -> None:
        claimed = await self._desk.claim(
            Claim(
                queues=self.queues,
                holder=self._holder,
                n=n,
                wait_seconds=self._wait_seconds,
                start=False,
            )
        )
        items = claimed.items
        if not items:
            return
        if self._stop.is_set():
            await self._give_back([Grant(id=item.id, epoch=item.epoch) for item in items])
            return
        begun_at = asyncio.get_running_loop().time()
        started = await self._desk.start(
            Grants(grants=[Grant(id=item.id, epoch=item.epoch) for item in items])
        )
        for item, verdict in zip(items, started.verdicts, strict=True):
            if verdict.verdict == OK:
                self._begin(item, begun_at)

    async def _pause(self, error: ApiError, failures: int) -> None:
        log.warning("nothing can be claimed", extra={"facts": {"error": str(error)}})
        grown = min(PAUSE_SECONDS * 2.0 ** min(failures - 1, 10), PAUSE_SECONDS_MAX)
        pause_seconds = max(grown * (0.5 + self._rng.random()), error.retry_after_seconds or 0.0)
        try:
            async with asyncio.timeout(pause_seconds):
                await self._stop.wait()
        except TimeoutError:
            pass

    # Running ---------------------------------------------------------------------------------

    def _begin(self, item: ClaimedWork, begun_at: float) -> None:
        self.counts["taken"] += 1
        held = self._leases.add(item, begun_at)
        try:
            task = task_of(item, self._handlers)
        except Refused as error:
            self._reports.put(held, failure(item, str(error), retryable=False))
            return
        call = asyncio.create_task(self._run(held, task), name=f"task {item.id}")
        self._running[held] = Running(held, task, call)

    async def _run(self, held: Held, task: Task) -> None:
        outcome: Outcome | None = None
        try:
            outcome = await outcome_of(held.item, task)
        finally:
            del self._running[held]
            self._room.set()
        if held.lost is None:
            self._reports.put(held, outcome)

    def _on_lost(self, held: Held) -> None:
        self.counts["lost"] += 1
        facts = {"task_id": held.item.id, "epoch": held.item.epoch, "why": held.lost}
        log.warning("a lease is lost", extra={"facts": facts})
        running = self._running.get(held)
        if running is not None:
            running.task.context.cancelled.set()
            running.call.cancel()

    def _on_settled(self, held: Held, is_taken: bool) -> None:
        self.counts["reported" if is_taken else "refused"] += 1
        self._leases.drop(held)
        self._room.set()

    # Stopping --------------------------------------------------------------------------------

    async def _wind_up(self) -> None:
        """Let what runs finish, give back what does not, and say what there is to say."""
        if self._running:
            await asyncio.wait(
                [each.call for each in self._running.values()], timeout=self._grace_seconds
            )
        left = list(self._running.values())
        for each in left:
            each.task.context.cancelled.set()
            each.call.cancel()
        if left:
            # A handler that will not be cancelled is left behind, not waited for.
            _, deaf = await asyncio.wait([each.call for each in left], timeout=CANCEL_SECONDS)
            self.counts["left_behind"] += len(deaf)
        await self._say_the_rest([each.held for each in left])

    async def _say_the_rest(self, unfinished: Sequence[Held]) -> None:
        ours = grants(held for held in unfinished if held.lost is None)
        await self._at_last(self._reports.all_sent(), "results not reported")
        await self._at_last(self._give_back(ours), "leases not given back")

    async def _at_last(self, call: Coroutine[Any, Any, None], else_: str) -> None:
        """Within a moment, or not at all: then the leases end by themselves, a little later."""
        try:
            async with asyncio.timeout(LAST_CALL_SECONDS):
                await call
        except (ApiError, TimeoutError) as error:
            log.warning(else_, extra={"facts": {"error": repr(error)}})

    async def _give_back(self, given: Sequence[Grant]) -> None:
        for start in range(0, len(given), ITEMS_MAX):
            await self._desk.release(Grants(grants=list(given[start : start + ITEMS_MAX])))
            self.counts["given_back"] += len(given[start : start + ITEMS_MAX])
