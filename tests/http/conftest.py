"""Homes to call on: on both stores, unless a test says what it needs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any, Protocol

import httpx
import pytest

from tests.http.houses import Home, postgres_home, sqlite_home

STORES = ["sqlite", "postgres"]


class MakeHome(Protocol):
    async def __call__(self, **settings: Any) -> Home: ...


@pytest.fixture(params=STORES)
async def make_home(request: pytest.FixtureRequest) -> AsyncIterator[MakeHome]:
    """Make a home with settings of the test's own."""
    async with AsyncExitStack() as stack:

        async def make(**settings: Any) -> Home:
            if request.param == "sqlite":
                opening = sqlite_home(**settings)
            else:
                opening = postgres_home(request.getfixturevalue("postgres_url"), **settings)
            home: Home = await stack.enter_async_context(opening)
            return home

        if request.param == "postgres":
            request.getfixturevalue("postgres_url")
        yield make


@pytest.fixture
async def home(make_home: MakeHome) -> Home:
    return await make_home()


@pytest.fixture
async def embedded() -> AsyncIterator[Home]:
    """On SQLite in memory: for what does not depend on the store."""
    async with sqlite_home() as home:
        yield home


@pytest.fixture
async def admin(home: Home) -> AsyncIterator[httpx.AsyncClient]:
    async with home.admin_caller() as caller:
        yield caller
