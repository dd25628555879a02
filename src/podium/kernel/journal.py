"""The journal: everything leaves a trace, in the transaction that did it.

Each transition of an aggregate (a run, a batch, a job, a work item) is one line with actor, epoch
and reason. Lines of one aggregate are read in order; all lines can be followed live, in the order
in which they were committed: a follower never sees a line appear behind one it has already read.
Reasons and data are written with every known secret struck out: lines are kept, and shown.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from podium.kernel import payload
from podium.kernel.errors import Invalid
from podium.kernel.redactor import REDACTOR, Redactor
from podium.kernel.store import Store, Tx

CHANNEL = "journal"
SAFETY_POLL_SECONDS = 1.0


class Event(NamedTuple):
    kind: str
    aggregate_id: str
    event: str
    actor: str | None = None
    epoch: int | None = None
    reason: str | None = None
    data: Any = None


class Position(NamedTuple):
    """A place between two lines."""

    tx: int = 0
    seq: int = 0


START = Position()


class Line(NamedTuple):
    seq: int
    happened_at: datetime
    kind: str
    aggregate_id: str
    event: str
    actor: str | None
    epoch: int | None
    reason: str | None
    data: str | None
    tx: int

    @property
    def position(self) -> Position:
        return Position(self.tx, self.seq)


async def append(tx: Tx, events: Sequence[Event], *, redactor: Redactor = REDACTOR) -> None:
    """Write lines in the caller's transaction: they are there if and only if its change is."""
    if not events:
        return
    await tx.rows("journal.append", events=[_row(event, redactor) for event in events])
    tx.ring(CHANNEL)


def _row(event: Event, redactor: Redactor) -> Event:
    if event.reason is None and event.data is None:
        return event
    data = None
    if event.data is not None:
        data = redactor.mask_json(payload.dumps(event.data, field="data"))
    reason = None if event.reason is None else redactor.mask(event.reason)
    return event._replace(reason=reason, data=data)


async def read(
    tx: Tx, kind: str, aggregate_id: str, *, after: Position = START, n: int = 1_000
) -> list[Line]:
    """The lines of one aggregate, in order."""
    rows = await tx.rows(
        "journal.of", kind=kind, aggregate_id=aggregate_id, after_seq=after.seq, n=n
    )
    return [Line(*row) for row in rows]


async def tail(tx: Tx, *, after: Position = START, n: int = 1_000) -> list[Line]:
    """The next lines of all, in the order of their commits."""
    rows = await tx.rows("journal.tail", after_tx=after.tx, after_seq=after.seq, n=n)
    return [Line(*row) for row in rows]


async def newest(tx: Tx, n: int = 20) -> list[Line]:
    """The last lines, the newest first, for somebody who looks in. To miss nothing, `follow`."""
    return [Line(*row) for row in await tx.rows("journal.newest", n=n)]


async def end(tx: Tx) -> Position:
    """Where a follower begins that wants only what comes from now on."""
    row = (await tx.rows("journal.end"))[0]
    return Position(row.tx, row.seq)


async def follow(
    store: Store, *, after: Position = START, n: int = 1_000
) -> AsyncGenerator[Line, None]:
    """All lines from `after` on, for ever: woken by each commit, and looking once a second anyway."""
    if n < 1:
        raise Invalid(f"n is {n}; a follower reads at least one line at a time", field="n")
    listener = store.bell.listen(CHANNEL)
    try:
        while True:
            lines = await store.read(tail, after=after, n=n)
            for line in lines:
                yield line
                after = line.position
            if len(lines) < n:
                await listener.wait(SAFETY_POLL_SECONDS)
    finally:
        listener.close()


async def prune(tx: Tx, *, keep_seconds: float, n: int = 2_000) -> int:
    """Forget what is older, a bounded piece at a time."""
    return len(await tx.rows("journal.prune", keep_seconds=keep_seconds, n=n))
