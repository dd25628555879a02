"""A destination that fails is left alone for a while, then asked once, then trusted again.

Pure: `Breaker` is a value, and each of the functions below makes the next one. A call takes a ticket
when it goes out and presents it with its outcome; a ticket of an earlier state changes nothing, so that
an answer that was under way when the circuit opened does not close it again.
"""

from __future__ import annotations

import random
from collections import OrderedDict
from dataclasses import dataclass, replace
from enum import StrEnum

from podium.effects.http.errors import CircuitOpen
from podium.kernel.clock import Clock
from podium.kernel.machine import Machine, Move
from podium.kernel.retry import RetryPolicy


class Circuit(StrEnum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


CIRCUIT = Machine(
    "circuit",
    start=[Circuit.CLOSED],
    moves=[
        Move("fail", Circuit.CLOSED, Circuit.CLOSED, "fewer failures in a row than it takes"),
        Move("fail", Circuit.CLOSED, Circuit.OPEN, "one failure too many in a row"),
        Move("probe", Circuit.OPEN, Circuit.HALF_OPEN, "the pause is over: one call goes out"),
        Move("probe", Circuit.HALF_OPEN, Circuit.HALF_OPEN, "the probe never came back"),
        Move("succeed", Circuit.CLOSED, Circuit.CLOSED, "the row of failures is broken"),
        Move("succeed", Circuit.HALF_OPEN, Circuit.CLOSED, "the probe succeeded"),
        Move("fail", Circuit.HALF_OPEN, Circuit.OPEN, "the probe failed: a longer pause"),
        Move("abandon", Circuit.HALF_OPEN, Circuit.OPEN, "the probe was called off: try at once"),
    ],
)


PAUSE = RetryPolicy(base_seconds=5, cap_seconds=300, jitter=0.1)


@dataclass(frozen=True, slots=True)
class BreakerSettings:
    failures_max: int = 5
    """So many failures in a row open the circuit."""
    pause: RetryPolicy = PAUSE
    """How long it stays open: the first time, the second time in a row and so on."""
    probe_seconds: float = 60.0
    """A probe that has not come back by then is given up for lost."""
    destinations_max: int = 1024
    """Only those with a failure are remembered; beyond this number the one longest silent is not."""


DEFAULT = BreakerSettings()


@dataclass(frozen=True, slots=True)
class Breaker:
    state: Circuit = Circuit.CLOSED
    failures: int = 0
    """In a row, while closed."""
    openings: int = 0
    """In a row, without a success between."""
    until: float = 0.0
    """Monotonic: the end of the pause (open), or of the wait for the probe (half open)."""
    epoch: int = 0
    """Grows with each change of state and each probe; a ticket is good for one epoch."""


NEW = Breaker()


def admit(breaker: Breaker, now: float, settings: BreakerSettings) -> Breaker | None:
    """The breaker after letting a call out, whose ticket is its epoch; None if none may go."""
    if breaker.state is Circuit.CLOSED:
        return breaker
    if now < breaker.until:
        return None
    return _moved(breaker, "probe", Circuit.HALF_OPEN, until=now + settings.probe_seconds)


def succeeded(breaker: Breaker, ticket: int) -> Breaker:
    if ticket != breaker.epoch:
        return breaker
    if breaker.state is Circuit.CLOSED:
        return replace(breaker, failures=0)
    return _moved(breaker, "succeed", Circuit.CLOSED, failures=0, openings=0, until=0.0)


def failed(
    breaker: Breaker, ticket: int, now: float, settings: BreakerSettings, rng: random.Random
) -> Breaker:
    if ticket != breaker.epoch:
        return breaker
    failures = breaker.failures + 1
    if breaker.state is Circuit.CLOSED and failures < settings.failures_max:
        return replace(breaker, failures=failures)
    openings = breaker.openings + 1
    until = now + settings.pause.delay_seconds(openings, rng)
    return _moved(breaker, "fail", Circuit.OPEN, failures=0, openings=openings, until=until)


def abandoned(breaker: Breaker, ticket: int, now: float) -> Breaker:
    """The call says nothing about the destination: it was refused or cancelled on our side."""
    if ticket != breaker.epoch or breaker.state is not Circuit.HALF_OPEN:
        return breaker
    return _moved(breaker, "abandon", Circuit.OPEN, until=now)


def _moved(breaker: Breaker, move: str, towards: Circuit, **changes: float) -> Breaker:
    CIRCUIT.to(breaker.state, move, towards)
    return replace(breaker, state=towards, epoch=breaker.epoch + 1, **changes)  # type: ignore[arg-type]


class Breakers:
    """One breaker per destination, as many as fit."""

    def __init__(self, clock: Clock, rng: random.Random, settings: BreakerSettings) -> None:
        self._clock = clock
        self._rng = rng
        self._settings = settings
        self._breakers: OrderedDict[str, Breaker] = OrderedDict()

    def __len__(self) -> int:
        return len(self._breakers)

    def admit(self, destination: str) -> int:
        """A ticket for one call, to be handed in below whatever happens; or CircuitOpen."""
        before = self._breakers.get(destination, NEW)
        now = self._clock.monotonic()
        after = admit(before, now, self._settings)
        if after is None:
            raise CircuitOpen(destination, before.until - now)
        self._keep(destination, after)
        return after.epoch

    def succeeded(self, destination: str, ticket: int) -> None:
        self._keep(destination, succeeded(self._breakers.get(destination, NEW), ticket))

    def failed(self, destination: str, ticket: int) -> None:
        before = self._breakers.get(destination, NEW)
        now = self._clock.monotonic()
        self._keep(destination, failed(before, ticket, now, self._settings, self._rng))

    def abandoned(self, destination: str, ticket: int) -> None:
        before = self._breakers.get(destination, NEW)
        self._keep(destination, abandoned(before, ticket, self._clock.monotonic()))

    def _keep(self, destination: str, breaker: Breaker) -> None:
        self._breakers.pop(destination, None)
        # One that never failed takes no room. One that opened once is kept for its epoch, so that
        # tickets from before do not fit.
        if breaker == NEW:
            return
        self._breakers[destination] = breaker
        if len(self._breakers) > self._settings.destinations_max:
            self._breakers.popitem(last=False)
