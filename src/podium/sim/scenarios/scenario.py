"""What every scenario is: roles, an end, and what must be true when it is reached."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import Any, TypeVar

from podium.engine import Auditor, Sweeper
from podium.engine.auditor import WORK_CHECKS, Check
from podium.kernel.errors import Unavailable
from podium.kernel.store import Body
from podium.kernel.wake import DueRegistry
from podium.sim.faults import Faults
from podium.sim.parts import Parts
from podium.sim.world import Process, Role, World

R = TypeVar("R")

SAFETY_POLL_SECONDS = 20.0
"""Long, so that an hour of nothing costs no events; and bells that are lost really hurt."""


class Scenario(ABC):
    """A subclass fills the world in `prepare` and `roles`, and says when it is over."""

    name = ""
    horizon_seconds = 400.0
    """How long things go wrong, if nothing ends before."""
    heal_seconds_max = 2_400.0
    """How long after that everything must have ended: a lease, a backoff, a jump of the clock."""

    def __init__(self, world: World, parts: Parts) -> None:
        self.world = world
        self.parts = parts
        self.rng = world.rngs["work"]

    @staticmethod
    def limit(faults: Faults) -> Faults:
        """The part of a mix that this scenario can live with."""
        return faults

    async def prepare(self) -> None:  # noqa: B027
        """Rows that are there before anybody starts."""

    @abstractmethod
    def roles(self) -> list[Role]:
        """Who takes part, and how many of each."""

    @abstractmethod
    def left(self) -> str:
        """What is still to come; empty when it is over."""

    def finish(self) -> None:  # noqa: B027
        """What must hold when everything has ended."""

    def audit_checks(self) -> tuple[Check, ...]:
        return WORK_CHECKS

    async def audit(self) -> None:
        """The real auditor must read 0."""
        auditor = Auditor(self.world.store, self.world.metrics, self.audit_checks())
        for check, count in (await auditor.audit()).items():
            if count:
                raise self.world.violate("auditor_reads_zero", f"{check} is {count}")

    def judge_effect(self, id: str, end: Any, epochs: list[int]) -> None:
        """Whose result was accepted did the work; and nobody does it twice under one epoch."""
        if len(set(epochs)) != len(epochs):
            raise self.world.violate("one_effect_per_epoch", f"{id} was done under {epochs}")
        if end.state == "done" and end.epoch not in epochs:
            raise self.world.violate(
                "accepted_is_done", f"{id} was accepted under {end.epoch}, done under {epochs}"
            )

    # What scenarios share --------------------------------------------------------------------

    def engine(self, count: int) -> Role:
        return Role("engine", self._start_engine, count)

    def _start_engine(self, process: Process) -> None:
        dues = DueRegistry()
        dues.register(self.parts.sweep(process.work, process.rng))
        sweeper = Sweeper(process.store, dues, self.world.metrics)
        sweeper.pause_seconds_max = SAFETY_POLL_SECONDS
        process.keep_ticking(sweeper)

    async def insist(
        self,
        process: Process,
        body: Body[..., R],
        *args: object,
        **kwargs: object,
    ) -> R:
        """As a client does: the same call again until it is answered."""
        while True:
            try:
                return await process.store.write(body, *args, **kwargs)
            except Unavailable:
                await asyncio.sleep(process.rng.uniform(0.5, 5.0))
