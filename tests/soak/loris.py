"""Hundreds who speak as slowly as they can, beside those who have something to say."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import uvloop

from podium.http.wire import EdgeLimits
from tests.kill.house import Announced, up
from tests.soak.results import Result
from tests.soak.trial import Say, trial
from tests.soak.visitors import Regular, Visitor, mebibytes, request, together, visit

ROUNDS = 1
SECONDS = 60.0
"""Longer than the slowest of them may stay."""
REGULARS = 4
P99_SECONDS_MAX = 0.25
GROWTH_BYTES_MAX = 64 * 1024**2
DRIP_SECONDS = 1.0
SPREAD_SECONDS = 10.0
"""They do not come all at once, and so they are not sent away all at once."""
LATE_SECONDS_MAX = 3.0
LIMITS = EdgeLimits()


@dataclass(slots=True)
class Kind:
    """One way to be slow: what is said first, what is dripped then, and how long we suffer it."""

    name: str
    count: int
    first: Callable[[str], bytes]
    drip: bytes
    stay_seconds_max: float
    stays: list[float] = field(default_factory=list)


def kinds() -> list[Kind]:
    return [
        Kind("heads", 300, _half_a_head, b"a", LIMITS.head_seconds),
        # More than there may be requests in work: a body that is not there yet is not work.
        Kind("bodies", 600, _half_a_body, b" ", 2 * LIMITS.body_window_seconds),
        Kind("bodies of strangers", 100, _half_a_strangers_body, b" ", LIMITS.body_window_seconds),
        Kind("silent", 200, lambda token: b"", b"", LIMITS.first_byte_seconds),
    ]


def run(folder: Path, rounds: int, seed: int, say: Say) -> list[Result]:
    result = Result("loris", "slow heads, slow bodies and silence beside normal traffic")
    for n in range(rounds):
        here = folder / f"loris-{n}"
        with trial(result, here, seed + n + 1, say):
            uvloop.run(_suffer(here, random.Random(seed + n + 1), result, say))
    return [result]


async def _suffer(folder: Path, rng: random.Random, result: Result, say: Say) -> None:
    async with up(folder / "data", "--quiet") as (house, at):
        regulars = [Regular(at.port, at.token, f"regular-{n}") for n in range(REGULARS)]
        await asyncio.gather(*(each.ask_often(100) for each in regulars))
        alone, before = together(regulars), house.rss_bytes()
        say(f"alone: {alone}; {mebibytes(before)}")
        for each in regulars:
            each.figures = type(each.figures)()
        slow = kinds()
        end = time.perf_counter() + SECONDS
        async with asyncio.TaskGroup() as tasks:
            for kind in slow:
                for _ in range(kind.count):
                    tasks.create_task(_be_slow(kind, at, rng.uniform(0, SPREAD_SECONDS), end))
            for each in regulars:
                tasks.create_task(each.ask_until(end, pause_seconds=0.01))
        figures, after = together(regulars), house.rss_bytes()
        say(f"beside them: {figures}; {mebibytes(after)}")
        for kind in slow:
            say(f"{kind.name}: {_stays(kind)}")
        result.acknowledged += sum(len(each.accepted) for each in regulars)
        result.remarks.append(f"p99 alone {1e3 * alone.quantile(0.99):.0f} ms")
        result.remarks.append(f"beside them {1e3 * figures.quantile(0.99):.0f} ms")
        for each in regulars:
            each.close()
        assert set(figures.statuses) == {201}, f"others were answered {dict(figures.statuses)}"
        assert figures.quantile(0.99) < P99_SECONDS_MAX, f"others waited: {figures}"
        assert after - before < GROWTH_BYTES_MAX, f"it grew by {mebibytes(after - before)}"
        for kind in slow:
            assert kind.stays, f"{kind.name}: nobody was ever sent away"
            assert max(kind.stays) < kind.stay_seconds_max + LATE_SECONDS_MAX, _stays(kind)
        assert await house.terminate(60.0) == 0


async def _be_slow(kind: Kind, at: Announced, later_seconds: float, end: float) -> None:
    """Whoever is sent away comes back at once."""
    await asyncio.sleep(later_seconds)
    while time.perf_counter() < end:
        began = time.perf_counter()
        visitor = await visit(at.port)
        visitor.send(kind.first(at.token))
        while not await _is_over(visitor, min(DRIP_SECONDS, end - time.perf_counter())):
            if time.perf_counter() >= end:
                visitor.close()
                return
            visitor.send(kind.drip)
        kind.stays.append(time.perf_counter() - began)


async def _is_over(visitor: Visitor, seconds: float) -> bool:
    try:
        async with asyncio.timeout(max(0.0, seconds)):
            await asyncio.shield(visitor.ended)
    except TimeoutError:
        return False
    return True


def _stays(kind: Kind) -> str:
    if not kind.stays:
        return f"{kind.count} stayed"
    return f"{kind.count} came, {len(kind.stays):,} times sent away, after {max(kind.stays):.1f} s at most"


def _half_a_head(token: str) -> bytes:
    return b"POST /api/work HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "


def _half_a_body(token: str) -> bytes:
    return request("POST", "/api/work", token, b" " * 10_000)[:-9_990]


def _half_a_strangers_body(token: str) -> bytes:
    return request("POST", "/api/work", "", b" " * 10_000)[:-9_990]
