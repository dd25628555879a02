"""The relay: publishes the outbox to a broker. It knows the kernel; the broker is a Protocol.

A relay keeps nothing in mind that matters. What it takes is offered under the name of the broker's
present stream, so that it, its successor, or a relay beside it can tell what was told through a
stream that is no more, and tell it again. While the broker is away it takes nothing: rows stay
ready, and consumers, who look into the database from time to time, find them there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from podium.kernel.clock import Clock
from podium.kernel.errors import PodiumError, Unavailable
from podium.kernel.outbox import NOBODY, Broker, Notice, Outbox
from podium.kernel.store import Store
from podium.kernel.telemetry import logger
from podium.kernel.work.queue import channel

NOTICES_MAX = 500
AWAY_PAUSE_SECONDS = 0.25
AWAY_PAUSE_SECONDS_MAX = 5.0
AWAY_PATIENCE_SECONDS = 5.0
"""A broker that is away for longer gets what was told it recalled, for consumers who ask the database."""
GIVE_BACK_SECONDS_MAX = 1.0

log = logger(__name__)


class Relay:
    """Several of them may relay the same queues, in one process or in many."""

    name = "relay"
    pause_seconds_max = 5.0

    def __init__(
        self,
        store: Store,
        outbox: Outbox,
        broker: Broker,
        *,
        queues: Sequence[str],
        clock: Clock,
        notices_max: int = NOTICES_MAX,
    ) -> None:
        self.channels = tuple(channel(queue) for queue in queues)
        self._store = store
        self._outbox = outbox
        self._broker = broker
        self._queues = tuple(queues)
        self._clock = clock
        self._notices_max = notices_max
        self._generation: str | None = None
        self._away_since: float | None = None
        self._is_recalled = False

    async def tick(self) -> float | None:
        generation = await self._broker.generation()
        if generation is None:
            return await self._while_away()
        self._away_since, self._is_recalled = None, False
        if generation != self._generation:
            await self._recall(_holder(generation))
            self._generation = generation
        waiting = await self._store.read(self._outbox.waiting, self._queues)
        told = [await self._tell(queue, _holder(generation)) for queue in waiting]
        # A full list means that there may be more. Whatever came since has rung the bell.
        return 0.0 if self._notices_max in told else None

    async def _tell(self, queue: str, holder: str) -> int:
        taken = await self._store.write(
            self._outbox.take, queue, holder=holder, n=self._notices_max
        )
        if taken:
            await self._publish(taken, holder)
        return len(taken)

    async def _publish(self, taken: list[Notice], holder: str) -> None:
        accepted: list[Notice] = []
        try:
            accepted = await self._broker.publish(taken)
        finally:
            has = {notice.id for notice in accepted}
            missing = [notice for notice in taken if notice.id not in has]
            if missing:
                await self._give_back(missing, holder)
        if missing:
            raise Unavailable(
                f"the broker took {len(accepted)} of {len(taken)} notices", queue=taken[0].queue
            )

    async def _give_back(self, notices: list[Notice], holder: str) -> None:
        try:
            async with asyncio.timeout(GIVE_BACK_SECONDS_MAX):
                await self._store.write(self._outbox.give_back, notices, holder=holder)
        except (TimeoutError, PodiumError) as error:
            # Then they stay hidden for half a minute, and are told again after that.
            log.warning("notices not given back", count=len(notices), error=repr(error))

    async def _while_away(self) -> float:
        now = self._clock.monotonic()
        if self._away_since is None:
            self._away_since = now
            log.warning("the broker is away: messages wait in the database")
        away_seconds = now - self._away_since
        if away_seconds >= AWAY_PATIENCE_SECONDS and not self._is_recalled:
            await self._recall(NOBODY)
            self._is_recalled, self._generation = True, None
        return min(max(AWAY_PAUSE_SECONDS, away_seconds), AWAY_PAUSE_SECONDS_MAX)

    async def _recall(self, holder: str) -> None:
        count = 0
        while recalled := await self._store.write(self._outbox.recall, self._queues, holder=holder):
            count += recalled
        if count:
            log.warning("told through a stream that is gone: told again", count=count)


def _holder(generation: str) -> str:
    return f"relay {generation}"
