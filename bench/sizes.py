"""How much work a run does: enough to mean something, or just enough to see that it runs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sizes:
    rounds: int
    """How often everything is measured, in turn; the table shows medians."""
    items: int
    one_by_one: int
    """Items submitted each after the result of the one before."""
    callers: int
    calls: int
    """Small transactions per caller."""
    level: int
    """The backlog that the others are compared with."""
    ready: int
    delayed: int
    finished: int
    stretches: int
    """How often the two backlogs take turns."""
    stretch_seconds: float
    snapshot_rounds: int
    snapshot_seconds: float
    idle_seconds: float
    route_seconds: float
    seeds: int

    def describe(self) -> str:
        return (
            f"{self.items:,} items, {self.one_by_one} one by one, {self.rounds} rounds; "
            f"{self.stretches} pairs of {self.stretch_seconds:g} s per backlog; "
            f"{self.snapshot_rounds} × {self.snapshot_seconds:g} s of held snapshot; "
            f"{self.idle_seconds:g} s idle"
        )


FULL = Sizes(
    rounds=3,
    items=20_000,
    one_by_one=300,
    callers=50,
    calls=600,
    level=1_000,
    ready=1_000_000,
    delayed=500_000,
    finished=5_000_000,
    stretches=7,
    stretch_seconds=2.0,
    snapshot_rounds=2,
    snapshot_seconds=60.0,
    idle_seconds=30.0,
    route_seconds=5.0,
    seeds=100,
)

QUICK = Sizes(
    rounds=1,
    items=1_000,
    one_by_one=20,
    callers=50,
    calls=40,
    level=1_000,
    ready=20_000,
    delayed=20_000,
    finished=20_000,
    stretches=2,
    stretch_seconds=0.3,
    snapshot_rounds=1,
    snapshot_seconds=2.0,
    idle_seconds=2.0,
    route_seconds=0.5,
    seeds=4,
)
