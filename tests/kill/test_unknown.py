"""A commit whose answer was lost with the server: it happened, and whoever asked is told so, once.

Such a commit is rare by chance, so it is made on purpose: PostgreSQL is told to wait for a replica
that does not exist. Commits then reach the disk and are not answered, until the server is killed.
"""

from __future__ import annotations

import time
from pathlib import Path

import psycopg
import pytest

from podium.testing.servers import Postgres, postgres
from tests.kill.child import DEADLINE_SECONDS
from tests.kill.facts import facts_of
from tests.kill.fleet import fleet
from tests.kill.history import History, Outcome

# Many processes boot here: on a busy machine that takes longer than tests usually may.
pytestmark = [pytest.mark.xdist_group("kill-unknown"), pytest.mark.timeout(240)]

WAITING = """
    select count(*) from pg_stat_activity where wait_event = 'SyncRep' and query like '%commit%'
"""
COMMITS = 5


def test_a_commit_that_was_never_answered_counts_once(tmp_path: Path, seed: int) -> None:
    with postgres() as server, fleet(server.url, tmp_path, seed=seed) as one:
        child = one.start_ready("a")
        child.wait_for_more("tick", "ok", 10)
        _hold_back_answers(server)
        server.kill()
        asked = _unanswered_ticks(child.history)
        assert asked, "no tick was within its commit"

        server.settings["synchronous_standby_names"] = ""
        server.start()
        child.wait_for(lambda history: not asked & _unanswered_ticks(history))
        one.drain_and_check()
        answered = {
            operation.key
            for operation in child.history.operations()
            if operation.what == "tick" and operation.outcome is Outcome.OK
        }
        assert asked <= answered, "it did happen: nobody may be told otherwise"
        assert all(facts_of(server.url).ticks[key] == 1 for key in asked)


def _hold_back_answers(server: Postgres) -> None:
    """Returns when commits are on the disk and unanswered."""
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("alter system set synchronous_standby_names = 'nobody'")
        connection.execute("select pg_reload_conf()")
        deadline = time.monotonic() + DEADLINE_SECONDS
        waiting = 0
        while waiting < COMMITS:
            assert time.monotonic() < deadline, f"only {waiting} commits wait for their answer"
            [waiting] = connection.execute(WAITING).fetchone() or [0]


def _unanswered_ticks(history: History) -> set[str]:
    return {
        operation.key
        for operation in history.operations()
        if operation.what == "tick" and operation.ended_at is None
    }
