"""SIGTERM: no new claims, what is held is finished or given back, exit 0 in the grace time (P33)."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.kill.child import Child
from tests.kill.facts import rows_of
from tests.kill.fleet import fleet

# Many processes boot here: on a busy machine that takes longer than tests usually may.
pytestmark = [pytest.mark.xdist_group("kill-stop"), pytest.mark.timeout(240)]

IN_FLIGHT_SECONDS = 0.3
"""A claim that was on its way when the signal came may still arrive."""
CLOSE_SECONDS = 3.0
"""What a busy machine may take, beyond the grace, to close the store and end the interpreter."""


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "podium.db")
    return str(request.getfixturevalue("postgres_url"))


def test_a_process_asked_to_stop_finishes_what_it_has_and_takes_no_more(
    tmp_path: Path, address: str, seed: int
) -> None:
    with fleet(address, tmp_path, seed=seed) as one:
        child = one.start_ready("a")
        # One long item, so that there is something to wait for while another could be claimed.
        child.tell("submit", key="x-0", seconds=1.0)
        child.tell("submit", key="x-1", delay_seconds=0.6)
        child.wait_for(lambda history: any(r.key == "x-0" for r in history.all("execute")))
        assert child.terminate() == 0
        stopping = child.history.first("stopping")
        assert stopping is not None
        late = [
            record
            for record in child.history.all("execute")
            if record.at > stopping.at + IN_FLIGHT_SECONDS
        ]
        assert not late, f"{len(late)} items were begun after it was asked to stop"
        assert _held(address) == []
        assert any(r.key == "x-0" for r in child.history.all("settle")), "it was let finish"
        one.children.clear()
        one.start_ready("a")
        one.drain_and_check()


def test_what_cannot_finish_in_the_grace_time_is_given_back(
    tmp_path: Path, address: str, seed: int
) -> None:
    grace_seconds = 0.5
    options = (f"--grace={grace_seconds}", "--submitters=0", "--tickers=0", "--lease=60")
    with fleet(address, tmp_path, seed=seed, options=options) as one:
        child = one.start_ready("a")
        child.tell("submit", key="x-0", seconds=600.0)
        begun = child.wait_for_event("execute")
        assert _seconds_to_stop(child) < grace_seconds + CLOSE_SECONDS
        [(item, state, attempts)] = rows_of(address, "select id, state, attempts from work")
        assert item == begun.facts["item"]
        assert state == "ready", "the next one need not wait for its lease to end"
        assert attempts == 0, "nothing went wrong: it costs no attempt"


def _seconds_to_stop(child: Child) -> float:
    asked = time.monotonic()
    assert child.terminate() == 0
    return time.monotonic() - asked


def _held(address: str) -> list[tuple[str, ...]]:
    question = "select id, state from work where state in ('offered', 'leased', 'running')"
    return rows_of(address, question)
