"""What a worker holds, and staying its holder.

Every lease is renewed when a third of it is over, all that are due in one call. A lease whose end has
come without a renewal counts as lost here, whether or not the server could be asked: somebody else
may have the item by now. Time is counted from before a call was sent, so we give up early, never late.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from podium.contracts.work import ITEMS_MAX, ClaimedWork, Grant, Grants
from podium.sdk.desk import WorkDesk
from podium.sdk.errors import ApiError, ChannelClosed

OK = "ok"
TOGETHER = 0.1
"""What is due within this share of a lease is renewed along with what is due now."""
TRY_SECONDS_MIN = 0.5

log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class Held:
    item: ClaimedWork
    until: float
    """Ours until then, by the loop's clock."""
    renew_at: float
    lost: str | None = None
    """Why it is not ours any more."""
    is_settled: bool = False
    """Its outcome was reported and answered."""

    @property
    def grant(self) -> Grant:
        return Grant(id=self.item.id, epoch=self.item.epoch)


class Leases:
    def __init__(self, desk: WorkDesk, on_lost: Callable[[Held], None]) -> None:
        self._desk = desk
        self._on_lost = on_lost
        self._held: set[Held] = set()
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._held)

    def all(self) -> list[Held]:
        return list(self._held)

    def add(self, item: ClaimedWork, since: float) -> Held:
        """Hold an item whose lease began at `since` or later."""
        held = Held(item, since + item.lease_seconds, since + item.lease_seconds / 3)
        self._held.add(held)
        self._changed.set()
        return held

    def drop(self, held: Held) -> None:
        self._held.discard(held)

    async def keep(self) -> None:
        """Renew, for ever. ChannelClosed when there is nobody left to renew with."""
        loop = asyncio.get_running_loop()
        while True:
            self._changed.clear()
            now = loop.time()
            self._give_up_what_ran_out(now)
            due = [held for held in self._held if held.renew_at <= now + _slack(held)]
            if due and any(held.renew_at <= now for held in due):
                await self._renew(due)
                continue
            await self._sleep(min((held.renew_at for held in self._held), default=None))

    async def _sleep(self, until: float | None) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout_at(until if until is None else max(until, loop.time())):
                await self._changed.wait()
        except TimeoutError:
            pass  # something is due

    async def _renew(self, due: list[Held]) -> None:
        due.sort(key=lambda held: held.until)
        for start in range(0, len(due), ITEMS_MAX):
            await self._renew_some(due[start : start + ITEMS_MAX])

    async def _renew_some(self, some: list[Held]) -> None:
        sent_at = asyncio.get_running_loop().time()
        try_seconds = min(held.item.lease_seconds for held in some) / 3
        try:
            async with asyncio.timeout(max(try_seconds, TRY_SECONDS_MIN)):
                answer = await self._desk.renew(Grants(grants=[held.grant for held in some]))
        except ChannelClosed:
            raise
        except (ApiError, TimeoutError) as error:
            # Not renewed, and not lost yet: soon again. The end of the lease decides.
            log.warning("leases cannot be renewed", extra={"facts": {"error": str(error)}})
            for held in some:
                held.renew_at = sent_at + held.item.lease_seconds * TOGETHER
            return
        for held, verdict in zip(some, answer.verdicts, strict=True):
            if verdict.verdict == OK:
                held.until = sent_at + held.item.lease_seconds
                held.renew_at = sent_at + held.item.lease_seconds / 3
            else:
                self._lose(held, verdict.verdict)

    def _give_up_what_ran_out(self, now: float) -> None:
        for held in [held for held in self._held if held.until <= now]:
            self._lose(held, "expired")

    def _lose(self, held: Held, why: str) -> None:
        if held in self._held:
            held.lost = why
            self._held.discard(held)
            self._on_lost(held)


def _slack(held: Held) -> float:
    return held.item.lease_seconds * TOGETHER


def grants(some: Iterable[Held]) -> list[Grant]:
    return [held.grant for held in some]
