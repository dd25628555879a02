"""Time. The only module of the house that asks the operating system what time it is.

`now()` is for people and due dates, `monotonic()` for durations. What is *compared between
processes* is neither of them: it is the database's clock, `podium_now()` in SQL.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


class Clock(Protocol):
    def now(self) -> datetime:
        """Wall time, aware, UTC."""

    def monotonic(self) -> float:
        """Seconds from some fixed moment; never steps back."""


class SystemClock:
    """Wall time at boot plus the monotonic clock.

    When somebody sets the machine's clock, a lease neither ends early nor lives an hour longer:
    this process goes on counting from the moment it started.
    """

    def __init__(self) -> None:
        self._boot_wall = datetime.now(UTC)
        self._boot_monotonic = time.monotonic()

    def now(self) -> datetime:
        return self._boot_wall + timedelta(seconds=self.monotonic() - self._boot_monotonic)

    def monotonic(self) -> float:
        return time.monotonic()


class ManualClock:
    """A clock that moves only when told to, for tests and for simulation."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._start = start
        self.elapsed_seconds = 0.0
        self.wall_offset_seconds = 0.0

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self.elapsed_seconds + self.wall_offset_seconds)

    def monotonic(self) -> float:
        return self.elapsed_seconds

    def advance(self, seconds: float) -> None:
        assert seconds >= 0, "time does not run backwards; jump() moves the wall clock alone"
        self.elapsed_seconds += seconds

    def jump(self, seconds: float) -> None:
        """Step the wall clock, as an operator or NTP would, leaving the monotonic one alone."""
        self.wall_offset_seconds += seconds


def to_micros(moment: datetime) -> int:
    """Microseconds since 1970. Refuses a naive datetime: it would mean another moment elsewhere."""
    if moment.tzinfo is None:
        raise ValueError(f"{moment!r} has no time zone; every time in Podium is aware")
    return (moment - EPOCH) // MICROSECOND


def from_micros(micros: int) -> datetime:
    return EPOCH + timedelta(microseconds=micros)
