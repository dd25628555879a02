"""Seeds: a test that kills takes its moments from one, and says how to come back to it."""

from __future__ import annotations

import os

import pytest

SEED_VARIABLE = "PODIUM_KILL_SEED"


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    chosen = int(os.environ.get(SEED_VARIABLE, "1"))
    # pytest shows this only with a failure.
    print(f"seed {chosen}; repeat: {SEED_VARIABLE}={chosen} scripts/test {request.node.nodeid}")
    return chosen
