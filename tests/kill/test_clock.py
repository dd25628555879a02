"""A wall clock that jumps an hour under one process changes nothing for anybody (P8).

The clock is really another one, for that process alone: libfaketime stands between it and the
system, and reads a file that the test rewrites while the process runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.kill.checker import Execution
from tests.kill.child import Child
from tests.kill.facts import executions_of
from tests.kill.fleet import Fleet, fleet
from tests.kill.workload import Spec

# Many processes boot here: on a busy machine that takes longer than tests usually may.
pytestmark = [pytest.mark.xdist_group("kill-clock"), pytest.mark.timeout(240)]

HOUR_SECONDS = 3_600
LEASE_SECONDS = 5.0
"""So long that on the busiest machine only a wrong clock ends it."""
# Few ticks: each question for the time now reads a file.
OPTIONS = (f"--lease={LEASE_SECONDS}", "--tickers=1")


class WallClock:
    """The wall clock of a process started with `environment`."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.shift(0)

    def shift(self, seconds: int) -> None:
        # Replaced as a whole: a reader must never find half of it.
        new = self._file.with_suffix(".new")
        new.write_text(f"{seconds:+d}\n")
        new.replace(self._file)

    @property
    def environment(self) -> Mapping[str, str]:
        return {
            "LD_PRELOAD": str(_library()),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }


def test_a_jump_under_one_process_takes_no_lease_and_loses_nothing(
    tmp_path: Path, postgres_url: str, seed: int
) -> None:
    """Takes some seconds: two processes boot and then work through three jumps."""
    wall = WallClock(tmp_path / "clock")
    with fleet(postgres_url, tmp_path, seed=seed, options=OPTIONS) as pair:
        jumping = pair.start("a", environment=wall.environment)
        steady = pair.start("b")
        for child in (jumping, steady):
            child.wait_for_event("ready")
        _jump_about(jumping, wall, others=[steady])
        _drain_and_check(pair)


def test_a_jump_under_the_only_process_of_a_file_changes_nothing(tmp_path: Path, seed: int) -> None:
    wall = WallClock(tmp_path / "clock")
    with fleet(str(tmp_path / "podium.db"), tmp_path, seed=seed, options=OPTIONS) as one:
        child = one.start("a", environment=wall.environment)
        child.wait_for_event("ready")
        _jump_about(child, wall, others=[])
        _drain_and_check(one)


def _jump_about(child: Child, wall: WallClock, others: list[Child]) -> None:
    for seconds in (HOUR_SECONDS, -HOUR_SECONDS, 0):
        wall.shift(seconds)
        for worker in (child, *others):
            worker.wait_for_more("submit", "ok", 30)
            worker.wait_for_more("execute", "", 20)
    _assert_only_the_wall_jumps(child, wall)


def _assert_only_the_wall_jumps(child: Child, wall: WallClock) -> None:
    """The process sees another wall clock, and its own clock goes on as before."""
    wall.shift(0)
    before = child.ask("clock")
    wall.shift(HOUR_SECONDS)
    after = child.ask("clock")
    assert after.facts["wall"] - before.facts["wall"] == pytest.approx(HOUR_SECONDS, abs=5)
    assert after.facts["ours"] - before.facts["ours"] == pytest.approx(0, abs=5)
    wall.shift(0)


def _drain_and_check(all_of_them: Fleet) -> None:
    all_of_them.drain_and_check()
    robbed = [e for e in executions_of(all_of_them.effects) if e.epoch > _grants(e)]
    assert not robbed, f"{len(robbed)} leases were taken from a live holder: {robbed[:3]}"


def _grants(execution: Execution) -> int:
    """How often it is granted when nobody is robbed: once, and once more if it fails at first."""
    return 2 if Spec.of(execution.key, LEASE_SECONDS).fails_first else 1


def _library() -> Path:
    spec = find_spec("libfaketime")
    # Not imported: only the library beside it is wanted.
    where = spec.origin if spec else None
    assert where is not None, "libfaketime is not installed: pip install libfaketime"
    return Path(where).parent / "vendor/libfaketime/src/libfaketime.so.1"
