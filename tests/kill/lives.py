"""One data folder, many lives of `podium up`: the same in `scripts/test` with few kills and in `scripts/soak` with many."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.kill.callers import Load
from tests.kill.house import Announced, Up
from tests.kill.promises import Report, check, kept

CALLS_BEFORE_KILL = (1, 250)
SECONDS_BEFORE_KILL = (0.0, 0.03)


class Lives:
    """A house that is brought up again and again under the same load, at the same place."""

    def __init__(self, data_dir: Path, house: Up, at: Announced, rng: random.Random) -> None:
        self.data_dir = data_dir
        self.house = house
        self.at = at
        self.rng = rng
        self.load = Load(at, rng)

    async def work_until_random_moment(self) -> None:
        """Some answers, and then some milliseconds: a moment that nothing we are told is near to."""
        calls = self.rng.randint(*CALLS_BEFORE_KILL)
        await self.load.book.reach(len(self.load.book.calls) + calls)
        await asyncio.sleep(self.rng.uniform(*SECONDS_BEFORE_KILL))

    async def kill(self) -> None:
        await self.house.kill()

    async def start(self, *options: str) -> None:
        self.house = await Up.start(self.data_dir, *options, port=self.at.port)
        again = await self.house.announced()
        assert (again.port, again.token) == (self.at.port, self.at.token), "the token is kept"
        self.at = again

    async def drain_and_check(self) -> Report:
        is_finished = await self.load.drain()
        report = check(self.load.book, await kept(self.at, self.data_dir))
        assert not report.violations, str(report)
        assert is_finished, f"not everything came to its end: {report}"
        assert report.acknowledged_count, "nothing was acknowledged: nothing was shown"
        return report

    async def end(self) -> None:
        await self.load.close()
        if self.house.is_running:
            await self.house.kill()


@asynccontextmanager
async def lives(folder: Path, *options: str, seed: int) -> AsyncIterator[Lives]:
    folder.mkdir(parents=True, exist_ok=True)
    data_dir = folder / "data"
    house = await Up.start(data_dir, *options)
    try:
        made = Lives(data_dir, house, await house.announced(), random.Random(seed))
    except BaseException:
        await house.kill()
        raise
    try:
        yield made
    finally:
        await made.end()


async def kill_again_and_again(folder: Path, kills: int, seed: int) -> Report:
    async with lives(folder, seed=seed) as many:
        for _ in range(kills):
            await many.work_until_random_moment()
            await many.kill()
            await many.start()
        return await many.drain_and_check()
