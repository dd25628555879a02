"""kill -9 on PostgreSQL: of one process among three, and of the server under all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from podium.testing.servers import postgres
from tests.kill.fleet import fleet
from tests.kill.scenes import MANY_TICKS, SERVER_SETTINGS, kill_among_others

KILLS = 6
SERVER_KILLS = 4
PAUSES = 1

# Many processes boot here: on a busy machine that takes longer than tests usually may.
pytestmark = [pytest.mark.xdist_group("kill-postgres"), pytest.mark.timeout(240)]


def test_processes_and_server_killed_again_and_again_lose_nothing(
    tmp_path: Path, seed: int
) -> None:
    """Takes some seconds: it kills ten times, and each successor must boot."""
    with (
        # With real syncs a commit takes its time, and the server is often killed within one.
        postgres(fsync=True, settings=SERVER_SETTINGS) as server,
        fleet(server.url, tmp_path, seed=seed, options=MANY_TICKS) as killed,
    ):
        report = kill_among_others(
            killed, server, kills=KILLS, server_kills=SERVER_KILLS, pauses=PAUSES
        )
    assert killed.kill_count == KILLS + SERVER_KILLS
    assert report.takeover_count, "no lease was ever taken over: the kills came at no bad moment"
