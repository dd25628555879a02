"""A transaction on SQLite: named queries in, named tuples out, errors in our words."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import apsw
import orjson

from podium.kernel.bell import check_channel
from podium.kernel.clock import from_micros, to_micros
from podium.kernel.errors import (
    ConstraintViolated,
    Invalid,
    PodiumError,
    SchemaMismatch,
    StoreError,
    Unavailable,
)
from podium.kernel.queries import Queries, Query
from podium.kernel.store import Row

UNAVAILABLE: dict[type[apsw.Error], str] = {
    apsw.BusyError: "the database file is locked by another program",
    apsw.LockedError: "the database file is locked by another program",
    apsw.FullError: "the disk is full",
    apsw.ReadOnlyError: "the database file is read-only",
    apsw.IOError: "the disk failed to read or write",
    apsw.CantOpenError: "the database file cannot be opened",
    apsw.PermissionsError: "the database file may not be accessed",
    apsw.NoMemError: "there is no memory left",
    apsw.NotADBError: "the file is not a database",
    apsw.CorruptError: "the database file is damaged",
    apsw.InterruptError: "the query was interrupted",
}
UNAVAILABLE_ERRORS = tuple(UNAVAILABLE)


Shape = tuple[Callable[..., Row], tuple[int, ...]]
"""How a query's rows are made: the named tuple, and which of its columns are times."""


class SQLiteTx:
    """Runs on whatever thread drives it, to the end, without ever giving up the loop."""

    def __init__(self, db: apsw.Connection, queries: Queries) -> None:
        self._db = db
        self._queries = queries
        self._shapes: dict[str, Shape] = {}
        self.rung: list[tuple[str, int | None]] = []
        self.refused: Exception | None = None
        """What the database refused in this body: it is not committed, even if the body goes on."""
        self.is_open = True
        """False between two bodies: whoever kept the `tx` of an earlier one writes nothing."""

    async def rows(self, query: str, /, **params: Any) -> list[Row]:
        known = self._queries[query]
        bound = bind(known, params)
        if not self.is_open:
            raise RuntimeError(f"{query}: the transaction is over")
        try:
            cursor = self._db.execute(known.text, bound)
            shape = self._shapes.get(known.text) or self._note_shape(known, cursor)
            found = cursor.fetchall()
        except UnicodeEncodeError as error:
            raise Invalid(f"{query}: a text that is not valid Unicode: {error.reason}") from None
        except OverflowError as error:
            raise Invalid(f"{query}: a number beyond 64 bits: {error}") from None
        except apsw.Error as error:
            self.refused = self.refused or translated(query, error)
            raise self.refused from error
        return [] if shape is None else _shaped(found, *shape)

    async def script(self, text: str) -> None:
        try:
            self._db.execute(text)
        except apsw.Error as error:
            self.refused = self.refused or translated("script", error)
            raise self.refused from error

    def ring(self, channel: str, hint: int | None = None) -> None:
        check_channel(channel)
        self.rung.append((channel, hint))

    def _note_shape(self, query: Query, cursor: apsw.Cursor) -> Shape | None:
        """Columns are known only while rows are left to read; None when there are none."""
        try:
            columns = [column for column, _ in cursor.get_description()]
        except apsw.ExecutionCompleteError:
            return None
        make: Callable[..., Row] = getattr(namedtuple("Row", columns), "_make")  # noqa: B009
        times = tuple(n for n, column in enumerate(columns) if column.endswith("_at"))
        self._shapes[query.text] = (make, times)
        return make, times


def _shaped(
    found: list[tuple[Any, ...]], make: Callable[..., Row], times: tuple[int, ...]
) -> list[Row]:
    if not times:
        return list(map(make, found))
    moments: dict[int | None, datetime | None] = {None: None}
    shaped = []
    for row in found:
        cells = list(row)
        for n in times:
            micros = cells[n]
            # The rows of one claim end at one moment: it is made once.
            if micros not in moments:
                moments[micros] = from_micros(micros)
            cells[n] = moments[micros]
        shaped.append(make(cells))
    return shaped


def bind(query: Query, params: dict[str, Any]) -> dict[str, Any]:
    """Parameters as SQLite takes them: lists as one JSON text, times as microseconds."""
    if params.keys() != query.parameters:
        raise TypeError(f"{query.name} takes {sorted(query.parameters)}, got {sorted(params)}")
    for name, value in params.items():
        if name in query.lists:
            params[name] = _list(query, value)
        elif isinstance(value, datetime):
            params[name] = _moment(query, value)
        elif isinstance(value, str) and "\0" in value:
            raise Invalid(f"{query.name}: {name} has a NUL character")
    return params


def _moment(query: Query, moment: datetime) -> int:
    try:
        return to_micros(moment)
    except ValueError as error:
        raise Invalid(f"{query.name}: {error}") from None


def _list(query: Query, rows: Sequence[Sequence[Any]]) -> str:
    try:
        # Plain tuples: orjson does not take the named ones for lists.
        plain = list(map(tuple, rows))
        text = orjson.dumps(plain, default=_micros, option=orjson.OPT_PASSTHROUGH_DATETIME).decode()
    except TypeError as error:
        raise Invalid(f"{query.name}: a row cannot be stored: {error}") from None
    # SQLite would take it; PostgreSQL does not, and behaviour is not a matter of the store.
    if "\\u0000" in text and any("\0" in c for row in plain for c in row if isinstance(c, str)):
        raise Invalid(f"{query.name}: a row has a NUL character")
    return text


def _micros(value: object) -> int:
    if isinstance(value, datetime):
        return to_micros(value)
    raise TypeError(f"{type(value).__name__} is not a column's type")


def translated(query: str, error: apsw.Error) -> PodiumError:
    """The error in the kernel's words."""
    if isinstance(error, UNAVAILABLE_ERRORS):
        return unavailable(error)
    if isinstance(error, apsw.ConstraintError):
        return ConstraintViolated(f"{query}: {error}")
    if isinstance(error, apsw.MismatchError | apsw.TooBigError | apsw.RangeError):
        return Invalid(f"{query}: {error}")
    if "no such table" in str(error):
        return SchemaMismatch(f"{query}: {error}; run: podium migrate")
    return StoreError(f"{query}: {error}")


def unavailable(error: apsw.Error) -> Unavailable:
    for kind, text in UNAVAILABLE.items():
        if isinstance(error, kind):
            return Unavailable(f"{text} ({error})", cause=kind.__name__)
    raise error
