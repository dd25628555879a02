"""A broker as brokers are: at least once, in no order, and sometimes without saying so.

It stores what reaches it and delivers it until it is acknowledged. A message may be lost on the
way in (the sender is told), its receipt on the way out (the sender is told the same), and it may
arrive late, twice, or again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from podium.kernel.errors import Unavailable
from podium.sim.world import Process, World

TRAVEL_SECONDS = 0.01
LATE_SECONDS_MAX = 20.0
REDELIVER_SECONDS = 30.0

Deliver = Callable[[str, Any], None]


class Broker:
    def __init__(self, world: World) -> None:
        self._world = world
        self._rng = world.rngs["net"]
        self._consumers: list[tuple[Process, Deliver]] = []
        self.waiting: dict[str, Any] = {}
        """Stored and not acknowledged yet."""

    def consume(self, process: Process, deliver: Deliver) -> None:
        self._consumers.append((process, deliver))

    async def publish(self, id: str, body: Any) -> None:
        """Returns when the broker has it; Unavailable when that is not sure."""
        answer: asyncio.Future[None] = self._world.loop.create_future()
        self._world.loop.later(self._travel(), self._arrive, answer, id, body)
        await answer

    def acknowledge(self, id: str) -> None:
        self._world.loop.later(self._travel(), self.waiting.pop, id, None)

    def _arrive(self, answer: asyncio.Future[None], id: str, body: Any) -> None:
        faults = self._world.current_faults()
        if self._rng.random() < faults.message_lost:
            self._world.loop.later(self._travel(), _refuse, answer, "lost on the way in")
            return
        self._world.tell(None, f"the broker has {id}")
        self.waiting[id] = body
        self._deliver_soon(id)
        if self._rng.random() < faults.message_doubled:
            self._deliver_soon(id)
        if self._rng.random() < faults.message_lost:
            self._world.loop.later(self._travel(), _refuse, answer, "no receipt")
        else:
            self._world.loop.later(self._travel(), _accept, answer)

    def _deliver_soon(self, id: str) -> None:
        late = self._rng.random() < self._world.current_faults().message_late
        delay = self._rng.uniform(0, LATE_SECONDS_MAX) if late else self._travel()
        self._world.loop.later(delay, self._deliver, id)

    def _deliver(self, id: str) -> None:
        if id not in self.waiting:
            return
        self._consumers = [(p, d) for p, d in self._consumers if not p.node.is_dead]
        if self._consumers:
            process, deliver = self._rng.choice(self._consumers)
            # In the process's own name: a paused one gets it when it is resumed.
            self._world.loop.call_soon(deliver, id, self.waiting[id], context=process.node.context)
        self._world.loop.later(REDELIVER_SECONDS, self._deliver, id)

    def _travel(self) -> float:
        return self._rng.random() * TRAVEL_SECONDS


def _refuse(answer: asyncio.Future[None], why: str) -> None:
    if not answer.done():
        answer.set_exception(Unavailable(f"the broker cannot be reached: {why}"))


def _accept(answer: asyncio.Future[None]) -> None:
    if not answer.done():
        answer.set_result(None)
