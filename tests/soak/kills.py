"""kill -9, by the hundred, on both stores."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from podium.testing.servers import postgres
from tests.kill.checker import Report
from tests.kill.fleet import fleet
from tests.kill.scenes import MANY_TICKS, SERVER_SETTINGS, kill_among_others, kill_one_after_another
from tests.soak.results import Result
from tests.soak.trial import Say, trial

ROUNDS = 300
KILLS_PER_FLEET = 25
"""A fresh store now and then, so that a run that fails is short enough to look at."""


def run(folder: Path, rounds: int, seed: int, say: Say) -> list[Result]:
    """Half of the kills on each store; on PostgreSQL one in four hits the server itself."""
    on_sqlite = Result("kill", "SQLite, one process")
    on_postgres = Result("kill", "PostgreSQL, three processes and the server")
    for result, act, count in (
        (on_sqlite, _sqlite, rounds // 2),
        (on_postgres, _postgres, rounds - rounds // 2),
    ):
        for n, done in enumerate(range(0, count, KILLS_PER_FLEET)):
            kills = min(count - done, KILLS_PER_FLEET)
            here = folder / f"kill-{act.__name__}-{n}"
            _kill(result, act, here, kills, seed + n + 1, say)
    return [on_sqlite, on_postgres]


Act = Callable[[Path, int, int], Report]


def _kill(result: Result, act: Act, folder: Path, kills: int, seed: int, say: Say) -> None:
    with trial(result, folder, seed, say, trials=kills, rounds=2 * kills):
        report = act(folder, kills, seed)
        result.acknowledged += report.acknowledged_count
        say(f"{result.case}: {kills} kills, {report}")


def _sqlite(folder: Path, kills: int, seed: int) -> Report:
    with fleet(str(folder / "podium.db"), folder, seed=seed) as killed:
        return kill_one_after_another(killed, kills)


def _postgres(folder: Path, kills: int, seed: int) -> Report:
    of_server = kills // 4
    with (
        postgres(fsync=True, settings=SERVER_SETTINGS) as server,
        fleet(server.url, folder, seed=seed, options=MANY_TICKS) as killed,
    ):
        return kill_among_others(
            killed, server, kills=kills - of_server, server_kills=of_server, pauses=kills // 8
        )
