"""Power cuts: what was acknowledged is on the disk, not in the page cache.

kill -9 proves nothing about that, because the page cache survives it. The controls run without
what protects (SQLite `synchronous`, PostgreSQL `synchronous_commit`) and must lose something.
"""

from __future__ import annotations

from pathlib import Path

import apsw
import psycopg

from podium.testing.servers import Postgres
from tests.kill.fleet import Fleet, fleet
from tests.kill.history import Outcome, operations
from tests.soak.disks import CuttableDisk, cuttable_disk
from tests.soak.results import Result
from tests.soak.trial import Say, trial

ROUNDS = 60
CONTROLS_SHARE = 6
"""One control for so many cuts: it only has to show that losing is possible here."""
SQLITE_MIB = 128
POSTGRES_MIB = 512
POSTGRES_SETTINGS = {
    "max_wal_size": "96MB",
    "min_wal_size": "32MB",
    "shared_buffers": "32MB",
    "max_connections": "60",
}
RECORDS_BEFORE_CUT = (300, 3_000)


def check_needs() -> None:
    CuttableDisk.check_needs()


def run(folder: Path, rounds: int, seed: int, say: Say) -> list[Result]:
    controls = max(2, rounds // CONTROLS_SHARE)
    return [
        *(
            _sqlite(
                folder, Result("powercut", f"SQLite, synchronous={mode}"), mode, count, seed, say
            )
            for mode, count in (("full", rounds), ("normal", controls), ("off", controls))
        ),
        *(
            _postgres(
                folder,
                Result("powercut", f"PostgreSQL, synchronous_commit={mode}"),
                mode,
                count,
                seed,
                say,
            )
            for mode, count in (("on", rounds), ("off", controls))
        ),
    ]


def _sqlite(folder: Path, result: Result, mode: str, rounds: int, seed: int, say: Say) -> Result:
    result.must_lose = mode != "full"
    for _ in range(rounds):
        seed += 1
        here = folder / f"cut-sqlite-{mode}-{seed}"
        with trial(result, here, seed, say), cuttable_disk(here, SQLITE_MIB) as disk:
            file = "podium.db"
            with fleet(
                str(disk.path / file), here, seed=seed, options=[f"--synchronous={mode}"]
            ) as machine:
                child = machine.start_ready("a")
                disk.sync()
                _work(machine, child.name)
                machine.kill_all()
                disk.cut()
                machine.store = str(disk.path / file)
                _judge(machine, result, ["a"], say)
    return result


def _postgres(folder: Path, result: Result, mode: str, rounds: int, seed: int, say: Say) -> Result:
    result.must_lose = mode != "on"
    settings = {**POSTGRES_SETTINGS, "synchronous_commit": mode}
    if result.must_lose:
        settings["wal_writer_delay"] = "10s"
    for _ in range(rounds):
        seed += 1
        here = folder / f"cut-postgres-{mode}-{seed}"
        with trial(result, here, seed, say), cuttable_disk(here, POSTGRES_MIB) as disk:
            server = Postgres(disk.path / "postgres", fsync=True, settings=settings)
            server.start()
            try:
                with fleet(server.url, here, seed=seed) as machine:
                    for slot in ("a", "b"):
                        machine.start(slot)
                    for child in machine.children.values():
                        child.wait_for_event("ready")
                    disk.sync()
                    _work(machine, "a")
                    # The machine dies at once: nobody may hear of the other's death and say more.
                    for child in machine.children.values():
                        child.pause()
                    server.kill()
                    machine.kill_all()
                    disk.cut()
                    server = _same_server(disk, server, settings)
                    _judge(machine, result, ["a", "b"], say)
            finally:
                server.kill()
    return result


def _same_server(disk: CuttableDisk, old: Postgres, settings: dict[str, str]) -> Postgres:
    server = Postgres(disk.path / "postgres", fsync=True, port=old.port, settings=settings)
    (server.directory / "data" / "postmaster.pid").unlink(missing_ok=True)
    server.start()
    return server


def _work(machine: Fleet, slot: str) -> None:
    child = machine.children[slot]
    wanted = len(child.history.records) + machine.rng.randint(*RECORDS_BEFORE_CUT)
    child.wait_for(lambda history: len(history.records) >= wanted)
    child.live_on(machine.rng.uniform(0.0, 0.03))


def _judge(machine: Fleet, result: Result, slots: list[str], say: Say) -> None:
    """First the bare disk; then, unless it was to lose, what becomes of it in a new life."""
    asked = operations(machine.histories)
    acknowledged = sum(o.outcome is Outcome.OK for o in asked if o.what != "read")
    result.acknowledged += acknowledged
    try:
        report = machine.check_present()
    except (apsw.Error, psycopg.Error) as error:
        # Not even the tables can be read. For a control that is one more way to lose everything.
        if not result.must_lose:
            raise AssertionError("the store cannot be read") from error
        result.lost += acknowledged
        result.remarks[:] = ["at least once not even the tables were left"]
        return
    result.lost += report.lost_count
    say(f"{result.case}: acknowledged {acknowledged}, lost {report.lost_count}")
    if result.must_lose:
        return
    assert not report.violations, str(report)
    for slot in slots:
        machine.start_ready(slot)
    machine.drain_and_check()
