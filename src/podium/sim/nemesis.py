"""The nemesis: what goes wrong in this seed, and when.

Every seed draws its own mix, and leaves whole classes of faults out: a world in which everything
fails all the time hides the one fault that matters behind the others.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable

from podium.sim.faults import Faults
from podium.sim.world import Process, World

RESTART_SECONDS = (1.0, 120.0)
PAUSES_SECONDS = (1.0, 20.0, 70.0, 150.0, 300.0)
NODE_JUMP_SECONDS_MAX = 3_600.0
DATABASE_JUMP_SECONDS_MAX = 600.0


def draw_faults(rng: random.Random) -> Faults:
    """A mix in which each class is often off."""

    def one_of(*choices: float) -> float:
        return rng.choice((0.0, 0.0, *choices))

    return Faults(
        kill_every_seconds=one_of(200.0, 60.0),
        pause_every_seconds=one_of(200.0, 60.0),
        stall=one_of(0.005, 0.03),
        lost_before=one_of(0.01, 0.08),
        lost_after=one_of(0.01, 0.08),
        stuck=one_of(0.005, 0.02),
        disk_full=one_of(0.02),
        ring_lost=one_of(0.2, 1.0),
        ring_doubled=one_of(0.3),
        ring_late=one_of(0.3),
        node_clock_every_seconds=one_of(60.0),
        database_clock_every_seconds=one_of(240.0),
        drift_max=one_of(0.02),
        resend=one_of(0.3),
        message_lost=one_of(0.05, 0.2),
        message_doubled=one_of(0.3),
        message_late=one_of(0.3),
        broken_for_ever=one_of(1.0),
    )


class Nemesis:
    def __init__(self, world: World) -> None:
        self._world = world
        self._rng = world.rngs["nemesis"]

    def begin(self) -> None:
        faults = self._world.faults
        for every_seconds, strike in (
            (faults.kill_every_seconds, self._kill),
            (faults.pause_every_seconds, self._pause),
            (faults.node_clock_every_seconds, self._jump_node_clock),
            (faults.database_clock_every_seconds, self._jump_database_clock),
        ):
            if every_seconds:
                loop = self._world.loop
                loop.create_task(self._keep_striking(every_seconds, strike), context=loop.outside)

    def heal(self) -> None:
        """Everything works again, save perhaps one process that is not the only one of its kind."""
        roles = Counter(p.role.name for p in self._world.processes)
        spare = [p for p in self._world.processes if p.role.is_mortal and roles[p.role.name] > 1]
        broken = None
        if spare and self._rng.random() < self._world.faults.broken_for_ever:
            broken = self._rng.choice(spare)
        self._world.heal(broken)

    async def _keep_striking(self, every_seconds: float, strike: Callable[[], None]) -> None:
        while self._world.has_faults:
            await asyncio.sleep(self._rng.expovariate(1.0 / every_seconds))
            if self._world.has_faults:
                strike()

    def _kill(self) -> None:
        victims = [p for p in self._world.processes if p.role.is_mortal]
        if victims:
            self.kill_and_restart(self._rng.choice(victims), self._rng.uniform(*RESTART_SECONDS))

    def kill_and_restart(self, process: Process, after_seconds: float) -> None:
        self._world.kill(process)
        self._world.loop.later(after_seconds, self._world.boot, process.role)

    def _pause(self) -> None:
        victims = [p for p in self._world.processes if p.role.is_pausable and not p.node.is_paused]
        if victims:
            victim = self._rng.choice(victims)
            seconds = self._rng.choice(PAUSES_SECONDS)
            self._world.tell(victim.node, f"is paused for {seconds:.0f} s")
            victim.node.pause()
            self._world.loop.later(seconds, victim.node.resume)

    def _jump_node_clock(self) -> None:
        victim = self._rng.choice(self._world.processes)
        seconds = self._rng.uniform(-1, 1) * NODE_JUMP_SECONDS_MAX
        self._world.tell(victim.node, f"has its clock set by {seconds:+.0f} s")
        victim.clock.jump(seconds)

    def _jump_database_clock(self) -> None:
        clock = self._world.clock
        seconds = self._rng.uniform(-1, 1) * DATABASE_JUMP_SECONDS_MAX
        # Never further back than one jump, or nothing could end within the time we give it.
        seconds = max(seconds, -DATABASE_JUMP_SECONDS_MAX - clock.jumped_seconds)
        self._world.tell(None, f"the database's clock is set by {seconds:+.0f} s")
        clock.jump(seconds)
