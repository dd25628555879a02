"""A PostgreSQL database that is already migrated; and asserts in the suites count as tests."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import psycopg
import pytest

from podium.kernel.migrate import KERNEL, migrate
from tests.conftest import Databases

# The suites are shipped code: pytest must be told, before anybody imports them.
pytest.register_assert_rewrite("podium.testing.suites", "podium.testing.desk")

TABLES = """
select relname from pg_class
 where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and not relispartition
"""

# Emptying costs a tenth of migrating an empty database again.
CLEAN = """
do $$
declare name text;
begin
    perform pg_terminate_backend(pid, 5000) from pg_stat_activity
      where datname = current_database() and pid <> pg_backend_pid();
    for name in select relname from pg_class
                 where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and not relispartition
                   and relname <> all(current_setting('test.kept')::text[]) loop
        execute format('drop table %I cascade', name);
    end loop;
    for name in select proname from pg_proc where proname like 'refuse\\_%' loop
        execute format('drop function %I cascade', name);
    end loop;
    foreach name in array current_setting('test.kept')::text[] loop
        if name <> 'podium_migrations' then execute format('delete from %I', name); end if;
    end loop;
end $$
"""


@pytest.fixture(scope="session")
def migrated_database(postgres_databases: Databases) -> Iterator[tuple[str, str]]:
    """Its address, and the names of its tables as an array."""
    from tests.worlds import postgres_store

    name = postgres_databases.take()
    url = postgres_databases.server.url_of(name)

    async def migrate_it() -> None:
        store = postgres_store(url)
        await store.open()
        await migrate(store, [KERNEL])
        await store.close()

    asyncio.run(migrate_it())
    with psycopg.connect(url, autocommit=True) as connection:
        tables = [row[0] for row in connection.execute(TABLES)]
    yield url, "{" + ",".join(tables) + "}"
    postgres_databases.give_back(name)


@pytest.fixture
def migrated_url(migrated_database: tuple[str, str]) -> Iterator[str]:
    """The address of a database with the kernel's tables, all of them empty."""
    url, tables = migrated_database
    yield url
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("select set_config('test.kept', %s, false)", (tables,))
        connection.execute(CLEAN)
