"""A process that is stopped past its lease and wakes up finds its writes refused (P5, P10)."""

from __future__ import annotations

from pathlib import Path

import pytest

from podium.testing.servers import Postgres
from tests.kill.fleet import fleet

# Many processes boot here: on a busy machine that takes longer than tests usually may.
pytestmark = [pytest.mark.xdist_group("kill-pause"), pytest.mark.timeout(240)]

NO_INTAKE = ("--submitters=0", "--tickers=0")
LEASE_SECONDS = 2.0
SECONDS = 2.5
"""Longer than the lease: when the sleeper wakes up, its successor is still at it."""


def test_a_completion_that_comes_after_a_takeover_is_refused(
    tmp_path: Path, postgres_server: Postgres, postgres_url: str, seed: int
) -> None:
    """Takes a lease's time, because a real process must really sleep through it."""
    options = (*NO_INTAKE, f"--lease={LEASE_SECONDS}")
    with fleet(postgres_url, tmp_path, seed=seed, options=options) as pair:
        sleeper = pair.start_ready("a")
        # Its handler goes on when the lease is lost, as a remote program would.
        sleeper.tell("submit", key="x-0", seconds=SECONDS, is_stubborn=True)
        begun = sleeper.wait_for_event("execute")
        sleeper.pause()

        successor = pair.start_ready("b")
        taken = successor.wait_for_event("execute")
        assert taken.facts["item"] == begun.facts["item"]
        assert taken.facts["epoch"] > begun.facts["epoch"]

        sleeper.go_on()
        late = sleeper.wait_for_event("settle")
        assert late.facts["epoch"] == begun.facts["epoch"]
        assert late.facts["verdict"] == "superseded"
        counted = successor.wait_for_event("settle")
        assert counted.facts["verdict"] == "ok"
        report = pair.drain_and_check()
    assert report.takeover_count == 1
