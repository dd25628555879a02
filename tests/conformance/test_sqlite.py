"""SQLite keeps every promise, in a file and in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from podium.testing.suites import SUITES
from tests.worlds import SQLiteWorld, sqlite_world


class InAFile:
    @pytest.fixture
    async def world(self, tmp_path: Path) -> AsyncIterator[SQLiteWorld]:
        async with sqlite_world(tmp_path / "podium.db") as world:
            yield world


class InMemory:
    @pytest.fixture
    async def world(self) -> AsyncIterator[SQLiteWorld]:
        async with sqlite_world(":memory:") as world:
            yield world


for suite in SUITES:
    for place in (InAFile, InMemory):
        name = f"Test{suite.__name__.removesuffix('Suite')}{place.__name__}"
        globals()[name] = type(name, (place, suite), {})
