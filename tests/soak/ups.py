"""kill -9 of `podium up` under load, by the hundred."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.kill.lives import kill_again_and_again
from tests.soak.results import Result
from tests.soak.trial import Say, trial

ROUNDS = 100
KILLS_PER_FOLDER = 25
"""A fresh folder now and then, so that a run that fails is short enough to look at."""


def run(folder: Path, rounds: int, seed: int, say: Say) -> list[Result]:
    result = Result("up", "podium up under load over HTTP")
    for n, done in enumerate(range(0, rounds, KILLS_PER_FOLDER)):
        kills = min(rounds - done, KILLS_PER_FOLDER)
        here = folder / f"up-{n}"
        with trial(result, here, seed + n + 1, say, trials=kills, rounds=kills):
            report = asyncio.run(kill_again_and_again(here, kills, seed + n + 1))
            result.acknowledged += report.acknowledged_count
            say(f"{kills} kills, {report}")
    return [result]
