"""A house to call on: the whole server in this process, on a store of its own, with a clock that the test moves."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import httpx
from fastapi import FastAPI
from starlette.types import ASGIApp

from podium.app.wiring import QUERIES, ROOMS
from podium.backends.postgres import PostgresStore
from podium.backends.sqlite import SQLiteStore
from podium.contracts.scopes import Scope
from podium.domains.access.audit import Audit
from podium.domains.access.limits import Limits
from podium.domains.access.model import Issued
from podium.domains.access.service import Access, Policy
from podium.domains.access.tokens import Tokens
from podium.engine import Auditor
from podium.http.app import create_app, make_gate
from podium.http.guard import Declared, GuardedRoute
from podium.http.house import Front, House, Readiness
from podium.kernel.clock import ManualClock
from podium.kernel.ids import Ulids
from podium.kernel.migrate import migrate
from podium.kernel.queries import POSTGRES, SQLITE, Queries
from podium.kernel.store import Row
from podium.kernel.telemetry import Metrics
from podium.kernel.wake import Swept
from podium.kernel.work import Work, WorkSweep
from podium.testing.worlds import run_query
from podium.web.pages import Pages
from tests.worlds import postgres_store

HERE = "192.0.2.7"
ELSEWHERE = "198.51.100.9"
BASE_URL = "http://localhost"

FRONT = Front(
    public_url=BASE_URL,
    hosts=frozenset({"localhost"}),
    behind_proxy=False,
    body_bytes_max=10 * 1024 * 1024,
    requests_at_once_max=512,
    streams_max=100,
    version="1.2.3",
)
POLICY = Policy(anonymous_scopes=frozenset(), token_days=90.0, failures_max=20, requests_max=60_000)

AnyStore = SQLiteStore | PostgresStore


@dataclass
class Home:
    """One server process of a test, and what a test wants from it beside its routes."""

    house: House
    app: ASGIApp
    store: AnyStore
    clock: ManualClock
    admin: str
    others: list[Home] = field(default_factory=list)

    def caller(
        self, token: str | None = None, *, address: str = HERE, **more: Any
    ) -> httpx.AsyncClient:
        """Somebody who calls from `address`. Errors of the application are the test's errors."""
        headers = httpx.Headers(more.pop("headers", None))
        if token is not None:
            headers["authorization"] = f"Bearer {token}"
        transport = httpx.ASGITransport(self.app, client=(address, 40_000))
        return httpx.AsyncClient(transport=transport, base_url=BASE_URL, headers=headers, **more)

    def admin_caller(self, **more: Any) -> httpx.AsyncClient:
        return self.caller(self.admin, **more)

    async def issue(self, *scopes: Scope, days: float = 30.0, name: str = "test") -> Issued:
        return await self.store.write(
            self.house.access.tokens.create,
            name=name,
            scopes=scopes,
            valid_days=days,
            actor="test",
        )

    async def token(self, *scopes: Scope, days: float = 30.0) -> str:
        return (await self.issue(*scopes, days=days)).text

    async def advance(self, seconds: float) -> None:
        """Move everybody's clock: this process's, and the database's."""
        self.clock.advance(seconds)
        if isinstance(self.store, PostgresStore):
            for home in [self, *self.others]:
                assert isinstance(home.store, PostgresStore)
                home.store.clock_offset_seconds += seconds

    async def next_minute(self) -> None:
        """To the first moments of a new period of the limits."""
        rows = await self.query("select micros(podium_now()) as now")
        # This process's clock stands still while PostgreSQL's goes on: a minute more is sure to be enough.
        await self.advance(120.0 - rows[0].now % 60_000_000 / 1e6 + 0.001)

    async def sweep(self) -> Swept:
        return await WorkSweep(self.house.work, random.Random(7)).sweep(self.store, 1_000)

    async def query(self, source: str, **params: Any) -> list[Row]:
        name = f"test.{abs(hash(source))}"
        self.store.queries.add(name, source)
        return await self.store.write(run_query, name, **params)


def make_home(
    store: AnyStore,
    clock: ManualClock,
    *,
    front: Front = FRONT,
    policy: Policy = POLICY,
    more: Sequence[Declared] = (),
    seed: int = 1,
) -> Home:
    rng, metrics = random.Random(seed), Metrics()
    work = Work(clock=clock, ids=Ulids(clock, rng), rng=rng)
    store.bell.watch(work.marks.on_ring)
    readiness = Readiness()
    readiness.ready()
    house = House(
        store=store,
        work=work,
        access=Access(store, Tokens(store, clock, rng), Limits(store, clock), Audit(store), policy),
        clock=clock,
        ids=Ulids(clock, rng),
        rng=rng,
        metrics=metrics,
        front=front,
        readiness=readiness,
        violations=Auditor(store, metrics).audit,
    )
    pages = Pages(house, make_gate(house)).routes()
    return Home(house, create_app(house, [*pages, *more]), store, clock, admin="")


def declared_routes(app: Any) -> list[Declared]:
    """Every route of a server, as it was declared."""
    routes = framework_of(app).router.routes
    declared = [route.declared for route in routes if isinstance(route, GuardedRoute)]
    assert len(declared) == len(routes)
    return [each for each in declared if each is not None]


def framework_of(app: Any) -> FastAPI:
    """What is inside, behind everything that stands in front of it."""
    while not isinstance(app, FastAPI):
        app = app._app
    return app


@asynccontextmanager
async def home_on(store: AnyStore, clock: ManualClock, **settings: Any) -> AsyncIterator[Home]:
    """A home on a new store, with an admin's token."""
    await store.open()
    try:
        await migrate(store, ROOMS)
        home = make_home(store, clock, **settings)
        home.admin = await home.token(Scope.ADMIN, days=3650)
        yield home
        for other in home.others:
            if other.store is not store:
                await other.store.close()
    finally:
        await store.close()


def sqlite_home(path: str = ":memory:", **settings: Any) -> Any:
    clock = ManualClock()
    store = SQLiteStore(path, clock=clock, queries=Queries(SQLITE, QUERIES))
    return home_on(store, clock, **settings)


def postgres_home(url: str, **settings: Any) -> Any:
    store = postgres_store(url, queries=Queries(POSTGRES, QUERIES))
    return home_on(store, ManualClock(), **settings)


async def neighbour(home: Home, url: str | None = None, **settings: Any) -> Home:
    """A second server on the same database: its memory is its own."""
    store = home.store
    if url is not None:
        assert isinstance(store, PostgresStore)
        another = postgres_store(url, seed=2, queries=store.queries)
        another.clock_offset_seconds = store.clock_offset_seconds
        await another.open()
        store = another
    other = make_home(store, home.clock, seed=2 + len(home.others), **settings)
    other.admin = home.admin
    home.others.append(other)
    return other


def with_front(**changes: Any) -> Front:
    return replace(FRONT, **changes)


def with_policy(**changes: Any) -> Policy:
    return replace(POLICY, **changes)
