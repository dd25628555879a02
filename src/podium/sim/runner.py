"""Many days, on every core, and what came of them."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache
from multiprocessing import get_context
from typing import NamedTuple

from podium.sim.day import Almanac, Day, Outcome
from podium.sim.mutants import MUTANTS

ROTATION = ("work", "ownership", "bus", "work", "ownership", "bus", "work", "outage")
"""Which scenario a seed plays when none is asked for."""
CHUNK = 4


class Task(NamedTuple):
    """A day that can be sent to another process. `mutant` names whose faults are forced."""

    scenario: str
    seed: int
    mutant: str = ""
    is_mutated: bool = False


def tasks(seeds: Iterable[int], scenario: str | None = None) -> list[Task]:
    return [Task(scenario or ROTATION[seed % len(ROTATION)], seed) for seed in seeds]


class Days:
    """Lives tasks one after the other in this process."""

    def __init__(self) -> None:
        self._almanac = Almanac()
        self._mutants = {mutant.name: mutant for mutant in MUTANTS}
        self._queries = {mutant.name: mutant.queries() for mutant in MUTANTS}

    def live(self, task: Task, *, keeps_lines: bool = False) -> Outcome:
        return self._almanac.live(self._day(task), keeps_lines=keeps_lines)

    def _day(self, task: Task) -> Day:
        if not task.mutant:
            return Day(task.scenario, task.seed)
        mutant = self._mutants[task.mutant]
        if not task.is_mutated:
            return Day(task.scenario, task.seed, mutant.faults)
        queries = self._queries[task.mutant]
        return Day(task.scenario, task.seed, mutant.faults, mutant.parts, task.mutant, queries)


def live(task: Task) -> Outcome:
    return days_of_this_process().live(task)


@lru_cache(maxsize=1)
def days_of_this_process() -> Days:
    return Days()


def processes(jobs: int) -> ProcessPoolExecutor:
    """New ones, not forks: a child begins with nothing but its task."""
    return ProcessPoolExecutor(jobs, mp_context=get_context("spawn"))


def run_all(work: Sequence[Task], jobs: int) -> Iterator[Outcome]:
    """The outcomes, in order, from `jobs` processes."""
    if jobs <= 1:
        yield from map(live, work)
        return
    with processes(jobs) as pool:
        yield from pool.map(live, work, chunksize=CHUNK)


class Progress:
    """One line that is written over and over, where somebody looks."""

    def __init__(self, total: int, jobs: int) -> None:
        self._total = total
        self._jobs = jobs
        self._began = time.perf_counter()
        self._count = 0
        self.steps = 0
        self.virtual_seconds = 0.0
        self.cpu_seconds = 0.0

    def add(self, outcome: Outcome) -> None:
        self._count += 1
        self.steps += outcome.steps
        self.virtual_seconds += outcome.seconds
        self.cpu_seconds += outcome.cpu_seconds
        if sys.stderr.isatty() and self._count % 10 == 0:
            print(
                f"\r{self._count} of {self._total} seeds, {self._rate():.1f}/s",
                end="",
                file=sys.stderr,
            )

    def _rate(self) -> float:
        return self._count / (time.perf_counter() - self._began)

    def summary(self) -> str:
        seconds = time.perf_counter() - self._began
        count = max(1, self._count)
        return (
            f"{self._count} seeds in {seconds:.1f} s with {self._jobs} processes, "
            f"{count / max(self.cpu_seconds, 1e-9):.1f} seeds/s per core, "
            f"{self.steps // count} steps and {self.virtual_seconds / count:.0f} virtual seconds each"
        )


def command(outcome: Outcome) -> str:
    bug = f" --mutant {outcome.mutant}" if outcome.mutant else ""
    return f"python -m podium.sim replay {outcome.scenario} {outcome.seed}{bug}"


def failure(outcome: Outcome) -> str:
    return (
        f"FAILED {outcome.invariant} scenario={outcome.scenario} seed={outcome.seed}: "
        f"{outcome.message} -> {command(outcome)}"
    )


def run(work: Sequence[Task], jobs: int) -> int:
    """How many failed. Each failure is one line with the command that replays it."""
    progress = Progress(len(work), jobs)
    failed = 0
    for outcome in run_all(work, jobs):
        progress.add(outcome)
        if outcome.invariant is not None:
            failed += 1
            print(failure(outcome), flush=True)
    print(f"{progress.summary()}; {failed} failed")
    return failed
