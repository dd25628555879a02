"""The virtual world from a shell.

python -m podium.sim run --seeds 1000    look for trouble; exit code 1 when there is some
python -m podium.sim replay work 17      one seed as a table
python -m podium.sim gate                what must pass before a change goes in
"""

from __future__ import annotations

import argparse
import os
import sys

from podium.sim.gate import digests, pass_gate
from podium.sim.mutants import MUTANTS
from podium.sim.replay import replay
from podium.sim.runner import Task, run, tasks
from podium.sim.scenarios import SCENARIOS


def main(arguments: list[str] | None = None) -> int:
    parsed = parser().parse_args(arguments)
    match parsed.verb:
        case "run":
            seeds = range(parsed.start, parsed.start + parsed.seeds)
            return int(run(tasks(seeds, parsed.scenario), parsed.jobs) > 0)
        case "replay":
            task = Task(parsed.scenario, parsed.seed, parsed.mutant, bool(parsed.mutant))
            return int(replay(task).invariant is not None)
        case "gate":
            return int(not pass_gate(parsed.jobs))
        case _:
            print("\n".join(digests(parsed.seeds)))
            return 0


def parser() -> argparse.ArgumentParser:
    cores = os.cpu_count() or 1
    top = argparse.ArgumentParser(prog="python -m podium.sim", description=__doc__)
    top.formatter_class = argparse.RawDescriptionHelpFormatter
    verbs = top.add_subparsers(dest="verb", required=True)
    verb = verbs.add_parser("run", help="live many seeds")
    verb.add_argument("--seeds", type=at_least_one, required=True)
    verb.add_argument("--start", type=int, default=0, help="the first seed")
    verb.add_argument("--scenario", choices=SCENARIOS, help="instead of all in turn")
    verb.add_argument("--jobs", type=int, default=cores, help="processes side by side")
    verb = verbs.add_parser("replay", help="show one seed")
    verb.add_argument("scenario", choices=SCENARIOS)
    verb.add_argument("seed", type=int)
    verb.add_argument(
        "--mutant", choices=[m.name for m in MUTANTS], default="", help="with this planted bug"
    )
    verb = verbs.add_parser("gate", help="seeds, planted bugs, determinism")
    verb.add_argument("--jobs", type=int, default=cores)
    verb = verbs.add_parser(
        "digests", help="a short hash of the history of each of the first seeds"
    )
    verb.add_argument("seeds", type=int)
    return top


def at_least_one(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not a number of seeds")
    return number


if __name__ == "__main__":
    sys.exit(main())
