"""Worlds to try things in."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from podium.kernel.telemetry import Metrics
from podium.sim.faults import NONE, Faults
from podium.sim.randomness import Randomness
from podium.sim.template import Template, load_queries
from podium.sim.world import World

MakeWorld = Callable[..., World]


@pytest.fixture(scope="session")
def template() -> Template:
    return Template()


@pytest.fixture
def make_world(template: Template) -> Iterator[MakeWorld]:
    """`make_world(faults)`: an empty world in which they are on from the beginning."""
    worlds: list[World] = []

    def make(faults: Faults = NONE, seed: str = "a test") -> World:
        world = World(
            Randomness(seed), faults, template, load_queries(), Metrics(), keeps_lines=True
        )
        world.has_faults = True
        worlds.append(world)
        return world

    yield make
    for world in worlds:
        world.loop.dispose()
