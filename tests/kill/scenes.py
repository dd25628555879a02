"""What is done to a fleet: the same in `scripts/test` with few kills and in `scripts/soak` with hundreds."""

from __future__ import annotations

from collections.abc import Callable

from podium.testing.servers import Postgres
from tests.kill.checker import Report
from tests.kill.fleet import Fleet

SLOTS = ("a", "b", "c")
# After a crash PostgreSQL syncs each of its thousand files, one by one, unless it may sync the disk.
SERVER_SETTINGS = {"recovery_init_sync_method": "syncfs"}
# So many at once that some are within their commit whenever the server dies.
MANY_TICKS = ("--tickers=10",)


def kill_one_after_another(fleet: Fleet, kills: int) -> Report:
    """One process at a time, as SQLite allows: killed at a random moment, and started again."""
    for _ in range(kills):
        child = fleet.start_ready("a")
        fleet.work_until_random_moment(child)
        fleet.kill("a")
    fleet.start_ready("a")
    return fleet.drain_and_check()


def kill_among_others(
    fleet: Fleet, server: Postgres, *, kills: int, server_kills: int, pauses: int
) -> Report:
    """Several processes on one PostgreSQL: one is killed, or paused, or the server dies under all."""
    for slot in SLOTS:
        fleet.start(slot)
    for child in fleet.children.values():
        child.wait_for_event("ready")
    acts: list[Callable[[Fleet, Postgres], None]] = [
        *[_kill_one] * kills,
        *[_kill_server] * server_kills,
        *[_pause_one] * pauses,
    ]
    fleet.rng.shuffle(acts)
    for act in acts:
        act(fleet, server)
    return fleet.drain_and_check()


def _kill_one(fleet: Fleet, server: Postgres) -> None:
    slot = fleet.rng.choice(SLOTS)
    child = fleet.children[slot]
    child.wait_for_event("ready")
    fleet.work_until_random_moment(child)
    fleet.kill(slot)
    # Its successor boots while the others work, and the next act begins at once.
    fleet.start(slot)


def _kill_server(fleet: Fleet, server: Postgres) -> None:
    for child in fleet.children.values():
        # Who boots now must find a server: only those who were ready go on by themselves.
        child.wait_for_event("ready")
    fleet.work_until_random_moment(fleet.children[fleet.rng.choice(SLOTS)])
    server.kill()
    server.start()
    fleet.kill_count += 1
    fleet.children[fleet.rng.choice(SLOTS)].wait_for_more("tick", "ok", 5)


def _pause_one(fleet: Fleet, server: Postgres) -> None:
    """SIGSTOP until the others have done a good deal: longer or shorter than a lease."""
    slot = fleet.rng.choice(SLOTS)
    paused = fleet.children[slot]
    paused.wait_for_event("ready")
    other = fleet.children[fleet.rng.choice([other for other in SLOTS if other != slot])]
    other.wait_for_event("ready")
    fleet.work_until_random_moment(paused)
    paused.pause()
    try:
        other.wait_for_more("tick", "ok", fleet.rng.randint(10, 200))
    finally:
        paused.go_on()
