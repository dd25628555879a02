"""A disk that fills up: writes are refused with a code, reads go on, and space brings all back.

Nobody is restarted, except PostgreSQL itself where it chose to die: then it is started again as a
service manager would, and the processes on it go on by themselves.
"""

from __future__ import annotations

from pathlib import Path

from podium.testing.servers import Postgres
from tests.kill.child import Child
from tests.kill.fleet import Fleet, fleet
from tests.soak.disks import SmallDisk, small_disk
from tests.soak.refusals import refusal
from tests.soak.results import Result
from tests.soak.revive import revive
from tests.soak.trial import Say, trial

ROUNDS = 10
SQLITE_MIB = (12, 64)
POSTGRES_MIB = (160, 400)
POSTGRES_SETTINGS = {
    "max_wal_size": "64MB",
    "min_wal_size": "32MB",
    "shared_buffers": "16MB",
    "max_connections": "60",
}
REFUSED = 3
READS = 3
PATIENCE_SECONDS = 3.0


def check_needs() -> None:
    SmallDisk.check_needs()


def run(folder: Path, rounds: int, seed: int, say: Say) -> list[Result]:
    on_sqlite = Result("diskfull", "SQLite")
    on_postgres = Result("diskfull", "PostgreSQL")
    died_count = 0
    for n in range(rounds):
        here = folder / f"full-sqlite-{n}"
        with trial(on_sqlite, here, seed + n + 1, say):
            _sqlite(here, seed + n + 1, on_sqlite, say)
        here = folder / f"full-postgres-{n}"
        with trial(on_postgres, here, seed + n + 1, say):
            died_count += _postgres(here, seed + n + 1, on_postgres, say)
    on_postgres.remarks.append(f"the server itself gave up {died_count} times")
    return [on_sqlite, on_postgres]


def _sqlite(folder: Path, seed: int, result: Result, say: Say) -> None:
    with small_disk(folder / "disk", SQLITE_MIB[0]) as disk:
        with fleet(str(disk.path / "podium.db"), folder, seed=seed) as one:
            child = one.start_ready("a")
            child.wait_for_more("tick", "ok", one.rng.randint(10, 300))
            disk.fill()
            _see_refusals(child)
            child.wait_for_more("read", "ok", READS)
            disk.enlarge(SQLITE_MIB[1])
            child.wait_for_more("tick", "ok", 20)
            child.wait_for_more("submit", "ok", 20)
            _finish(one, child, result, say)


def _postgres(folder: Path, seed: int, result: Result, say: Say) -> bool:
    died = False
    with small_disk(folder / "disk", POSTGRES_MIB[0]) as disk:
        server = Postgres(disk.path / "postgres", settings=POSTGRES_SETTINGS)
        server.start()
        try:
            options = [f"--patience={PATIENCE_SECONDS}"]
            with fleet(server.url, folder, seed=seed, options=options) as one:
                child = one.start_ready("a")
                child.wait_for_more("tick", "ok", one.rng.randint(10, 300))
                disk.fill()
                _see_refusals(child)
                if server.is_running:
                    # Unless it died of it, it goes on answering what needs no space.
                    child.wait_for_more("read", "ok", READS)
                disk.enlarge(POSTGRES_MIB[1])
                died = revive(server)
                child.wait_for_more("tick", "ok", 20)
                child.wait_for_more("submit", "ok", 20)
                _finish(one, child, result, say)
        finally:
            server.kill()
    return died


def _see_refusals(child: Child) -> None:
    # The space inside the files is used up first, so this may take a while.
    first = child.wait_for(lambda history: refusal(history, 0), 60)
    child.wait_for(lambda history: refusal(history, REFUSED), 60)
    assert first.facts["code"] == "SERVICE_UNAVAILABLE", first


def _finish(one: Fleet, child: Child, result: Result, say: Say) -> None:
    first = refusal(child.history)
    assert first is not None
    report = one.drain_and_check()
    result.acknowledged += report.acknowledged_count
    result.lost += report.lost_count
    say(f"{result.case}: refused with {first.facts['cause'] or first.facts['error']}; {report}")
