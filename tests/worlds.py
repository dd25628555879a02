"""The worlds of our own backends."""

from __future__ import annotations

import math
import os
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from nats.js.errors import NotFoundError

from podium.backends.nats import Link, NatsBroker, NatsBus, NatsSettings
from podium.backends.postgres import PostgresStore
from podium.backends.sqlite import SQLiteStore
from podium.engine.relay import Relay
from podium.kernel.clock import ManualClock, SystemClock
from podium.kernel.migrate import KERNEL, SQL, migrate
from podium.kernel.outbox import Outbox
from podium.kernel.queries import POSTGRES, SQLITE, Queries
from podium.kernel.work import Work
from podium.testing.broker_server import Nats
from podium.testing.worlds import SharedWorld, World

NUMBERS = count(1)


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


class NatsWorld(World):
    """A store whose messages are told by a NATS server, on a stream of this world's own.

    Nobody looks into the database here: what is received was heard.
    """

    hear_seconds = 0.15

    def join(self, link: Link) -> None:
        # The broker lives in real time, whatever the store's clock says.
        self.link = link
        self.broker = NatsBroker(link, SystemClock())

    def bus(self, work: Work | None = None, *, look_seconds: float = math.inf) -> NatsBus:
        return NatsBus(
            work or self.work(),
            self.ids(),
            self.broker,
            clock=SystemClock(),
            look_seconds=look_seconds,
        )

    def relay(self, queues: Sequence[str], **how: Any) -> Relay:
        outbox = Outbox(self.work())
        return Relay(self.store, outbox, self.broker, queues=queues, clock=self.clock, **how)

    async def relay_once(self) -> None:
        queues = [row.queue for row in await self.query("select distinct queue from work")]
        await self.relay(queues).tick()


class NatsOnSQLite(NatsWorld, SQLiteWorld):
    pass


class NatsOnPostgres(NatsWorld, PostgresWorld):
    pass


@asynccontextmanager
async def joined(world: NatsWorld, server: Nats, **settings: Any) -> AsyncIterator[None]:
    """Connect a world to the server, and take its stream away at the end."""
    name = f"test_{os.getpid()}_{next(NUMBERS)}"
    link = Link(NatsSettings(server.url, stream=name, prefix=name, **settings))
    world.join(link)
    await link.open(wait_seconds=5.0)
    try:
        yield
    finally:
        js = world.broker.jetstream()
        if js is not None and server.is_running:
            with suppress(NotFoundError):
                await js.delete_stream(name)
        await link.close()


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
    async with _sqlite_world(SQLiteWorld, path) as world:
        yield world


@asynccontextmanager
async def nats_on_sqlite(
    path: str | Path, server: Nats, **settings: Any
) -> AsyncIterator[NatsOnSQLite]:
    async with _sqlite_world(NatsOnSQLite, path) as world, joined(world, server, **settings):
        yield world


S = TypeVar("S", bound=SQLiteWorld)
G = TypeVar("G", bound=PostgresWorld)


@asynccontextmanager
async def _sqlite_world(kind: type[S], path: str | Path) -> AsyncIterator[S]:
    clock = ManualClock()
    store = SQLiteStore(path, clock=clock, queries=Queries(SQLITE, [SQL]))
    await store.open()
    await migrate(store, [KERNEL])
    try:
        yield kind(store, clock)
    finally:
        await store.close()


@asynccontextmanager
async def postgres_world(url: str) -> AsyncIterator[PostgresWorld]:
    async with _postgres_world(PostgresWorld, url) as world:
        yield world


@asynccontextmanager
async def nats_on_postgres(
    url: str, server: Nats, **settings: Any
) -> AsyncIterator[NatsOnPostgres]:
    async with _postgres_world(NatsOnPostgres, url) as world, joined(world, server, **settings):
        yield world


@asynccontextmanager
async def _postgres_world(kind: type[G], url: str) -> AsyncIterator[G]:
    store = postgres_store(url)
    await store.open()
    await migrate(store, [KERNEL])
    world = kind(url, store, ManualClock())
    try:
        yield world
    finally:
        for each in world.stores:
            await each.close()
