"""What clients want: items of many kinds, each with the ends that it may come to."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from podium.kernel.retry import RetryPolicy
from podium.kernel.work import NewItem, Verdict

QUEUES = ("slow", "quick")
PATIENT = 200
"""Attempts for items that must succeed: more than a day of faults can take from them."""
BACKOFF = RetryPolicy(base_seconds=1.0, cap_seconds=20.0)


@dataclass(slots=True)
class Wish:
    """One item that a client wants done, and what may become of it."""

    item: NewItem
    at_seconds: float
    ends: tuple[str, ...] = ("done",)
    reasons: tuple[str, ...] = ()
    """Why it may be dead."""
    ends_when_clock_jumps: tuple[str, ...] = ()
    """More ends, for a day on which the database's clock is set back and forth."""
    cancel_at_seconds: float | None = None
    is_replayed: bool = False
    key: str | None = None
    """Submitted without an id of its own, under this idempotency key."""
    id: str = ""
    """The item's, as the client was told."""
    is_acknowledged: bool = False
    cancel_answer: Verdict | None = None

    @property
    def is_answered(self) -> bool:
        wants_cancel = self.cancel_at_seconds is not None
        return self.is_acknowledged and (not wants_cancel or self.cancel_answer is not None)


def plain(wish: Wish, rng: random.Random) -> None:
    """Nothing special: it must be done in the end."""


def flaky(wish: Wish, rng: random.Random) -> None:
    wish.item.payload["fails"] = rng.choice((1, 2))


def poison(wish: Wish, rng: random.Random) -> None:
    wish.item.payload["fails"] = PATIENT
    wish.item = replace(wish.item, attempts_max=rng.choice((1, 2, 3)))
    wish.ends = ("dead",)
    wish.reasons = ("failed_attempts_exhausted", "lease_expired_attempts_exhausted")
    wish.is_replayed = rng.random() < 0.5


def hanging(wish: Wish, rng: random.Random) -> None:
    """Works for longer than it may."""
    wish.item.payload["seconds"] = 80.0
    wish.item = replace(wish.item, attempts_max=2, run_seconds_max=30.0)
    wish.ends = ("dead",)
    wish.reasons = ("run_timeout_attempts_exhausted", "lease_expired_attempts_exhausted")
    wish.ends_when_clock_jumps = ("done",)


def perishable(wish: Wish, rng: random.Random) -> None:
    wish.item = replace(wish.item, ttl_seconds=rng.choice((5.0, 30.0, 120.0)))
    wish.ends = ("done", "dead")
    wish.reasons = ("expired",)


def impatient(wish: Wish, rng: random.Random) -> None:
    wish.item = replace(wish.item, wait_seconds_max=rng.choice((5.0, 30.0, 120.0)))
    wish.ends = ("done", "dead")
    wish.reasons = ("waited_too_long",)


def unwanted(wish: Wish, rng: random.Random) -> None:
    """Somebody changes their mind."""
    wish.cancel_at_seconds = wish.at_seconds + rng.uniform(0, 120)
    wish.ends = ("done", "cancelled")


KINDS: dict[Callable[[Wish, random.Random], None], int] = {
    plain: 6,
    flaky: 2,
    poison: 2,
    hanging: 1,
    perishable: 2,
    impatient: 1,
    unwanted: 3,
}
"""And how often each comes."""


def draw_wish(n: int, rng: random.Random, horizon_seconds: float) -> Wish:
    [kind] = rng.choices(list(KINDS), list(KINDS.values()))
    item = NewItem(
        queue=rng.choice(QUEUES),
        payload={"seconds": rng.choice((0.1, 1.0, 10.0, 30.0, 80.0)), "fails": 0},
        id=f"{kind.__name__}-{n}",
        priority=rng.choice((0, 0, 5, 10)),
        delay_seconds=rng.choice((0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 4.0, 60.0)),
        attempts_max=PATIENT,
        retry=BACKOFF,
    )
    wish = Wish(item, rng.uniform(0, horizon_seconds * 0.6))
    kind(wish, rng)
    if rng.random() < 0.3:
        wish.key = f"key-{wish.item.id}"
        wish.item = replace(wish.item, id=None)
    return wish
