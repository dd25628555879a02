"""The schema files are what the migrations make, and both dialects make the same tables."""

from __future__ import annotations

import apsw
import psycopg

from podium.kernel.queries import POSTGRES, SQLITE
from podium.testing.servers import Postgres
from tests.schema import FILES, postgres_schema, sqlite_schema

HOW = "run scripts/schema and look at what changed"

COLUMNS = """
select table_name, column_name from information_schema.columns where table_schema = 'public'
"""

POSTGRES_ONLY = {
    # SQLite commits in this process: there is no answer to lose.
    ("podium_commits", "key"),
    ("podium_commits", "try_number"),
    ("podium_commits", "committed_at"),
    # With one writer the order of numbers is the order of commits.
    ("journal", "tx"),
}


async def test_the_sqlite_schema_is_what_its_migrations_make() -> None:
    assert await sqlite_schema() == FILES[SQLITE].read_text(), HOW


async def test_the_postgres_schema_is_what_its_migrations_make(
    postgres_server: Postgres, postgres_url: str
) -> None:
    assert await postgres_schema(postgres_server, postgres_url) == FILES[POSTGRES].read_text(), HOW


async def test_both_dialects_have_the_same_tables_and_columns(
    postgres_server: Postgres, postgres_url: str
) -> None:
    await postgres_schema(postgres_server, postgres_url)
    with psycopg.connect(postgres_url) as connection:
        postgres = {
            (table, column)
            for table, column in connection.execute(COLUMNS)
            if not table.startswith("journal_")
        }
    assert postgres - POSTGRES_ONLY == columns_of(FILES[SQLITE].read_text())


def columns_of(schema: str) -> set[tuple[str, str]]:
    db = apsw.Connection(":memory:")
    db.execute(schema)
    rows = db.execute(
        "select m.name, c.name from sqlite_master m cross join pragma_table_info(m.name) c"
        " where m.type = 'table' and m.name not like 'sqlite_%'"
    )
    return {(str(table), str(column)) for table, column in rows}
