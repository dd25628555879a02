"""Was the machine ours? What took long while others had its processors says nothing about us."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

OTHERS_SHARE_MAX = 0.15
TICKS = os.sysconf("SC_CLK_TCK")
IDLE = (3, 4)
"""Of the fields of /proc/stat: idle, and waiting for a disk."""


class Used(NamedTuple):
    """Processor seconds since the machine was started, by everybody and by us."""

    all: float
    ours: float
    possible: float

    @classmethod
    def now(cls, *pids: int) -> Used:
        # Guests, behind the eighth field, are counted among users already.
        fields = [int(word) for word in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
        idle = sum(fields[n] for n in IDLE)
        ours = sum(_ticks(pid) for pid in (os.getpid(), *pids))
        return cls((sum(fields) - idle) / TICKS, ours / TICKS, sum(fields) / TICKS)

    def others_share(self, before: Used) -> float:
        """Of all processors, since then."""
        others = (self.all - before.all) - (self.ours - before.ours)
        return max(0.0, others / (self.possible - before.possible))


def _ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])
