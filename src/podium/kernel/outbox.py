"""The outbox: what a broker must be told.

There is no table for it. A message is a work row, committed with what caused it, and that row is
its own outbox: a relay *takes* ready rows of the queues that a broker carries, which hides them for
a while (`offered`), and publishes a notice of each. Whoever hears a notice claims the row by its id.
A row that nobody claimed is ready again when its time of hiding is over, and is told once more:

    ready ──take──► offered ──heard: claim by id──► running ──► done
      ▲                │
      └── give_back ───┤  the broker did not take it
      └── recall ──────┤  its stream is gone
      └── the sweeper ─┘  nobody came

So the broker may lose, repeat or delay whatever it likes: it costs time, never a message. A notice
names the row and its epoch; every grant makes the epoch grow, so that one attempt has one name and
the next attempt has another.

The proof is in `podium.testing.suites.bus` and in tests/conformance/test_nats*.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from podium.kernel.store import ROWS_MAX, Row, Tx
from podium.kernel.work import Work, decide

HIDE_SECONDS = 30.0
HIDE_SECONDS_MAX = 3_600.0
NOBODY = ""
"""Holds nothing: recalling for it recalls everything."""


class Notice(NamedTuple):
    """One row, to be told. It carries the body, for who cannot ask the row."""

    id: str
    epoch: int
    queue: str
    payload: str
    properties: str | None
    rank: int
    hidden_micros: int
    """After that the row is told again, and this notice is of no use."""


class Broker(Protocol):
    """What a relay must know of a broker."""

    async def generation(self) -> str | None:
        """The name of the stream that keeps what is published: another one when it was made anew.
        None while the broker is away."""

    async def publish(self, notices: Sequence[Notice]) -> list[Notice]:
        """Those that the broker has for sure. A notice it already has is not kept twice."""


class Outbox:
    def __init__(
        self,
        work: Work,
        *,
        hide_seconds: float = HIDE_SECONDS,
        hide_seconds_max: float = HIDE_SECONDS_MAX,
    ) -> None:
        decide.seconds("hide_seconds", hide_seconds)
        decide.seconds("hide_seconds_max", hide_seconds_max)
        self._work = work
        self._hide_seconds = hide_seconds
        self._hide_seconds_max = hide_seconds_max

    async def waiting(self, tx: Tx, queues: Iterable[str]) -> list[str]:
        """Those of these queues that have something to tell."""
        return await self._work.waiting(tx, list(queues))

    async def take(self, tx: Tx, queue: str, *, holder: str, n: int) -> list[Notice]:
        """Hide up to `n` ready rows and say what to tell, the most urgent first."""
        decide.name("holder", holder)
        decide.refuse_count(n)
        marks = self._work.marks
        low = marks.low(queue)
        with marks.looking(queue, low):
            rows = await tx.rows(
                "outbox.take",
                queue=queue,
                holder=holder,
                n=n,
                low=low,
                hide_seconds=self._hide_seconds,
                hide_seconds_max=self._hide_seconds_max,
            )
        notices = sorted((Notice(*row) for row in rows), key=_by_rank)
        marks.claimed(queue, notices[-1].rank if notices else None)
        return notices

    async def give_back(self, tx: Tx, notices: Sequence[Notice], *, holder: str) -> int:
        """Not told: ready again, in their old place. One that was claimed meanwhile stays claimed."""
        decide.refuse_too_many(notices)
        pairs = sorted({(notice.id, notice.epoch) for notice in notices})
        return self._announce(tx, await tx.rows("outbox.give_back", notices=pairs, holder=holder))

    async def recall(self, tx: Tx, queues: Iterable[str], *, holder: str, n: int = ROWS_MAX) -> int:
        """What was told under another name than `holder` is ready again. Ask until it says 0."""
        rows = await tx.rows(
            "outbox.recall",
            queues=_listed(queues),
            holder=holder,
            n=n,
            hide_seconds_max=self._hide_seconds_max,
        )
        return self._announce(tx, rows)

    def _announce(self, tx: Tx, rows: Sequence[Row]) -> int:
        self._work.announce(tx, [(row.queue, row.rank) for row in rows])
        return len(rows)


def _listed(queues: Iterable[str]) -> list[tuple[str]]:
    return [(queue,) for queue in queues]


def _by_rank(notice: Notice) -> int:
    return notice.rank
