"""Big tables, made fast: one row that Podium wrote, copied by SQL a million times.

Only for set-up. The copies differ from a row written by Podium in nothing but their id and times.
"""

from __future__ import annotations

from typing import Any

import apsw
import psycopg

from bench.places import is_postgres

# Ids that sort before every real one, in the order they were made, as real ones do.
POSTGRES_ID = "'01' || lpad(n::text, 24, '0')"
SQLITE_ID = "printf('01%024d', n)"


def copy_row(at: str, table: str, times: int, later: tuple[str, ...]) -> None:
    """Copy the only row of `table`; in each copy the columns `later` are a millisecond later.

    `rank` counts microseconds as a plain number and moves by one.
    """
    if is_postgres(at):
        _copy_postgres(at, table, times, later)
    else:
        _copy_sqlite(at, table, times, later)


def _copy_postgres(at: str, table: str, times: int, later: tuple[str, ...]) -> None:
    changed = {name: f"{name} + n * interval '1 ms'" for name in later}
    changed |= {"id": POSTGRES_ID, "rank": "rank + n"}
    with psycopg.connect(at, autocommit=True) as connection:
        names = [
            str(name)
            for (name,) in connection.execute(
                "select column_name from information_schema.columns where table_name = %s", (table,)
            )
        ]
        picked = ", ".join(changed.get(name, name) for name in names)
        _run(
            connection,
            f"insert into {table} ({', '.join(names)})"
            f" select {picked} from {table}, generate_series(1, {times}) as n",
        )
        _run(connection, f"vacuum (analyze) {table}")
        _run(connection, "checkpoint")


def _run(connection: psycopg.Connection[Any], statement: str) -> None:
    connection.execute(statement.encode())


def _copy_sqlite(at: str, table: str, times: int, later: tuple[str, ...]) -> None:
    changed = {name: f"{name} + n * 1000" for name in later}
    changed |= {"id": SQLITE_ID, "rank": "rank + n"}
    db = apsw.Connection(at)
    db.execute("pragma cache_size = -1000000")
    names = [str(row[1]) for row in db.execute(f"pragma table_info({table})")]
    picked = ", ".join(changed.get(name, name) for name in names)
    db.execute(
        f"with recursive counter (n) as (select 1 union all select n + 1 from counter where n < {times})"
        f" insert into {table} ({', '.join(names)}) select {picked} from {table}, counter"
    )
    db.execute("pragma wal_checkpoint(truncate)").fetchall()
    db.close()
