"""PostgreSQL keeps every promise, and those that only a shared database can."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from podium.testing.suites import SHARED_SUITES, SUITES
from tests.worlds import PostgresWorld, postgres_world


class OnPostgres:
    @pytest.fixture
    async def world(self, migrated_url: str) -> AsyncIterator[PostgresWorld]:
        async with postgres_world(migrated_url) as world:
            yield world


for suite in (*SUITES, *SHARED_SUITES):
    name = f"Test{suite.__name__.removesuffix('Suite')}"
    globals()[name] = type(name, (OnPostgres, suite), {})
