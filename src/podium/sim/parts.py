"""The code under test, as pieces. A mutant swaps one of them; everybody else takes what is real."""

from __future__ import annotations

from dataclasses import dataclass

from podium.engine import BusConsumer
from podium.kernel.work import Work, WorkSweep


@dataclass(frozen=True, slots=True)
class Parts:
    work: type[Work] = Work
    sweep: type[WorkSweep] = WorkSweep
    bus_consumer: type[BusConsumer] = BusConsumer
    relay_marks_first: bool = False
    """The scenario's own relay says that it sent a message before it sends it."""


REAL = Parts()
