"""A destination that fails is left alone, asked once, and trusted again; nothing is stuck."""

from __future__ import annotations

import random
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podium.effects.http import BreakerSettings, CircuitOpen, Request, Settings
from podium.effects.http import breaker as machine
from podium.effects.http.breaker import CIRCUIT, NEW, Breaker, Breakers, Circuit
from podium.kernel.clock import ManualClock
from podium.kernel.retry import RetryPolicy
from tests.effects.strangers import answers, caller, egress_to, hangs_up, listening

STEADY = BreakerSettings(
    failures_max=3,
    pause=RetryPolicy(base_seconds=10, cap_seconds=40, jitter=0),
    probe_seconds=30,
    destinations_max=3,
)
HERE = "https://here.example"


def breakers(clock: ManualClock, settings: BreakerSettings = STEADY) -> Breakers:
    return Breakers(clock, random.Random(7), settings)


def fail(circuits: Breakers, times: int, destination: str = HERE) -> None:
    for _ in range(times):
        circuits.failed(destination, circuits.admit(destination))


def test_failures_in_a_row_open_it() -> None:
    circuits = breakers(ManualClock())
    fail(circuits, 2)
    circuits.succeeded(HERE, circuits.admit(HERE))
    fail(circuits, 3)
    with pytest.raises(CircuitOpen) as refused:
        circuits.admit(HERE)
    assert refused.value.details["retry_in_seconds"] == 10
    assert circuits.admit("https://there.example") == 0, "nobody else is concerned"


def test_after_the_pause_one_call_goes_out_and_the_others_wait() -> None:
    clock = ManualClock()
    circuits = breakers(clock)
    fail(circuits, 3)
    clock.advance(10)
    ticket = circuits.admit(HERE)
    with pytest.raises(CircuitOpen):
        circuits.admit(HERE)
    circuits.succeeded(HERE, ticket)
    circuits.admit(HERE)
    circuits.admit(HERE)


def test_the_pause_grows_with_each_probe_that_fails_and_starts_again_after_a_success() -> None:
    clock = ManualClock()
    circuits = breakers(clock)
    fail(circuits, 3)
    for pause in (10, 20, 40, 40):
        clock.advance(pause - 0.1)
        with pytest.raises(CircuitOpen):
            circuits.admit(HERE)
        clock.advance(0.1)
        fail(circuits, 1)
    clock.advance(40)
    circuits.succeeded(HERE, circuits.admit(HERE))
    fail(circuits, 3)
    clock.advance(10)
    circuits.admit(HERE)


def test_an_answer_from_before_it_opened_changes_nothing() -> None:
    clock = ManualClock()
    circuits = breakers(clock)
    early = circuits.admit(HERE)
    fail(circuits, 3)
    circuits.succeeded(HERE, early)
    with pytest.raises(CircuitOpen):
        circuits.admit(HERE)
    clock.advance(10)
    probe = circuits.admit(HERE)
    circuits.failed(HERE, early)
    circuits.abandoned(HERE, early)
    with pytest.raises(CircuitOpen):
        circuits.admit(HERE)
    circuits.succeeded(HERE, probe)
    circuits.admit(HERE)


def test_a_probe_that_was_called_off_makes_room_for_the_next() -> None:
    clock = ManualClock()
    circuits = breakers(clock)
    fail(circuits, 3)
    clock.advance(10)
    circuits.abandoned(HERE, circuits.admit(HERE))
    circuits.admit(HERE)


def test_a_probe_that_never_comes_back_is_given_up() -> None:
    clock = ManualClock()
    circuits = breakers(clock)
    fail(circuits, 3)
    clock.advance(10)
    lost = circuits.admit(HERE)
    clock.advance(30)
    probe = circuits.admit(HERE)
    circuits.failed(HERE, lost)
    circuits.succeeded(HERE, probe)
    circuits.admit(HERE)


