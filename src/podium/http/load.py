"""How many requests are in work, and how many may be.

Whoever only waits (for an item, for an event, for the rest of a body) is not in work: it costs next to
nothing, and many who wait keep nobody out.

How many a machine serves in good time nobody knows beforehand, so it is found out: when many are in work
and they take long, fewer are let in; while they are quick, slowly more again, up to the limit that was set.
Whoever is refused at once can come back; whoever stands behind five hundred others only waits.

What those who wait do cost is the memory of the bodies that they have half sent. It is counted too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from starlette.requests import Request

from podium.http.errors import Overloaded
from podium.kernel.clock import Clock

SLOW_SECONDS = 0.1
LEAST = 16
"""So many keep a machine busy however slow it is."""
FIRST = 128
"""Before anything is known."""
CUT = 0.8
MORE = 0.05
"""Per quick one: a handful of seconds from the least to hundreds."""
HELD_BYTES_MAX = 64 * 1024 * 1024
"""Of bodies, all together, whose requests are not answered yet. One alone may be larger."""

SMALL_BYTES = 64 * 1024


class Load:
    def __init__(self, clock: Clock, most: int) -> None:
        self.count = 0
        self.held_bytes = 0
        self.limit = float(min(FIRST, most))
        self._clock = clock
        self._most = float(most)
        self._least = float(min(LEAST, most))
        self._cut_at = -SLOW_SECONDS

    @property
    def is_full(self) -> bool:
        return self.count >= self.limit

    def enter(self) -> Place:
        return Place(self, self._clock)

    def note(self, seconds: float) -> None:
        """One that was in work is so no more."""
        if 2 * self.count <= self.limit:
            return  # it is not the limit that matters: nothing is learnt about it
        if seconds <= SLOW_SECONDS:
            self.limit = min(self._most, self.limit + MORE)
            return
        # Not slow by itself: they are in each other's way. One cut, and then see what it did.
        now = self._clock.monotonic()
        if now - self._cut_at >= SLOW_SECONDS:
            self._cut_at = now
            self.limit = max(self._least, CUT * self.limit)


class Place:
    """One request's place among those in work."""

    __slots__ = ("_clock", "_held_bytes", "_load", "_read_bytes", "_since")

    def __init__(self, load: Load, clock: Clock) -> None:
        self._load = load
        self._clock = clock
        self._held_bytes = 0
        self._read_bytes = 0
        self._take()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Step aside."""
        self._leave()
        try:
            yield
        finally:
            self._take()

    def expect(self, size: int) -> None:
        """So large its body says it is. Who comes late with a large one is refused now, and not when
        everybody has sent the half of it."""
        self._hold(size)

    def read(self, size: int) -> None:
        """So many more bytes of its body are in memory, until it is answered."""
        self._read_bytes += size
        if self._read_bytes > self._held_bytes:
            self._hold(self._read_bytes - self._held_bytes)

    def _hold(self, size: int) -> None:
        mine, all_bytes = self._held_bytes + size, self._load.held_bytes + size
        # A small one always has room: large ones that stand still must not keep everybody out.
        if mine > SMALL_BYTES and all_bytes > max(HELD_BYTES_MAX, mine):
            raise Overloaded("too many large requests are under way; try again in a second")
        self._held_bytes, self._load.held_bytes = mine, all_bytes

    def end(self) -> None:
        self._leave()
        self._load.held_bytes -= self._held_bytes

    def _leave(self) -> None:
        self._load.note(self._clock.monotonic() - self._since)
        self._load.count -= 1

    def _take(self) -> None:
        self._load.count += 1
        self._since = self._clock.monotonic()


def load_of(request: Request) -> Place:
    place: Place = request.scope["podium.load"]
    return place
