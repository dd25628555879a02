"""What the tables hold, asked with plain SQL on a connection of our own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import psycopg

from tests.kill.checker import Effect, Execution, Facts, Finished, Live

Rows = list[tuple[Any, ...]]
Ask = Callable[[str], Rows]


def facts_of(address: str) -> Facts:
    """`address` is a file's path or a PostgreSQL URL. The engine need not run."""
    return _postgres(address) if address.startswith("postgresql:") else _sqlite(address)


def rows_of(address: str, question: str) -> Rows:
    if address.startswith("postgresql:"):
        with psycopg.connect(address, autocommit=True) as connection:
            return connection.execute(question.encode()).fetchall()
    db = apsw.Connection(address)
    try:
        return list(db.execute(question))
    finally:
        db.close()


def executions_of(file: Path) -> list[Execution]:
    lines = [line.split() for line in file.read_text().splitlines()]
    return [
        Execution(key, item, int(epoch), holder, float(at), fails == "fails")
        for key, item, epoch, holder, at, fails in lines
    ]


def _sqlite(path: str) -> Facts:
    db = apsw.Connection(path)
    try:
        db.execute("begin")
        return _facts(
            lambda question: list(db.execute(question)),
            "; ".join(str(row[0]) for row in db.execute("pragma integrity_check")),
        )
    finally:
        db.close()


def _postgres(url: str) -> Facts:
    with psycopg.connect(url, autocommit=True) as connection, connection.transaction():
        connection.execute("set transaction isolation level repeatable read")
        # Pages carry checksums, so a torn one refuses to be read; indexes must know what tables know.
        whole = _same_both_ways(connection)
        return _facts(lambda question: connection.execute(question.encode()).fetchall(), whole)


def _same_both_ways(connection: psycopg.Connection[Any]) -> str:
    """The same ids by the table alone and by its index alone."""
    for table in ("work", "work_finished"):
        by_index = _ids(connection, table, "indexscan", "indexonlyscan")
        if by_index != _ids(connection, table, "seqscan"):
            return f"{table} and its index differ"
    return "ok"


def _ids(connection: psycopg.Connection[Any], table: str, *ways: str) -> Rows:
    for way in ("seqscan", "indexscan", "indexonlyscan", "bitmapscan"):
        is_on = "on" if way in ways else "off"
        connection.execute(f"set local enable_{way} = {is_on}".encode())
    return connection.execute(f"select id from {table} order by id".encode()).fetchall()


def _facts(ask: Ask, integrity: str) -> Facts:
    ends = "select aggregate_id from journal where kind = 'work' and event in ('done', 'dead', 'cancelled')"
    return Facts(
        live={id: Live(*rest) for id, *rest in ask("select id, state, epoch, holder from work")},
        finished={
            id: Finished(*rest)
            for id, *rest in ask("select id, state, epoch, attempts from work_finished")
        },
        ends_journalled=_counter(ask(ends)),
        effects=[Effect(*row) for row in ask("select key, item, epoch, holder from kill_effects")],
        told=_counter(ask("select key from kill_told")),
        ticks=_counter(ask("select key from kill_ticks")),
        integrity=integrity,
    )


def _counter(rows: Rows) -> Counter[str]:
    return Counter(row[0] for row in rows)
