"""scripts/bench [--quick] [--only NAME …] [--json FILE] [--save]"""

from __future__ import annotations

import argparse
import json
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from bench import machine, plot, report
from bench.contestants import CONTESTANTS
from bench.places import places
from bench.run import Run
from bench.samples import Samples
from bench.sizes import FULL, QUICK, Sizes

MEASURES = (
    "burst",
    "one",
    "small",
    "backlog",
    "snapshot",
    "relay",
    "idle",
    "route",
    "up",
    "simulator",
)


def main() -> None:
    asked = _arguments()
    failed: list[str] = []
    if asked.load:
        kept = json.loads(asked.load.read_text(encoding="utf-8"))
        samples, facts = Samples(kept["samples"]), kept["facts"]
    else:
        samples, facts, failed = _measure(QUICK if asked.quick else FULL, asked.only)
    if asked.json:
        text = json.dumps({"facts": facts, "samples": samples.found}, indent=1)
        asked.json.write_text(text + "\n", encoding="utf-8")
    text = report.markdown(samples, facts)
    print(text)
    if failed:
        sys.exit(f"bench: failed and missing above: {', '.join(failed)}")
    if asked.save:
        report.save(text)
        plot.plot(samples, facts)


def _measure(sizes: Sizes, only: Sequence[str]) -> tuple[Samples, dict[str, str], list[str]]:
    """The measures that were chosen; one that fails is told, and does not cost us the others."""
    failed: list[str] = []
    chosen = [c for c in CONTESTANTS if c.name in only] or list(CONTESTANTS)
    with places() as found:
        facts = machine.describe(found.folder, found.server.url)
        facts["sizes"] = sizes.describe()
        run = Run(found, sizes, chosen)
        measures = run.measures()
        for name in [m for m in MEASURES if m in only] or MEASURES:
            try:
                measures[name]()
            except Exception:
                traceback.print_exc()
                failed.append(name)
    return run.samples, facts, failed


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small numbers, to see that it runs")
    parser.add_argument(
        "--only",
        nargs="+",
        default=[],
        choices=[*MEASURES, *(c.name for c in CONTESTANTS)],
        metavar="NAME",
        help=f"measures ({', '.join(MEASURES)}) or contestants ({', '.join(c.name for c in CONTESTANTS)})",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every sample there")
    parser.add_argument(
        "--load", type=Path, metavar="FILE", help="report what --json wrote, measure nothing"
    )
    parser.add_argument(
        "--save", action="store_true", help="write the result into bench/README.md and its picture"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
