"""Those who do the work: by claim and start, by offer, and through the real WorkConsumer."""

from __future__ import annotations

import asyncio
from typing import Any

from podium.engine import WorkConsumer
from podium.kernel.errors import Unavailable
from podium.kernel.work import Claimed, Done, Failure, Lease, Verdict
from podium.kernel.work.queue import channel
from podium.sim.scenarios.scenario import SAFETY_POLL_SECONDS
from podium.sim.world import Process

TRIES_MAX = 6

Effects = dict[str, list[int]]
"""The world outside: for each item, the epochs under which somebody did its work."""


class Worker:
    """One item after the other: claim, start, work and renew, complete or fail.

    It takes up to two at once, so that the second waits in its hand while it does the first, and
    sometimes it is stubborn: it does not believe that its lease is lost and finishes all the same.
    """

    name = "worker"
    pause_seconds_max = SAFETY_POLL_SECONDS

    def __init__(
        self, process: Process, queue: str, effects: Effects, *, offers: bool = False
    ) -> None:
        self.channels = (channel(queue),)
        self._process = process
        self._store = process.store
        self._work = process.work
        self._rng = process.rng
        self._queue = queue
        self._effects = effects
        self._offers = offers

    async def tick(self) -> float | None:
        items = await self._take()
        for item in items:
            await self._do(item)
        return 0.0 if items else None

    async def _take(self) -> list[Claimed]:
        terms: dict[str, Any] = {"queue": self._queue, "holder": self._process.name, "n": 2}
        if not self._offers:
            return await self._store.write(self._work.claim, **terms)
        offered = await self._store.write(self._work.offer, **terms)
        ids = [item.id for item in offered]
        if not ids:
            return []
        return await self._store.write(self._work.claim_ids, ids, holder=self._process.name)

    async def _do(self, item: Claimed) -> None:
        if self._rng.random() < 0.05:
            await self._store.write(self._work.release, [item.lease])
            return
        if self._rng.random() < 0.03 and item.attempts + 2 < item.attempts_max:
            await self._store.write(self._work.fail, [Failure(item, "not for me")])
            return
        [verdict] = await self._store.write(self._work.start, [item.lease])
        if verdict is Verdict.OK and await self._work_on(item):
            await self._settle(item)

    async def _work_on(self, item: Claimed) -> bool:
        """Be busy for as long as the item says. False when somebody else has it now."""
        rest = float(item.body["seconds"])
        stubborn = self._rng.random() < 0.3
        while rest > 0:
            nap = min(rest, item.lease_seconds / 3)
            await asyncio.sleep(nap)
            rest -= nap
            if rest > 0 and not await self._renew(item.lease) and not stubborn:
                return False
        return True

    async def _renew(self, lease: Lease) -> bool:
        try:
            [renewal] = await self._store.write(self._work.renew, [lease])
        except Unavailable:
            return True
        return renewal.verdict is Verdict.OK

    async def _settle(self, item: Claimed) -> None:
        self._effects.setdefault(item.id, []).append(item.epoch)
        fails = item.attempts < item.body["fails"]
        for _ in range(TRIES_MAX):
            try:
                if fails:
                    await self._store.write(self._work.fail, [Failure(item, "it went wrong")])
                else:
                    await self._store.write(self._work.complete, [Done(item, {"by": item.epoch})])
                return
            except Unavailable:
                # Written again under the same epoch: if it happened, this is refused.
                await asyncio.sleep(self._rng.uniform(0.1, 2.0))


def consume(process: Process, queue: str, effects: Effects) -> None:
    """The real consumer, with a handler that takes its time."""

    async def handle(items: list[Claimed]) -> list[Done | Failure]:
        await asyncio.sleep(max(float(item.body["seconds"]) for item in items))
        for item in items:
            effects.setdefault(item.id, []).append(item.epoch)
        return [
            Failure(item, "it went wrong") if item.attempts <= item.body["fails"] else Done(item)
            for item in items
        ]

    consumer = WorkConsumer(
        process.store,
        process.work,
        queue=queue,
        holder=process.name,
        handle=handle,
        metrics=process.world.metrics,
        items_max=3,
    )
    consumer.pause_seconds_max = SAFETY_POLL_SECONDS
    process.keep_ticking(consumer)
