"""A disk that fails to sync: what was not synced is not acknowledged, and nobody pretends otherwise.

strace stands between a process and the kernel and lets fsync and fdatasync fail with EIO. SQLite
lives in our process: it refuses writes until it has brought everything into the database file and
synced that, and goes on by itself. PostgreSQL ends itself (PANIC) rather than guess; it is started
again as a service manager would, and our processes go on by themselves.
"""

from __future__ import annotations

import re
import signal
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

from podium.testing.servers import Postgres
from tests.kill.child import Child
from tests.kill.fleet import fleet
from tests.kill.history import History
from tests.soak.needs import need_proc_ptrace, need_program, need_root
from tests.soak.refusals import WRITES, refusal
from tests.soak.results import Result
from tests.soak.revive import revive
from tests.soak.trial import Say, trial

ROUNDS = 20
SYNC = re.compile(
    r"(?P<at>\d+\.\d+) f(?:data)?sync\(\d+<(?P<path>[^>]*)>\)\s*=\s*(?P<answer>-?\d+)"
)
DATABASE = "podium.db"
LOG = "podium.db-wal"
REFUSED = 5
CLOCKS_DIFFER_SECONDS = 0.001
ATTACHED = "attached"


def check_needs() -> None:
    need_root("attaching to the processes of PostgreSQL")
    need_program("strace", "strace")
    need_proc_ptrace()


def run(folder: Path, rounds: int, seed: int, say: Say) -> list[Result]:
    results = [
        Result("fsync", "SQLite, a few syncs fail"),
        Result("fsync", "SQLite, every sync fails for a while"),
        Result("fsync", "PostgreSQL, every sync fails for a while"),
    ]
    acts = (_sqlite_once, _sqlite_for_a_while, _postgres)
    for n in range(rounds):
        for number, (result, act) in enumerate(zip(results, acts, strict=True)):
            here = folder / f"fsync-{number}-{n}"
            with trial(result, here, seed + n + 1, say):
                act(here, seed + n + 1, result, say)
    return results


class Fault:
    """strace on these processes, and on whatever they start, from now until `end`."""

    def __init__(self, pids: list[int], log: Path, when: str) -> None:
        self._log = log
        self._process = subprocess.Popen(
            [
                "strace",
                "-f",
                "-y",
                "-ttt",
                f"--output={log}",
                "--trace=fsync,fdatasync",
                f"--inject=fsync,fdatasync:error=EIO:when={when}",
                *(f"--attach={pid}" for pid in pids),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        assert self._process.stderr is not None
        for _ in pids:
            line = self._process.stderr.readline()
            assert ATTACHED in line.decode(), f"strace said: {line!r}"

    def end(self) -> None:
        """Let go; the processes run on without it."""
        self._process.send_signal(signal.SIGTERM)
        self._process.communicate(timeout=30)

    def syncs(self) -> list[Sync]:
        lines = self._log.read_text(errors="replace").splitlines()
        found = [match for line in lines if (match := SYNC.search(line))]
        return [Sync(Path(m["path"]).name, float(m["at"]), m["answer"] == "0") for m in found]


class Sync(NamedTuple):
    file: str
    at: float
    """By the wall clock, which is what strace knows."""
    is_ok: bool


def _sqlite_once(folder: Path, seed: int, result: Result, say: Say) -> None:
    with fleet(str(folder / "podium.db"), folder, seed=seed) as one:
        child = one.start_ready("a")
        child.wait_for_more("tick", "ok", one.rng.randint(5, 200))
        # A few in a row: the first may hit a round in which nobody waits whose answer is recorded.
        first = one.rng.randint(2, 20)
        fault = Fault([child.pid], folder / "strace", when=f"{first}..{first + 3}")
        try:
            refused = child.wait_for(refusal)
            child.wait_for_more("tick", "ok", 10)
        finally:
            fault.end()
        assert refused.facts["code"] == "SERVICE_UNAVAILABLE", refused
        _assert_checkpointed_before_going_on(fault.syncs(), child.history)
        report = one.drain_and_check()
        result.acknowledged += report.acknowledged_count
        say(f"{result.case}: {report}")


def _assert_checkpointed_before_going_on(syncs: list[Sync], history: History) -> None:
    """Between a failed sync of the log and the next write that is acknowledged, all that the log
    holds is brought into the database file, and that is synced."""
    place = next(n for n, sync in enumerate(syncs) if sync.file == LOG and not sync.is_ok)
    if place and syncs[place - 1] == syncs[place - 1]._replace(file=DATABASE, is_ok=True):
        # The sync before was that of a checkpoint: the log held nothing that was not there already.
        return
    failed_at = syncs[place].at
    wall_ahead = time.time() - time.monotonic()
    acknowledged_at = min(
        record.at + wall_ahead
        for what in WRITES
        for record in history.all(what, "ok")
        # What was on its way when the sync failed may be answered just before the refusal.
        if record.at + wall_ahead > failed_at + CLOCKS_DIFFER_SECONDS
    )
    assert any(
        sync.file == DATABASE and sync.is_ok and failed_at < sync.at <= acknowledged_at
        for sync in syncs
    ), f"it went on as if nothing had happened: {syncs[place : place + 5]}"


def _sqlite_for_a_while(folder: Path, seed: int, result: Result, say: Say) -> None:
    with fleet(str(folder / "podium.db"), folder, seed=seed) as one:
        child = one.start_ready("a")
        child.wait_for_more("tick", "ok", one.rng.randint(5, 200))
        fault = Fault([child.pid], folder / "strace", when="1+")
        try:
            child.wait_for(lambda history: refusal(history, REFUSED))
            child.wait_for_more("read", "ok", 2)
            _assert_nothing_acknowledged_since_first_refusal(child)
        finally:
            fault.end()
        child.wait_for_more("tick", "ok", 10)
        child.wait_for_more("submit", "ok", 10)
        report = one.drain_and_check()
        result.acknowledged += report.acknowledged_count
        say(f"{result.case}: {report}")


def _assert_nothing_acknowledged_since_first_refusal(child: Child) -> None:
    first = refusal(child.history)
    assert first is not None
    late = [
        record
        for what in WRITES
        for record in child.history.all(what, "ok")
        if record.at > first.at
    ]
    assert not late, f"{len(late)} writes were acknowledged while no sync succeeded: {late[:2]}"


def _postgres(folder: Path, seed: int, result: Result, say: Say) -> None:
    server = Postgres(folder / "postgres", fsync=True)
    server.start()
    try:
        with fleet(server.url, folder, seed=seed, options=["--patience=3"]) as one:
            child = one.start_ready("a")
            child.wait_for_more("tick", "ok", one.rng.randint(5, 200))
            fault = Fault(_family(server.pid), folder / "strace", when="1+")
            try:
                child.wait_for(refusal)
            finally:
                fault.end()
            revive(server)
            child.wait_for_more("tick", "ok", 10)
            child.wait_for_more("submit", "ok", 10)
            report = one.drain_and_check()
            result.acknowledged += report.acknowledged_count
            say(f"{result.case}: {report}")
    finally:
        server.kill()


def _family(pid: int) -> list[int]:
    """The process and its children."""
    found = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=True
    )
    return [pid, *(int(word) for word in found.stdout.split())]
