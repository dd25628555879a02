"""The clocks of the virtual world. All follow the loop; each is wrong in its own way."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from podium.kernel.clock import EPOCH, MICROSECOND
from podium.sim.loop import SimLoop

START = datetime(2026, 1, 1, tzinfo=UTC)


class VirtualClock:
    """The loop's time plus an error: a rate that is not quite one, and jumps of the wall clock."""

    def __init__(self, loop: SimLoop, *, drift: float = 0.0) -> None:
        self._loop = loop
        self._rate = 1.0 + drift
        self.jumped_seconds = 0.0

    def now(self) -> datetime:
        return START + timedelta(seconds=self.monotonic() + self.jumped_seconds)

    def monotonic(self) -> float:
        return self._loop.time() * self._rate

    def jump(self, seconds: float) -> None:
        """As an operator or NTP would: the wall clock alone."""
        self.jumped_seconds += seconds

    @property
    def micros(self) -> int:
        return (self.now() - EPOCH) // MICROSECOND
