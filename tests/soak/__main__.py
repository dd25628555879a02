"""python -m tests.soak [kill|up|powercut|fsync|diskfull|connections|loris|overload|all] [--rounds N] [--seed S]"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.soak import connections, diskfull, fsync, kills, loris, overload, powercut, ups
from tests.soak.needs import Missing
from tests.soak.results import Result, table
from tests.soak.trial import Say

Run = Callable[[Path, int, int, Say], list[Result]]


class Part(NamedTuple):
    run: Run
    rounds: int
    check_needs: Callable[[], None]


def _needs_nothing() -> None:
    pass


PARTS = {
    "kill": Part(kills.run, kills.ROUNDS, _needs_nothing),
    "up": Part(ups.run, ups.ROUNDS, _needs_nothing),
    "powercut": Part(powercut.run, powercut.ROUNDS, powercut.check_needs),
    "fsync": Part(fsync.run, fsync.ROUNDS, fsync.check_needs),
    "diskfull": Part(diskfull.run, diskfull.ROUNDS, diskfull.check_needs),
    "connections": Part(connections.run, connections.ROUNDS, _needs_nothing),
    "loris": Part(loris.run, loris.ROUNDS, _needs_nothing),
    "overload": Part(overload.run, overload.ROUNDS, _needs_nothing),
}


def main() -> int:
    options = _arguments().parse_args()
    # Also when it is asked to stop, what it mounted and started is taken away again.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    wanted = list(PARTS) if options.part == "all" else [options.part]
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"[{time.monotonic() - began:7.1f} s] {text}", flush=True)

    say(f"seed {seed}; repeat: scripts/soak {options.part} --seed {seed}")
    folder = Path(tempfile.mkdtemp(prefix="podium-soak-"))
    folder.chmod(0o755)
    missing: list[str] = []
    results: list[Result] = []
    for name in wanted:
        part = PARTS[name]
        try:
            part.check_needs()
            results += part.run(folder, options.rounds or part.rounds, seed, say)
        except Missing as error:
            missing.append(f"{name} could not run: {error}")
            say(missing[-1])
    return _conclude(results, missing, folder)


def _conclude(results: list[Result], missing: list[str], folder: Path) -> int:
    print(f"\n{table(results)}")
    problems = [problem for result in results for problem in result.problems]
    for text in (*problems, *missing):
        print(f"\n{text}", file=sys.stderr)
    is_good = bool(results) and not missing and all(result.is_good for result in results)
    if is_good:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        print(f"\nwhat the processes left is in {folder}", file=sys.stderr)
    print("\nall held" if is_good else "\nNOT all held")
    return 0 if is_good else 1


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scripts/soak", description=__doc__)
    parser.add_argument("part", nargs="?", choices=(*PARTS, "all"), default="all")
    parser.add_argument("--rounds", type=int, help="instead of each part's own number")
    parser.add_argument("--seed", type=int, help="repeat a run")
    return parser


if __name__ == "__main__":
    sys.exit(main())
