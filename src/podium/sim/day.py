"""One seed from beginning to end."""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from podium.kernel.queries import Queries
from podium.kernel.telemetry import Metrics
from podium.sim.faults import Faults
from podium.sim.loop import Violation
from podium.sim.nemesis import Nemesis, draw_faults
from podium.sim.parts import REAL, Parts
from podium.sim.randomness import Randomness
from podium.sim.scenarios import SCENARIOS, Scenario
from podium.sim.template import Template, load_queries
from podium.sim.world import Line, World

LOOK_SECONDS = 5.0
COLLECT_EVERY_DAYS = 25


class Outcome(NamedTuple):
    scenario: str
    seed: int
    mutant: str
    """Whose planted bug was in it; empty for the real code."""
    invariant: str | None
    """The promise that was broken; None on a good day."""
    message: str
    digest: str
    steps: int
    seconds: float
    """Virtual ones."""
    cpu_seconds: float
    lines: list[Line]


@dataclass(frozen=True, slots=True)
class Day:
    """Which world, and what is done to it."""

    scenario: str
    seed: int
    faults: Faults | None = None
    """Instead of those that the seed would draw."""
    parts: Parts = REAL
    mutant: str = ""
    queries: Queries | None = None
    """With a planted bug; None for the real ones."""


class Almanac:
    """What all days of one process share: the empty database, the queries, the meters."""

    def __init__(self) -> None:
        self._template = Template()
        self._queries = load_queries()
        self._metrics = Metrics()
        self._days = 0

    def live(self, day: Day, *, keeps_lines: bool = False) -> Outcome:
        began = time.process_time()
        randomness = Randomness(f"{day.scenario}/{day.seed}")
        kind = SCENARIOS[day.scenario]
        faults = day.faults or kind.limit(draw_faults(randomness.fork("faults")))
        world = World(
            randomness,
            faults,
            self._template,
            day.queries or self._queries,
            self._metrics,
            make_work=day.parts.work,
            keeps_lines=keeps_lines,
        )
        gc.disable()
        invariant, message = None, ""
        try:
            scenario = kind(world, day.parts)
            world.tell(None, f"faults: {describe(faults)}")
            with listening_to_alarms(world):
                world.loop.run(_play(world, scenario))
        except Violation as violation:
            invariant, message = violation.invariant, str(violation)
            world.tell(None, message)
        except Exception as error:
            invariant, message = "nothing_crashes", f"nothing_crashes: {error!r}"
            world.tell(None, message)
        finally:
            steps, seconds = world.loop.steps, world.loop.time()
            world.loop.dispose()
            self._tidy()
        return Outcome(
            day.scenario,
            day.seed,
            day.mutant,
            invariant,
            message,
            world.trace.digest,
            steps,
            seconds,
            time.process_time() - began,
            world.trace.lines,
        )

    def _tidy(self) -> None:
        self._days += 1
        if self._days % COLLECT_EVERY_DAYS == 0:
            gc.collect()
        gc.enable()


async def _play(world: World, scenario: Scenario) -> None:
    await world.store.open()
    await scenario.prepare()
    world.has_faults = True
    for role in scenario.roles():
        for _ in range(role.count):
            world.boot(role)
    nemesis = Nemesis(world)
    nemesis.begin()
    await _over(world, scenario, scenario.horizon_seconds)
    world.tell(None, "all faults end here")
    nemesis.heal()
    if not await _over(world, scenario, scenario.heal_seconds_max):
        raise world.violate("everything_ends", f"still waiting: {scenario.left()}")
    for checker in world.checkers:
        checker.finish()
    scenario.finish()
    await scenario.audit()


async def _over(world: World, scenario: Scenario, seconds: float) -> bool:
    """Wait until it is over, for so long at most."""
    until = world.loop.time() + seconds
    while scenario.left():
        if world.loop.time() >= until:
            return False
        await asyncio.sleep(LOOK_SECONDS)
        if world.is_calm:
            for checker in world.checkers:
                checker.look()
    return True


def describe(faults: Faults) -> str:
    on = [
        f"{field}={value:g}" if isinstance(value, float) else f"{field}={value}"
        for field in Faults.__slots__
        if (value := getattr(faults, field))
    ]
    return ", ".join(on) or "none"


class Alarm(logging.Handler):
    """An error in the log calls for a person. Faults that the house claims to survive do not."""

    EXPECTED = ("a handler failed", "a message failed")

    def __init__(self, world: World) -> None:
        super().__init__(logging.ERROR)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else getattr(record, "facts", None)
        if record.getMessage() not in self.EXPECTED and not isinstance(error, Violation):
            self._world.violate("nothing_alarms", f"{record.getMessage()}: {error!r}")


@contextmanager
def listening_to_alarms(world: World) -> Iterator[None]:
    log, alarm = logging.getLogger("podium"), Alarm(world)
    before = log.level, log.propagate
    log.addHandler(alarm)
    log.setLevel(logging.ERROR)
    log.propagate = False
    try:
        yield
    finally:
        log.removeHandler(alarm)
        log.setLevel(before[0])
        log.propagate = before[1]