def test_the_wall_clock_has_no_say() -> None:
    clock = ManualClock()
    circuits = breakers(clock)
    fail(circuits, 3)
    clock.jump(86_400)
    with pytest.raises(CircuitOpen):
        circuits.admit(HERE)


def test_only_so_many_destinations_are_remembered_and_healthy_ones_not_at_all() -> None:
    circuits = breakers(ManualClock())
    for n in range(100):
        circuits.succeeded(f"https://{n}.example", circuits.admit(f"https://{n}.example"))
    assert len(circuits) == 0
    for n in range(100):
        fail(circuits, 3, f"https://{n}.example")
    assert len(circuits) == 3
    with pytest.raises(CircuitOpen):
        circuits.admit("https://99.example")
    assert circuits.admit("https://0.example") == 0, "forgotten, so it is asked again"


Step = tuple[Literal["admit", "succeed", "fail", "abandon", "wait"], int]
STEPS = st.lists(
    st.tuples(st.sampled_from(["admit", "succeed", "fail", "abandon", "wait"]), st.integers(0, 50)),
    max_size=80,
)


@given(STEPS)
def test_whatever_happens_it_keeps_to_its_table_and_is_never_stuck(steps: list[Step]) -> None:
    rng = random.Random(7)
    breaker, now = NEW, 0.0
    tickets: list[int] = []
    for step, number in steps:
        before = breaker
        ticket = tickets[number % len(tickets)] if tickets else None
        match step:
            case "wait":
                now += number
            case "admit":
                after = machine.admit(breaker, now, STEADY)
                if after is None:
                    assert breaker.state is not Circuit.CLOSED
                    assert now < breaker.until
                else:
                    breaker = after
                    tickets.append(breaker.epoch)
            case "succeed" if ticket is not None:
                breaker = machine.succeeded(breaker, ticket)
            case "fail" if ticket is not None:
                breaker = machine.failed(breaker, ticket, now, STEADY, rng)
            case "abandon" if ticket is not None:
                breaker = machine.abandoned(breaker, ticket, now)
        check(before, breaker, now)
    assert machine.admit(breaker, now + 40, STEADY) is not None, "the longest wait there is"


def check(before: Breaker, after: Breaker, now: float) -> None:
    if after.state is not before.state:
        assert CIRCUIT.allows(before.state, after.state)
        assert after.epoch == before.epoch + 1
    assert 0 <= after.failures < STEADY.failures_max
    assert after.until <= now + 40
    assert (after.openings == 0) or after.state is not Circuit.CLOSED


async def test_a_failing_server_is_left_alone_and_comes_back() -> None:
    clock = ManualClock()
    settings = Settings(breaker=STEADY)
    replies = [answers(500), hangs_up, answers(503), answers(200)]
    async with listening(*replies) as stranger:
        async with caller(egress_to(stranger), settings=settings, clock=clock) as client:
            request = Request("POST", stranger.url())
            assert (await client.send(request)).status == 500
            with pytest.raises(Exception, match="proper HTTP"):
                await client.send(request)
            assert (await client.send(request)).status == 503
            for _ in range(3):
                with pytest.raises(CircuitOpen):
                    await client.send(request)
            assert len(stranger.heads) == 3, "an open circuit sends nothing"
            clock.advance(10)
            assert (await client.send(request)).status == 200
            assert (await client.send(request)).status == 200


async def test_a_refusal_of_ours_is_no_failure_of_theirs() -> None:
    async with listening(answers(404)) as stranger:
        names = {"a.example": [["10.0.0.1"]] * 5 + [["127.0.0.1"]]}
        egress = egress_to(stranger)
        async with caller(egress, names=names, settings=Settings(breaker=STEADY)) as client:
            request = Request("GET", stranger.url(host="a.example"))
            for _ in range(5):
                with pytest.raises(Exception, match="public internet"):
                    await client.send(request)
            for _ in range(5):
                assert (await client.send(request)).status == 404
