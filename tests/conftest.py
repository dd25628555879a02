"""Fixtures that every test may ask for. What is missing fails the test; nothing is skipped."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from podium.testing.servers import Postgres, postgres

# An emptied database costs a third of a new one (20 ms against 65), so the session keeps them.
# The schema `public` comes back with the owner and comment it is born with: dumps compare equal.
EMPTY = """
do $$
declare name text;
begin
    perform pg_terminate_backend(pid) from pg_stat_activity
      where datname = current_database() and pid <> pg_backend_pid();
    for name in select nspname from pg_namespace
                 where nspname !~ '^pg_' and nspname <> 'information_schema' loop
        execute format('drop schema %I cascade', name);
    end loop;
    create schema public authorization pg_database_owner;
    comment on schema public is 'standard public schema';
    execute format('alter database %I reset all', current_database());
end $$
"""


class Databases:
    """Lends out empty databases of one server."""

    def __init__(self, server: Postgres) -> None:
        self.server = server
        self.spare: list[str] = []
        self.made_count = 0

    def take(self) -> str:
        return self.spare.pop() if self.spare else self._make()

    def give_back(self, name: str) -> None:
        with psycopg.connect(self.server.url_of(name), autocommit=True) as connection:
            connection.execute(EMPTY)
        self.spare.append(name)

    def _make(self) -> str:
        self.made_count += 1
        name = f"test_{self.made_count}"
        with psycopg.connect(self.server.url, autocommit=True) as connection:
            connection.execute(
                f"create database {name} template template0 strategy file_copy".encode()
            )
        return name


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Postgres]:
    """One PostgreSQL per test process. To kill one, start your own with `postgres()`."""
    with postgres() as server:
        yield server


@pytest.fixture(scope="session")
def postgres_databases(postgres_server: Postgres) -> Databases:
    return Databases(postgres_server)


@pytest.fixture
def postgres_url(postgres_databases: Databases) -> Iterator[str]:
    """The address of an empty database, this test's own."""
    name = postgres_databases.take()
    yield postgres_databases.server.url_of(name)
    postgres_databases.give_back(name)
