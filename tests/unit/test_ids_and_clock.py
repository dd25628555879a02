"""Names sort by the time they were made, whatever the clock does; times are aware, always."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podium.kernel.clock import ManualClock, SystemClock, from_micros, to_micros
from podium.kernel.ids import ULID, Ulids, encode


def test_ids_grow_within_one_millisecond() -> None:
    ids = Ulids(ManualClock(), random.Random(1))
    made = [ids.new() for _ in range(5_000)]
    assert made == sorted(set(made))


@given(st.lists(st.one_of(st.floats(-7_200, 7_200), st.just(0.0)), max_size=50))
def test_ids_grow_whatever_the_wall_clock_does(jumps: list[float]) -> None:
    clock = ManualClock()
    ids = Ulids(clock, random.Random(1))
    made = [ids.new()]
    for jump in jumps:
        clock.jump(jump)
        made.append(ids.new())
    assert made == sorted(set(made))
    assert all(ULID.fullmatch(id) for id in made)


def test_an_id_begins_with_its_time() -> None:
    clock = ManualClock()
    earlier = Ulids(clock, random.Random(1)).new()
    clock.advance(1)
    later = Ulids(clock, random.Random(2)).new()
    assert earlier[:10] < later[:10]


def test_ids_of_two_processes_differ() -> None:
    clock = ManualClock()
    first = {Ulids(clock, random.Random(n)).new() for n in range(1_000)}
    assert len(first) == 1_000


@given(st.integers(0, 2**128 - 1), st.integers(0, 2**128 - 1))
def test_the_text_of_a_number_sorts_as_the_number(a: int, b: int) -> None:
    assert (encode(a) < encode(b)) == (a < b)
    assert len(encode(a)) == 26


def test_the_system_clock_is_aware_and_never_steps_back() -> None:
    clock = SystemClock()
    moments = [(clock.now(), clock.monotonic()) for _ in range(100)]
    assert moments == sorted(moments)
    assert moments[0][0].tzinfo is UTC
    assert abs((clock.now() - datetime.now(UTC)).total_seconds()) < 5


def test_a_wall_jump_leaves_durations_alone() -> None:
    clock = ManualClock()
    clock.advance(5)
    clock.jump(-3_600)
    assert clock.monotonic() == 5
    assert clock.now() == datetime(2025, 12, 31, 23, 0, 5, tzinfo=UTC)


def test_time_does_not_run_backwards() -> None:
    with pytest.raises(AssertionError):
        ManualClock().advance(-1)


@given(st.datetimes(timezones=st.just(UTC)))
def test_a_moment_survives_as_microseconds(moment: datetime) -> None:
    assert from_micros(to_micros(moment)) == moment


@given(st.datetimes(timezones=st.timezones()))
def test_a_zone_does_not_change_a_moment(moment: datetime) -> None:
    assert abs(from_micros(to_micros(moment)) - moment) < timedelta(microseconds=1)


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="zone"):
        to_micros(datetime(2026, 1, 1))  # noqa: DTZ001
