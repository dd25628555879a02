"""What a measure brings back."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import NamedTuple


class Burst(NamedTuple):
    enqueue_seconds: float
    drain_seconds: float


@dataclass
class Turns:
    """Items submitted one after the other: how long until each was begun, and until its result was seen."""

    begun_seconds: list[float] = field(default_factory=list)
    seen_seconds: list[float] = field(default_factory=list)
    _submitted: float = 0.0

    def submit(self) -> None:
        self._submitted = time.perf_counter()

    def begun(self) -> None:
        self.begun_seconds.append(time.perf_counter() - self._submitted)

    def seen(self) -> None:
        self.seen_seconds.append(time.perf_counter() - self._submitted)
