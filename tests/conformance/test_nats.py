"""NATS keeps every promise of the bus, over SQLite and over PostgreSQL.

Nobody looks into the database in these worlds: what is received was taken by the relay, published,
fetched from the server and claimed by its id.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from podium.testing.broker_server import Nats, nats
from podium.testing.suites.bus import BusSuite
from tests.worlds import NatsWorld, nats_on_postgres, nats_on_sqlite


@pytest.fixture(scope="module")
def server() -> Iterator[Nats]:
    with nats() as server:
        yield server


class TestBusOverSQLite(BusSuite):
    @pytest.fixture
    async def world(self, tmp_path: Path, server: Nats) -> AsyncIterator[NatsWorld]:
        async with nats_on_sqlite(tmp_path / "podium.db", server) as world:
            yield world


class TestBusOverPostgres(BusSuite):
    @pytest.fixture
    async def world(self, migrated_url: str, server: Nats) -> AsyncIterator[NatsWorld]:
        async with nats_on_postgres(migrated_url, server) as world:
            yield world
