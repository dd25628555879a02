"""An engine's parts on a store in memory, with a clock that the test moves."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from podium.kernel.telemetry import Metrics
from podium.testing.desk import Desk
from tests.worlds import SQLiteWorld, sqlite_world


@pytest.fixture
async def world() -> AsyncIterator[SQLiteWorld]:
    async with sqlite_world(":memory:") as world:
        yield world


@pytest.fixture
def desk(world: SQLiteWorld) -> Desk:
    return world.desk()


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


def sample(metrics: Metrics, name: str, **labels: str) -> float:
    return metrics.registry.get_sample_value(name, labels) or 0.0
