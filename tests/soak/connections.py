"""Ten thousand who are connected and say nothing: others are served as if they were alone."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import uvloop

from tests.kill.house import Announced, Up, up
from tests.soak.results import Result
from tests.soak.trial import Say, trial
from tests.soak.visitors import (
    Figures,
    Regular,
    Visitor,
    allow_files,
    leave,
    mebibytes,
    request,
    visit,
    visit_all,
)

ROUNDS = 2
"""The second crowd must cost no more than the first: what one leaves behind is a leak."""
CONNECTIONS = 10_000
OTHERS = 50
IDLE_SECONDS = 20.0
P99_SECONDS_MAX = 0.25
GROWTH_BYTES_MAX = 16 * 1024**2
"""While nobody says anything, and from crowd to crowd."""
ALIVE = request("GET", "/livez")


def run(folder: Path, rounds: int, seed: int, say: Say) -> list[Result]:
    result = Result("connections", "idle connections beside normal traffic")
    count = allow_files(CONNECTIONS + OTHERS) - OTHERS
    if count < CONNECTIONS:
        result.remarks.append(f"the limit of open files allowed {count:,} of {CONNECTIONS:,}")
    here = folder / "connections"
    with trial(result, here, seed, say, trials=rounds, rounds=rounds):
        uvloop.run(_crowds(here, rounds, count, result, say))
    return [result]


async def _crowds(folder: Path, rounds: int, count: int, result: Result, say: Say) -> None:
    limit = f"--set=limits.connections_max={count + OTHERS}"
    async with up(folder / "data", limit, "--quiet") as (house, at):
        alone = await _alone(at)
        say(f"alone: {alone}; {mebibytes(house.rss_bytes())}")
        sizes = []
        for n in range(rounds):
            sizes.append(await _crowd(house, at, count, f"crowd {n + 1}", result, say))
        result.remarks.append(f"alone p99 {1e3 * alone.quantile(0.99):.0f} ms")
        growth = sizes[-1] - sizes[0]
        assert growth < GROWTH_BYTES_MAX, f"from crowd to crowd it grew by {mebibytes(growth)}"
        assert await house.terminate(60.0) == 0


async def _alone(at: Announced) -> Figures:
    regular = Regular(at.port, at.token, "alone")
    figures = await regular.ask_often(300)
    regular.close()
    return figures


async def _crowd(house: Up, at: Announced, count: int, name: str, result: Result, say: Say) -> int:
    before = house.rss_bytes()
    began = time.perf_counter()
    crowd = await visit_all(at.port, count)
    # Each says one thing, or it would be sent away soon: then it is a client that keeps its line.
    await asyncio.gather(*(visitor.ask(ALIVE) for visitor in crowd))
    say(f"{name}: {count:,} connections in {time.perf_counter() - began:.1f} s")
    settled = house.rss_bytes()
    regular = Regular(at.port, at.token, name.replace(" ", "-"))
    await regular.ask_until(time.perf_counter() + IDLE_SECONDS, pause_seconds=0.005)
    after = house.rss_bytes()
    figures, cost = regular.figures, (settled - before) / count
    gone = sum(visitor.transport is None for visitor in crowd)
    said = f"{name}: {figures}; {mebibytes(before)} → {mebibytes(settled)} → {mebibytes(after)}"
    say(f"{said}, {cost / 1024:.1f} KiB per connection; {gone} were cut off")
    result.acknowledged += len(regular.accepted)
    result.remarks.append(
        f"{count:,}: p99 {1e3 * figures.quantile(0.99):.0f} ms, {mebibytes(after)}"
    )
    await _expect_honest_end(at, crowd, regular)
    assert set(figures.statuses) == {201}, f"others were answered {dict(figures.statuses)}"
    assert figures.quantile(0.99) < P99_SECONDS_MAX, f"others waited: {figures}"
    assert gone == 0, f"{gone} idle connections were cut off early"
    assert after - settled < GROWTH_BYTES_MAX, f"while idle it grew by {mebibytes(after - settled)}"
    return after


async def _expect_honest_end(at: Announced, crowd: list[Visitor], regular: Regular) -> None:
    """Whoever comes when all places are taken is told when to come back; then there is room again."""
    more = await visit_all(at.port, OTHERS - 1)
    await asyncio.gather(*(visitor.ask(ALIVE) for visitor in more))
    late = await visit(at.port)
    answer = await late.ask(ALIVE)
    assert (answer.status, answer.says_when) == (503, True), f"the one too many got {answer}"
    await leave([*crowd, *more, late])
    assert (await regular.ask()).status == 201
    regular.close()
