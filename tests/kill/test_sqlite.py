"""kill -9 on the embedded store: nothing acknowledged is lost, nothing is done twice (P1, P2, P14)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kill.fleet import fleet
from tests.kill.program import EXIT_UNAVAILABLE
from tests.kill.scenes import kill_one_after_another

KILLS = 10

# Many processes boot here: on a busy machine that takes longer than tests usually may.
pytestmark = [pytest.mark.xdist_group("kill-sqlite"), pytest.mark.timeout(240)]


def test_a_process_killed_again_and_again_loses_nothing(tmp_path: Path, seed: int) -> None:
    """Takes some seconds: each life must boot and work before it can be killed."""
    with fleet(str(tmp_path / "podium.db"), tmp_path, seed=seed) as killed:
        report = kill_one_after_another(killed, KILLS)
    assert killed.kill_count == KILLS
    assert report.takeover_count, "no lease was ever taken over: the kills came at no bad moment"


def test_a_second_process_is_refused_and_told_who_has_the_file(tmp_path: Path, seed: int) -> None:
    with fleet(str(tmp_path / "podium.db"), tmp_path, seed=seed) as pair:
        first = pair.start_ready("a")
        second = pair.start("b")
        refusal = second.wait_for_event("refused")
        assert second.wait() == EXIT_UNAVAILABLE
        assert refusal.facts["code"] == "SERVICE_UNAVAILABLE"
        assert f"process {first.pid} on " in refusal.facts["message"]
        # The first did not suffer from it, and after its death the file is free at once.
        first.wait_for_more("submit", "ok", 5)
        pair.children.pop("b")
        pair.kill("a")
        pair.start_ready("b")
        pair.drain_and_check()
