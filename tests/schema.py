"""The whole schema as one file per dialect, made from the migrations: `scripts/schema` writes them.

A reader sees what the tables are now without adding up migrations, and a review sees what a
migration does. tests/unit/test_schema.py compares the files with the migrations.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import apsw

from podium.kernel import migrate as kernel
from podium.kernel.migrate import KERNEL, migrate
from podium.kernel.queries import POSTGRES, SQLITE
from podium.testing.servers import Postgres, postgres
from tests.worlds import postgres_store, sqlite_world

FOLDER = Path(kernel.__file__).parent
FILES = {dialect: FOLDER / f"schema.{dialect}.sql" for dialect in (SQLITE, POSTGRES)}

HEADER = "-- Made by scripts/schema from the migrations. Change a migration, not this file.\n\n"

# The order of creation is kept: a reader follows the migrations.
OBJECTS = "select sql from sqlite_master where sql is not null and name not like 'sqlite_%' order by rowid"


async def sqlite_schema() -> str:
    async with sqlite_world(":memory:") as world:
        db = world.store._writer  # type: ignore[attr-defined]
        assert isinstance(db, apsw.Connection)
        return HEADER + "\n\n".join(f"{sql};" for (sql,) in db.execute(OBJECTS)) + "\n"


async def postgres_schema(server: Postgres, url: str) -> str:
    store = postgres_store(url)
    await store.open()
    try:
        await migrate(store, [KERNEL])
    finally:
        await store.close()
    return HEADER + without_weeks(server.dump_schema(url))


def without_weeks(dump: str) -> str:
    """A dump without the journal's weekly partitions, which come and go by themselves."""
    parts = re.split(r"(?=^--\n-- Name: )", dump, flags=re.MULTILINE)
    return "".join(part for part in parts if not re.search(r"journal_\d{4}w\d{2}", part))


def main() -> None:
    FILES[SQLITE].write_text(asyncio.run(sqlite_schema()))
    with postgres() as server:
        FILES[POSTGRES].write_text(asyncio.run(postgres_schema(server, server.url)))
    for path in FILES.values():
        print(path)


if __name__ == "__main__":
    main()
