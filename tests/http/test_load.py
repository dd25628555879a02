"""Who is let in: as many as are served in good time, and those who wait do not count."""

from __future__ import annotations

import pytest

from podium.http.errors import Overloaded
from podium.http.load import FIRST, HELD_BYTES_MAX, LEAST, SLOW_SECONDS, SMALL_BYTES, Load, Place
from podium.kernel.clock import ManualClock

MOST = 512


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def load(clock: ManualClock) -> Load:
    return Load(clock, MOST)


def fill(load: Load) -> list[Place]:
    places = []
    while not load.is_full:
        places.append(load.enter())
    return places


def serve(load: Load, clock: ManualClock, seconds: float) -> None:
    """Everybody who may be is in work at once, and each takes so long."""
    places = fill(load)
    clock.advance(seconds)
    for place in places:
        place.end()


def test_a_small_limit_holds_from_the_first_request(clock: ManualClock) -> None:
    assert len(fill(Load(clock, 2))) == 2


def test_many_slow_ones_lower_the_limit_and_never_below_the_least(
    load: Load, clock: ManualClock
) -> None:
    serve(load, clock, 2 * SLOW_SECONDS)
    assert load.limit < FIRST
    for _ in range(100):
        serve(load, clock, 2 * SLOW_SECONDS)
    assert load.limit == LEAST


def test_many_quick_ones_raise_the_limit_and_never_above_what_was_set(
    load: Load, clock: ManualClock
) -> None:
    serve(load, clock, SLOW_SECONDS / 10)
    assert load.limit > FIRST
    for _ in range(1_000):
        serve(load, clock, SLOW_SECONDS / 10)
    assert load.limit == MOST


def test_one_slow_request_among_few_changes_nothing(load: Load, clock: ManualClock) -> None:
    slow = load.enter()
    clock.advance(100 * SLOW_SECONDS)
    slow.end()
    assert load.limit == FIRST


def test_a_limit_is_cut_once_for_all_who_were_slow_together(load: Load, clock: ManualClock) -> None:
    serve(load, clock, 2 * SLOW_SECONDS)
    assert load.limit > FIRST / 2


def test_whoever_waits_keeps_nobody_out(load: Load, clock: ManualClock) -> None:
    place = load.enter()
    with place.waiting():
        clock.advance(100 * SLOW_SECONDS)
        assert load.count == 0
    assert load.count == 1
    place.end()
    assert load.count == 0


def test_bodies_that_fill_the_memory_are_refused_until_others_are_answered(load: Load) -> None:
    first, second = load.enter(), load.enter()
    first.expect(HELD_BYTES_MAX)
    with pytest.raises(Overloaded):
        second.expect(SMALL_BYTES + 1)
    second.end()
    first.end()
    assert load.held_bytes == 0
    third = load.enter()
    third.read(1)
    assert load.held_bytes == 1


def test_a_body_alone_may_be_larger_than_what_all_share(load: Load) -> None:
    alone = load.enter()
    alone.expect(2 * HELD_BYTES_MAX)
    assert load.held_bytes == 2 * HELD_BYTES_MAX


def test_small_bodies_have_room_while_large_ones_stand_still(load: Load) -> None:
    load.enter().expect(HELD_BYTES_MAX)
    small = load.enter()
    small.expect(SMALL_BYTES)
    small.read(SMALL_BYTES)
    assert load.held_bytes == HELD_BYTES_MAX + SMALL_BYTES


def test_a_body_that_comes_as_it_said_is_counted_once(load: Load) -> None:
    place = load.enter()
    place.expect(1_000)
    place.read(600)
    place.read(600)
    assert load.held_bytes == 1_200
