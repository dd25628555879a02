"""Twice as many requests as it can serve: it says so at once, and loses nothing that it took.

Capacity is found with a closed loop: as many callers as keep it busy, each waiting for its answer. Then
requests come at twice that rate whatever the answers do, as a crowd does. A refused caller is told when to
come back, and quickly; memory stays small; and when the crowd is gone everything is as before.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from pathlib import Path

import uvloop

from tests.kill.facts import rows_of
from tests.kill.house import Announced, up
from tests.soak.needs import Missing
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
    late_seconds: float = 0.0
    """The most that the crowd itself was behind its plan."""
    _idle: list[Visitor] = field(default_factory=list)
    _asking: set[asyncio.Task[None]] = field(default_factory=set)

    async def come(self, rate: float, seconds: float) -> None:
        self._idle = await visit_all(self.at.port, CONNECTIONS)
        began, sent, passed_before = time.perf_counter(), 0, 0.0
        while (passed := time.perf_counter() - began) < seconds:
            for n in range(sent, int(rate * passed)):
                self._send(n, began + n / rate)
            sent = max(sent, int(rate * passed))
            self.late_seconds = max(self.late_seconds, passed - passed_before - TICK_SECONDS)
            passed_before = passed
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
            uvloop.run(_overload(here, result, say))
    return [result]


async def _overload(folder: Path, result: Result, say: Say) -> None:
    async with up(folder / "data", *OPTIONS) as (house, at):
        alone = Regular(at.port, at.token, "alone")
        calm = await alone.ask_often(CALM_CALLS)
        say(f"alone: {calm}; {mebibytes(house.rss_bytes())}")
        rate, accepted = await _capacity(at, say)
        crowd = Crowd(at)
        await crowd.come(2 * rate, OVERLOAD_SECONDS)
        say(
            f"at {2 * rate:.0f}/s: {crowd.figures}; {crowd.unsent} not sent, the crowd itself {1e3 * crowd.late_seconds:.0f} ms late at most"
        )
        say(f"of these taken: {crowd.figures.only(201)}")
        seconds = await _seconds_until_calm(alone, calm.quantile(0.99))
        memory = house.rss_bytes_max()
        say(f"calm again after {seconds:.1f} s; {mebibytes(memory)} at most")
        alone.close()
        assert await house.terminate(60.0) == 0
    taken = {*accepted, *crowd.accepted, *alone.accepted}
    result.acknowledged += len(taken)
    result.lost += len(taken - _kept(folder / "data"))
    result.remarks.append(
        f"capacity {rate:.0f}/s; at twice that p99 {1e3 * crowd.figures.quantile(0.99):.0f} ms, "
        f"{len(crowd.accepted) / OVERLOAD_SECONDS:.0f}/s taken, {len(crowd.figures.refusals):,} refused; "
        f"{mebibytes(memory)}; calm after {seconds:.1f} s"
    )
    _judge(crowd, memory, result.lost)


def _judge(crowd: Crowd, memory: int, lost: int) -> None:
    figures = crowd.figures
    odd = set(figures.statuses) - {201, 429, 503}
    silent = sum(not answer.says_when for answer in figures.refusals)
    assert figures.refusals, "nobody was refused: it was not overloaded"
    assert not odd, f"some were answered {odd}"
    assert not silent, f"{silent} were refused without Retry-After"
    assert not figures.cut_off, f"{figures.cut_off} were cut off without an answer"
    assert not crowd.unsent, f"{crowd.unsent} could not even be sent: too many were waiting"
    assert figures.quantile(0.99) < P99_SECONDS_MAX, f"answers took too long: {figures}"
    assert memory < MEMORY_BYTES_MAX, f"it took {mebibytes(memory)}"
    assert not lost, f"{lost} accepted items are not there"


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
