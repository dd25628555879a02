"""The gate: what must pass before a change goes in.

Three questions. Do the seeds hold? Are the planted bugs still found, by the invariant that names
them, while the real code passes the same seeds under the same faults? And does one seed give one
history, whatever PYTHONHASHSEED is?
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import NamedTuple

from podium.sim.mutants import MUTANTS, SEEDS_MAX, Mutant
from podium.sim.runner import (
    CHUNK,
    Progress,
    Task,
    days_of_this_process,
    failure,
    live,
    processes,
    tasks,
)

SEEDS = 300
CLEAN_SEEDS_MIN = 6
DETERMINISM_SEEDS = 24
HASH_SEEDS = ("0", "1")


class Found(NamedTuple):
    mutant: str
    seeds: int | None
    """How many seeds it took; None when the bug was not found."""
    seen: str
    """The invariant that named it; or what else went wrong, when none did."""
    clean: str
    """What went wrong with the real code under the same faults; empty when nothing did."""


def hunt(name: str) -> Found:
    """Look for one planted bug, and then show that the real code passes where it was found."""
    mutant = next(mutant for mutant in MUTANTS if mutant.name == name)
    seeds, seen = _first_seen(mutant)
    clean = ""
    for seed in range(max(CLEAN_SEEDS_MIN, seeds or 0)):
        outcome = live(Task(mutant.scenario, seed, mutant.name))
        if outcome.invariant is not None:
            clean = f"seed {seed}: {outcome.message}"
            break
    return Found(name, seeds, seen, clean)


def _first_seen(mutant: Mutant) -> tuple[int | None, str]:
    others = "nothing else"
    for seed in range(SEEDS_MAX):
        outcome = live(Task(mutant.scenario, seed, mutant.name, is_mutated=True))
        if outcome.invariant in mutant.finds:
            return seed + 1, str(outcome.invariant)
        if outcome.invariant is not None:
            others = outcome.message
    return None, others


def digests(count: int) -> list[str]:
    """The histories of the first seeds, each as a short hash."""
    days = days_of_this_process()
    return [days.live(task).digest for task in tasks(range(count))]


def pass_gate(jobs: int, seeds: int = SEEDS) -> bool:
    began = time.perf_counter()
    others = [_start_digests(seed) for seed in HASH_SEEDS]
    with processes(jobs) as pool:
        hunts = [pool.submit(hunt, mutant.name) for mutant in MUTANTS]
        progress = Progress(seeds, jobs)
        failed = 0
        for outcome in pool.map(live, tasks(range(seeds)), chunksize=CHUNK):
            progress.add(outcome)
            if outcome.invariant is not None:
                failed += 1
                print(failure(outcome), flush=True)
        found = [future.result() for future in hunts]
    print(f"{progress.summary()}; {failed} failed")
    passed = failed == 0
    for result in found:
        passed &= _tell(result)
    passed &= _agree([process.communicate()[0].split() for process in others])
    verdict = "passed" if passed else "failed"
    print(f"the gate {verdict} in {time.perf_counter() - began:.0f} s")
    return passed


def _tell(result: Found) -> bool:
    if result.seeds is None:
        print(f"FAILED mutant {result.mutant} was not found in {SEEDS_MAX} seeds; {result.seen}")
    else:
        print(f"mutant {result.mutant}: {result.seen} after {result.seeds} seeds")
    if result.clean:
        print(f"FAILED the real code under the faults of {result.mutant}: {result.clean}")
    return result.seeds is not None and not result.clean


def _start_digests(hash_seed: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "podium.sim", "digests", str(DETERMINISM_SEEDS)]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


def _agree(histories: list[list[str]]) -> bool:
    first, second = histories
    if len(first) == len(second) == DETERMINISM_SEEDS and first == second:
        print(f"{DETERMINISM_SEEDS} seeds give the same histories under two hash seeds")
        return True
    differ = [n for n, (a, b) in enumerate(zip(first, second, strict=False)) if a != b]
    print(f"FAILED one seed, two histories: seeds {differ or 'that never ended'}")
    return False
