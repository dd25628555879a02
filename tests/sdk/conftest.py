from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from podium.sdk.client import Client
from tests.sdk.served import Served, served


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Served]:
    async with served(tmp_path / "data") as one:
        yield one


@pytest.fixture
async def client(server: Served) -> AsyncIterator[Client]:
    async with server.client() as one:
        yield one
