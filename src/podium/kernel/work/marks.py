"""Low-water marks: where in a queue the next claim may begin to look.

While somebody holds an old snapshot open, PostgreSQL cannot clear away the remains of rows that
were claimed, and every claim would walk over all of them again to reach the first live one. So
each process remembers, per queue, the rank of the last row it claimed, and begins there. Whatever
becomes ready below the mark lowers it: at once in this process, by a bell's hint in the others.

A mark is a hint and never a truth: a lost hint, or rows that a dying claimer had locked, could
hide below it. So each queue is looked at from the bottom again every second, or as often as keeps
the cost of looking below a twentieth.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from podium.kernel.clock import Clock

LOOK_BELOW_SECONDS = 1.0
COST_SHARE_MAX = 0.05


class Marks:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._marks: dict[str, int] = {}
        self._heard: dict[str, int] = {}
        """The lowest rank that became ready since the last claim ended, perhaps while it ran."""
        self._look_below_at: dict[str, float] = {}

    def low(self, queue: str) -> int:
        """The rank to begin at; 0 means from the very bottom."""
        return 0 if self.may_look_below(queue) else self._marks.get(queue, 0)

    def may_look_below(self, queue: str) -> bool:
        return self._clock.monotonic() >= self._look_below_at.get(queue, 0.0)

    @contextmanager
    def looking(self, queue: str, low: int) -> Iterator[None]:
        """Around a claim: a look from the bottom earns the right to skip the next ones."""
        began = self._clock.monotonic()
        yield
        if low == 0:
            ended = self._clock.monotonic()
            pause = max(LOOK_BELOW_SECONDS, (ended - began) / COST_SHARE_MAX)
            self._look_below_at[queue] = ended + pause

    def claimed(self, queue: str, highest: int | None) -> None:
        heard = self._heard.pop(queue, None)
        if highest is not None:
            self._marks[queue] = highest if heard is None else min(highest, heard)

    def lower(self, queue: str, rank: int) -> None:
        self._heard[queue] = min(rank, self._heard.get(queue, rank))
        if rank < self._marks.get(queue, 0):
            self._marks[queue] = rank

    def on_ring(self, channel: str, hint: int | None) -> None:
        """What another process made ready (see `Bell.watch`)."""
        kind, _, queue = channel.partition(":")
        if kind == "work":
            self.lower(queue, 0 if hint is None else hint)
