"""A transaction on PostgreSQL: named queries in, named tuples out, errors in our words."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import orjson
import psycopg
from psycopg.rows import tuple_row

from podium.kernel.bell import check_channel
from podium.kernel.errors import (
    ConstraintViolated,
    Invalid,
    SchemaMismatch,
    StoreError,
    Unavailable,
)
from podium.kernel.queries import Queries, Query
from podium.kernel.store import Row

Connection = psycopg.AsyncConnection[Any]
Makers = dict[str, Callable[..., Row]]
"""How the rows of each query are made, as far as this store has seen."""

RERUN = (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected)
"""The database chose this transaction to give way; the same body will do."""

TIMEOUT = (
    psycopg.errors.QueryCanceled,
    psycopg.errors.LockNotAvailable,
    psycopg.errors.TransactionTimeout,
    psycopg.errors.IdleInTransactionSessionTimeout,
)


class PostgresTx:
    def __init__(self, connection: Connection, queries: Queries, makers: Makers) -> None:
        self._connection = connection
        self._queries = queries
        self._makers = makers
        self.is_migration = False
        self.is_open = True
        """False once the body has ended: whoever kept the `tx` writes nothing."""
        self.rung: list[tuple[str, int | None]] = []
        self.refused: Exception | None = None
        """Why the database gave the transaction up. It answers COMMIT with ROLLBACK, not an error."""

    async def rows(self, query: str, /, **params: Any) -> list[Row]:
        known = self._queries[query]
        bound = bind(known, params)
        if not self.is_open:
            raise RuntimeError(f"{query}: the transaction is over")
        cursor = self._connection.cursor(row_factory=tuple_row)
        try:
            await cursor.execute(known.text.encode(), bound)
            if not cursor.pgresult or not cursor.pgresult.ntuples:
                return []
            return list(map(self._maker(known, cursor), await cursor.fetchall()))
        except psycopg.Error as error:
            self.refused = self.refused or translated(query, error)
            raise self.refused from error
        except UnicodeEncodeError as error:
            raise Invalid(f"{query}: a text that is not valid Unicode: {error.reason}") from None

    async def script(self, text: str) -> None:
        self.is_migration = True
        try:
            await self._connection.execute(text.encode())
        except psycopg.Error as error:
            self.refused = self.refused or translated("script", error)
            raise self.refused from error

    def ring(self, channel: str, hint: int | None = None) -> None:
        check_channel(channel)
        self.rung.append((channel, hint))

    def _maker(self, query: Query, cursor: psycopg.AsyncCursor[Any]) -> Callable[..., Row]:
        """The named tuple of a query's rows, made once: describing a result is dearer than
        reading it."""
        make = self._makers.get(query.text)
        if make is None:
            columns = [column.name for column in cursor.description or ()]
            make = getattr(namedtuple("Row", columns), "_make")  # noqa: B009
            self._makers[query.text] = make
        return make


class GlanceTx(PostgresTx):
    """One look is its own snapshot and needs no transaction around it: a third of the round trips.
    A body that looks twice, or more than looks, is told to begin one."""

    def __init__(self, connection: Connection, queries: Queries, makers: Makers) -> None:
        super().__init__(connection, queries, makers)
        self._has_looked = False
        self.needs_snapshot = False

    async def rows(self, query: str, /, **params: Any) -> list[Row]:
        text = self._queries[query].text
        if self._has_looked or not text.startswith("select") or "for update" in text:
            self.needs_snapshot = True
            raise NeedsSnapshot(query)
        self._has_looked = True
        return await super().rows(query, **params)

    async def script(self, text: str) -> None:
        self.needs_snapshot = True
        raise NeedsSnapshot("script")


class NeedsSnapshot(Exception):
    pass


def bind(query: Query, params: dict[str, Any]) -> dict[str, Any]:
    """Parameters as PostgreSQL takes them: lists as one JSON text of objects."""
    if params.keys() != query.parameters:
        raise TypeError(f"{query.name} takes {sorted(query.parameters)}, got {sorted(params)}")
    for value in params.values():
        if isinstance(value, datetime):
            _refuse_naive(query, value)
    for name, columns in query.lists.items():
        params[name] = _list(query, columns, params[name])
    return params


def _refuse_naive(query: Query, moment: datetime) -> None:
    if moment.tzinfo is None:
        raise Invalid(f"{query.name}: {moment!r} has no time zone; every time in Podium is aware")


def _list(query: Query, columns: tuple[str, ...], rows: Sequence[Sequence[Any]]) -> str:
    """A column that is null in every row is left out: it comes back as null all the same."""
    used = [n for n, cells in enumerate(zip(*rows, strict=True)) if cells.count(None) < len(cells)]
    names = [columns[n] for n in used]
    try:
        if len(used) == len(columns):
            return _json([dict(zip(names, row, strict=True)) for row in rows])
        return _json([{columns[n]: row[n] for n in used} for row in rows])
    except TypeError as error:
        raise Invalid(f"{query.name}: a row cannot be stored: {error}") from None


def _json(rows: list[dict[str, Any]]) -> str:
    return orjson.dumps(rows, default=_time, option=orjson.OPT_PASSTHROUGH_DATETIME).decode()


def _time(value: object) -> str:
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.isoformat()
    raise TypeError(f"{value!r} is not a column's value")


def translated(query: str, error: psycopg.Error) -> Exception:
    """The error in the kernel's words; what the store handles itself goes through unchanged."""
    if isinstance(error, RERUN):
        return error
    if isinstance(error, psycopg.IntegrityError):
        return ConstraintViolated(f"{query}: {error.diag.message_primary}")
    if isinstance(error, TIMEOUT):
        return Unavailable(f"{query} took too long: {error}", cause=type(error).__name__)
    if isinstance(error, psycopg.errors.ReadOnlySqlTransaction):
        return Unavailable(f"{query}: the database is read-only", cause="ReadOnly")
    if isinstance(error, psycopg.errors.RaiseException):
        return ConstraintViolated(f"{query}: {error.diag.message_primary}")
    if isinstance(error, psycopg.errors.UndefinedTable | psycopg.errors.InvalidSchemaName):
        return SchemaMismatch(f"{query}: {error.diag.message_primary}; run: podium migrate")
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        return Unavailable(f"{query}: {error.diag.message_primary}", cause="privilege")
    if isinstance(error, psycopg.DataError) or (error.sqlstate or "").startswith("54"):
        return Invalid(f"{query}: {error.diag.message_primary or error}")
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return error
    return StoreError(f"{query}: {error.diag.message_primary or error}")
