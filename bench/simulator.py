"""How fast the simulator explores: seeds per second on one core."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from importlib.util import find_spec

SAID = re.compile(r"([\d,.]+) seeds/s")


def seeds_per_second(seeds: int) -> float | None:
    """By its own word, else by the clock; None where there is no simulator."""
    if find_spec("podium.sim.__main__") is None:
        return None
    began = time.perf_counter()
    ran = subprocess.run(
        [sys.executable, "-m", "podium.sim", "run", "--seeds", str(seeds)],
        capture_output=True,
        text=True,
        check=True,
    )
    seconds = time.perf_counter() - began
    said = SAID.search(ran.stdout + ran.stderr)
    return float(said[1].replace(",", "")) if said else seeds / seconds
