"""The store: named queries inside transactions, and nothing else.

A transaction is a function that can be run again:

    async def body(tx: Tx, run_id: str) -> int:
        rows = await tx.rows("runs.load", id=run_id)
        ...

    count = await store.write(body, run_id)

The body may await only `tx`. It decides on rows that it locked (`for update`), and it leaves the
world outside alone, because it may run more than once: after a deadlock, a lost connection, or a
commit whose answer never came. SQLite drives a body inline on the event loop and commits many
bodies at once; PostgreSQL awaits it on a pooled connection. What every store must do is written
once, in `podium.testing.suites.store`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from podium.kernel.bell import Bell
from podium.kernel.queries import Queries

P = ParamSpec("P")
R = TypeVar("R")
I = TypeVar("I")  # noqa: E741
O = TypeVar("O")  # noqa: E741

Row = Any
"""A named tuple of the query's columns. Columns that end in `_at` are aware datetimes."""

ROWS_MAX = 2_000
"""The most rows one body writes: a longer transaction makes everybody else wait."""


class Tx(Protocol):
    async def rows(self, query: str, /, **params: Any) -> list[Row]:
        """Run a named query. Lists are passed as sequences of tuples in the declared order."""

    async def script(self, text: str) -> None:
        """Run the statements of a migration."""

    def ring(self, channel: str, hint: int | None = None) -> None:
        """Wake who listens on `channel`, after the commit."""


Body = Callable[Concatenate[Tx, P], Awaitable[R]]


class Store(Protocol):
    queries: Queries
    bell: Bell

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def write(self, body: Body[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run `body` in a transaction and commit it. When this returns, it is on the disk.

        Raises Unavailable when the store cannot take writes now, and CommitUnknown when it
        cannot be found out whether the commit happened.
        """

    async def read(self, body: Body[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run `body` on one snapshot, without writing."""

    async def read_long(self, body: Body[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """As `read`, for what takes longer than some milliseconds: it keeps nobody waiting."""


async def now(tx: Tx) -> datetime:
    """The database's clock: the one that leases and due times are compared with."""
    moment: datetime = (await tx.rows("store.now"))[0].now_at
    return moment


async def write_in_chunks(
    store: Store,
    body: Callable[[Tx, Sequence[I]], Awaitable[list[O]]],
    items: Sequence[I],
    size: int = 1_000,
) -> list[O]:
    """Write a long list as several transactions, in order. An error leaves the earlier ones done."""
    verdicts: list[O] = []
    for start in range(0, len(items), size):
        verdicts += await store.write(body, items[start : start + size])
    return verdicts
