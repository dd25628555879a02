"""The nemesis: every class of fault has its days, and its days off."""

from __future__ import annotations

import logging
import random
from dataclasses import fields

import pytest

from podium.sim.day import listening_to_alarms
from podium.sim.faults import Faults
from podium.sim.nemesis import Nemesis, draw_faults
from podium.sim.world import Role
from tests.sim.conftest import MakeWorld

CLASSES = [field.name for field in fields(Faults) if not field.name.endswith("_at")]


@pytest.mark.parametrize("name", CLASSES)
def test_each_class_of_faults_is_often_off_and_often_on(name: str) -> None:
    rng = random.Random(1)
    drawn = [getattr(draw_faults(rng), name) > 0 for _ in range(200)]
    assert 40 < sum(drawn) < 160


def test_who_is_broken_for_ever_is_not_the_only_one_of_its_kind(make_world: MakeWorld) -> None:
    world = make_world(Faults(broken_for_ever=1.0))
    alone = world.boot(Role("alone", lambda _: None))
    pair = [world.boot(Role("pair", lambda _: None)) for _ in range(2)]
    Nemesis(world).heal()
    assert not alone.node.is_paused
    assert [process.node.is_paused for process in pair].count(True) == 1


def test_an_error_in_the_log_is_a_violation(make_world: MakeWorld) -> None:
    world = make_world()
    log = logging.getLogger("podium.somewhere")
    seen: list[str | None] = []
    with listening_to_alarms(world):
        for tell in (log.warning, log.error):
            tell("something nobody expected")
            seen.append(getattr(world.loop.violation, "invariant", None))
    assert seen == [None, "nothing_alarms"]


def test_a_handler_that_fails_on_purpose_is_none(make_world: MakeWorld) -> None:
    world = make_world()
    with listening_to_alarms(world):
        logging.getLogger("podium.somewhere").error("a handler failed")
    assert world.loop.violation is None
