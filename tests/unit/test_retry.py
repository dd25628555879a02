"""A delay is what the policy says: never below zero, never above the cap, the same for one draw."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from podium.kernel.retry import Backoff, RetryPolicy

POLICIES = st.builds(
    RetryPolicy,
    backoff=st.sampled_from(Backoff),
    base_seconds=st.floats(0, 86_400),
    cap_seconds=st.floats(0, 7 * 86_400),
    jitter=st.floats(0, 1),
)
ATTEMPTS = st.integers(1, 10_000)


@given(POLICIES, ATTEMPTS, st.integers())
def test_a_delay_stays_between_nothing_and_the_cap(
    policy: RetryPolicy, attempt: int, seed: int
) -> None:
    delay = policy.delay_seconds(attempt, random.Random(seed))
    assert 0 <= delay <= policy.cap_seconds
    assert delay == policy.delay_seconds(attempt, random.Random(seed))


@given(POLICIES, ATTEMPTS)
def test_without_jitter_a_later_attempt_never_waits_less(policy: RetryPolicy, attempt: int) -> None:
    steady = policy.model_copy(update={"jitter": 0.0})
    rng = random.Random(0)
    assert steady.delay_seconds(attempt, rng) <= steady.delay_seconds(attempt + 1, rng)


@given(POLICIES, ATTEMPTS, st.integers())
def test_jitter_moves_a_delay_by_its_share_at_most(
    policy: RetryPolicy, attempt: int, seed: int
) -> None:
    steady = policy.model_copy(update={"jitter": 0.0}).delay_seconds(attempt, random.Random(0))
    moved = policy.delay_seconds(attempt, random.Random(seed))
    assert abs(moved - steady) <= steady * policy.jitter * 1.000_001 + 1e-9


@pytest.mark.parametrize(
    ("backoff", "delays"),
    [
        (Backoff.FIXED, [2, 2, 2, 2]),
        (Backoff.LINEAR, [2, 4, 6, 8]),
        (Backoff.EXPONENTIAL, [2, 4, 8, 10]),
    ],
)
def test_each_backoff_grows_as_it_is_called(backoff: Backoff, delays: list[float]) -> None:
    policy = RetryPolicy(backoff=backoff, base_seconds=2, cap_seconds=10, jitter=0)
    assert [policy.delay_seconds(n, random.Random(0)) for n in (1, 2, 3, 4)] == delays


def test_the_first_attempt_is_one() -> None:
    with pytest.raises(ValueError, match="first"):
        RetryPolicy().delay_seconds(0, random.Random(0))


@pytest.mark.parametrize(
    "bad",
    [
        {"base_seconds": -1},
        {"base_seconds": float("nan")},
        {"cap_seconds": float("inf")},
        {"jitter": 1.1},
        {"backoff": "sometimes"},
        {"unknown": 1},
    ],
    ids=repr,
)
def test_a_policy_that_makes_no_sense_is_refused(bad: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        RetryPolicy.model_validate(bad)


@given(POLICIES)
def test_a_policy_is_kept_as_text(policy: RetryPolicy) -> None:
    assert RetryPolicy.model_validate_json(policy.model_dump_json()) == policy
