"""The worlds of our own backends."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from podium.backends.postgres import PostgresStore
from podium.backends.sqlite import SQLiteStore
from podium.kernel.clock import ManualClock, SystemClock
from podium.kernel.migrate import KERNEL, SQL, migrate
from podium.kernel.queries import POSTGRES, SQLITE, Queries
from podium.testing.worlds import SharedWorld, World


class SQLiteWorld(World):
    types = {"time": "integer", "bigint": "integer"}  # noqa: RUF012

    async def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)

    def refusal(self, table: str, operation: str, id: str) -> str:
        row = "new" if operation == "insert" else "old"
        return f"""
            create trigger refuse_{table}_{operation} before {operation} on {table}
              when {row}.id = '{id}' begin select raise(abort, 'refused by a trigger'); end
        """


class PostgresWorld(SharedWorld):
    types = {"time": "timestamptz", "bigint": "bigint"}  # noqa: RUF012

    def __init__(self, url: str, store: PostgresStore, clock: ManualClock) -> None:
        super().__init__(store, clock)
        self.url = url
        self.stores = [store]

    async def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        for store in self.stores:
            store.clock_offset_seconds += seconds

    def refusal(self, table: str, operation: str, id: str) -> str:
        row, keep = ("new", "new") if operation == "insert" else ("old", "new")
        keep = "old" if operation == "delete" else keep
        name = f"refuse_{table}_{operation}"
        return f"""
            create function {name}() returns trigger language plpgsql as $$
            begin
                if {row}.id = '{id}' then raise exception 'refused by a trigger'; end if;
                return {keep};
            end $$;
            create trigger {name} before {operation} on {table}
              for each row execute function {name}();
        """

    async def another_store(self) -> PostgresStore:
        store = postgres_store(self.url, seed=len(self.stores), queries=self.store.queries)
        store.clock_offset_seconds = self.stores[0].clock_offset_seconds
        self.stores.append(store)
        await store.open()
        return store


def postgres_store(
    url: str, *, seed: int = 0, queries: Queries | None = None, **settings: Any
) -> PostgresStore:
    return PostgresStore(
        url,
        clock=SystemClock(),
        queries=queries or Queries(POSTGRES, [SQL]),
        rng=random.Random(seed),
        **settings,
    )


@asynccontextmanager
async def sqlite_world(path: str | Path) -> AsyncIterator[SQLiteWorld]:
    clock = ManualClock()
    store = SQLiteStore(path, clock=clock, queries=Queries(SQLITE, [SQL]))
    await store.open()
    await migrate(store, [KERNEL])
    try:
        yield SQLiteWorld(store, clock)
    finally:
        await store.close()


@asynccontextmanager
async def postgres_world(url: str) -> AsyncIterator[PostgresWorld]:
    store = postgres_store(url)
    await store.open()
    await migrate(store, [KERNEL])
    world = PostgresWorld(url, store, ManualClock())
    try:
        yield world
    finally:
        for each in world.stores:
            await each.close()
