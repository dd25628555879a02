"""Twice as many requests as it can serve: it says so at once, and loses nothing that it took.

Capacity is found with a closed loop: as many callers as keep it busy, each waiting for its answer. Then
requests come at twice that rate whatever the answers do, as a crowd does. A refused caller is told when to
come back, and quickly; memory stays small; and when the crowd is gone everything is as before.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path

import uvloop

from tests.kill.facts import rows_of
from tests.kill.house import Announced, up
from tests.soak.needs import Missing
from tests.soak.quiet import OTHERS_SHARE_MAX, Used
from tests.soak.results import Result
from tests.soak.trial import Say, trial
from tests.soak.visitors import (
    Figures,
    Regular,
    Visitor,
    allow_files,
    leave,
    mebibytes,
    submission,
    together,
    visit_all,
)

ROUNDS = 1
ATTEMPTS = 3
CALLERS = 64
CAPACITY_SECONDS = 10.0
OVERLOAD_SECONDS = 20.0
CONNECTIONS = 2_000
"""All there before it begins: opening one is another promise."""
TICK_SECONDS = 0.01
P99_SECONDS_MAX = 1.0
MEMORY_BYTES_MAX = 256 * 1024**2
CALM_SECONDS_MAX = 60.0
CALM_CALLS = 100
CALM_FACTOR = 2.0
NOISE_SECONDS = 0.02
"""What a busy machine may add to a quantile of so few calls."""
# The limit per token is another promise: here the server itself must say no.
OPTIONS = ("--set=access.requests_max=1000000000", "--quiet")


@dataclass(slots=True)
class Crowd:
    """Comes at its own rate, whatever it is told."""

    at: Announced
    figures: Figures = field(default_factory=Figures)
    accepted: list[str] = field(default_factory=list)
    unsent: int = 0
    """For want of a connection: so many were waiting."""
    _idle: list[Visitor] = field(default_factory=list)
    _asking: set[asyncio.Task[None]] = field(default_factory=set)

    async def come(self, rate: float, seconds: float) -> None:
        self._idle = await visit_all(self.at.port, CONNECTIONS)
        began, sent = time.perf_counter(), 0
        while (passed := time.perf_counter() - began) < seconds:
            for n in range(sent, int(rate * passed)):
                self._send(n, began + n / rate)
            sent = max(sent, int(rate * passed))
            await asyncio.sleep(TICK_SECONDS)
        await asyncio.gather(*self._asking)
        await leave(self._idle)

    def _send(self, n: int, since: float) -> None:
        if not self._idle:
            self.unsent += 1
            return
        task = asyncio.create_task(self._ask(self._idle.pop(), f"crowd-{n}", since))
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def _ask(self, visitor: Visitor, id: str, since: float) -> None:
        try:
            answer = await visitor.ask(submission(self.at.token, id), since)
        except OSError:
            self.figures.cut_off += 1
            return
        self.figures.add(answer)
        if answer.status == 201:
            self.accepted.append(id)
        self._idle.append(visitor)


@dataclass(slots=True)
class Trial:
    """What one crowd did to one server."""

    rate: float
    crowd: Crowd
    calm_seconds: float
    memory: int
    others_share: float
    taken: set[str]

    def __str__(self) -> str:
        figures = self.crowd.figures
        return (
            f"capacity {self.rate:.0f}/s; at twice that p99 {1e3 * figures.quantile(0.99):.0f} ms, "
            f"{len(self.crowd.accepted) / OVERLOAD_SECONDS:.0f}/s taken, {len(figures.refusals):,} refused; "
            f"{mebibytes(self.memory)}; calm after {self.calm_seconds:.1f} s; "
            f"others had {self.others_share:.0%} of the processors"
        )


def run(folder: Path, rounds: int, seed: int, say: Say) -> list[Result]:
    result = Result("overload", "twice the capacity, open loop")
    possible = allow_files(CONNECTIONS)
    if possible < CONNECTIONS:
        raise Missing(
            f"{CONNECTIONS} connections are needed, {possible} possible: raise ulimit -Hn"
        )
    for n in range(rounds):
        here = folder / f"overload-{n}"
        with trial(result, here, seed + n + 1, say):
            _try(here, result, say)
    return [result]


def _try(folder: Path, result: Result, say: Say) -> None:
    """Again if it was slow while others had the processors: then twice its capacity was many times it."""
    for _ in range(ATTEMPTS):
        shutil.rmtree(folder / "data", ignore_errors=True)
        done = uvloop.run(_overload(folder, say))
        lost = len(done.taken - _kept(folder / "data"))
        result.acknowledged += len(done.taken)
        result.lost += lost
        assert not lost, f"{lost} accepted items are not there"
        _expect_honest(done)
        if _is_quick(done):
            result.remarks.append(str(done))
            return
        assert done.others_share > OTHERS_SHARE_MAX, f"answers took too long: {done}"
        say(f"slow, but others had {done.others_share:.0%} of the processors: once more")
    raise Missing("overload needs a machine that has nothing else to do")


async def _overload(folder: Path, say: Say) -> Trial:
    async with up(folder / "data", *OPTIONS) as (house, at):
        alone = Regular(at.port, at.token, "alone")
        calm = await alone.ask_often(CALM_CALLS)
        say(f"alone: {calm}; {mebibytes(house.rss_bytes())}")
        before = Used.now(house.pid)
        rate, accepted = await _capacity(at, say)
        crowd = Crowd(at)
        await crowd.come(2 * rate, OVERLOAD_SECONDS)
        others_share = Used.now(house.pid).others_share(before)
        say(f"at {2 * rate:.0f}/s: {crowd.figures}; {crowd.unsent} not sent")
        say(f"of these taken: {crowd.figures.only(201)}")
        seconds = await _seconds_until_calm(alone, calm.quantile(0.99))
        memory = house.rss_bytes_max()
        say(f"calm again after {seconds:.1f} s; {mebibytes(memory)} at most")
        alone.close()
        assert await house.terminate(60.0) == 0
    taken = {*accepted, *crowd.accepted, *alone.accepted}
    return Trial(rate, crowd, seconds, memory, others_share, taken)


def _expect_honest(done: Trial) -> None:
    figures = done.crowd.figures
    odd = set(figures.statuses) - {201, 429, 503}
    silent = sum(not answer.says_when for answer in figures.refusals)
    assert figures.refusals, "nobody was refused: it was not overloaded"
    assert not odd, f"some were answered {odd}"
    assert not silent, f"{silent} were refused without Retry-After"
    assert not figures.cut_off, f"{figures.cut_off} were cut off without an answer"
    assert done.memory < MEMORY_BYTES_MAX, f"it took {mebibytes(done.memory)}"


def _is_quick(done: Trial) -> bool:
    """Nobody waits long, and the crowd never ran out of connections for waiting."""
    return done.crowd.figures.quantile(0.99) < P99_SECONDS_MAX and not done.crowd.unsent


async def _capacity(at: Announced, say: Say) -> tuple[float, list[str]]:
    """Answers per second when it always has something to do."""
    callers = [Regular(at.port, at.token, f"caller-{n}") for n in range(CALLERS)]
    end = time.perf_counter() + CAPACITY_SECONDS
    await asyncio.gather(*(each.ask_until(end) for each in callers))
    figures = together(callers)
    for each in callers:
        each.close()
    rate = len(figures.answers) / CAPACITY_SECONDS
    say(f"{CALLERS} callers: {rate:.0f}/s; {figures}")
    assert set(figures.statuses) == {201}, f"some were answered {dict(figures.statuses)}"
    return rate, [id for each in callers for id in each.accepted]


async def _seconds_until_calm(alone: Regular, before: float) -> float:
    began = time.perf_counter()
    limit = CALM_FACTOR * before + NOISE_SECONDS
    while (await alone.ask_often(CALM_CALLS)).quantile(0.99) > limit:
        passed = time.perf_counter() - began
        assert passed < CALM_SECONDS_MAX, f"not calm after {passed:.0f} s: {alone.figures}"
    return time.perf_counter() - began


def _kept(data_dir: Path) -> set[str]:
    return {row[0] for row in rows_of(str(data_dir / "podium.db"), "select id from work")}
