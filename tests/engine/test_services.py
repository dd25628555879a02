"""Sweeper, janitor and auditor, one round at a time."""

from __future__ import annotations

import pytest

from podium.engine import Auditor, Janitor, Sweeper
from podium.engine.janitor import ROWS_PER_PIECE, Retention
from podium.kernel import idempotency, journal
from podium.kernel.errors import PodiumError
from podium.kernel.store import Store, Tx
from podium.kernel.telemetry import Metrics
from podium.kernel.wake import DueRegistry, Swept
from podium.kernel.work import Done
from podium.testing.desk import Desk, item
from tests.engine.conftest import sample
from tests.worlds import SQLiteWorld

DAY = 86_400.0


@pytest.fixture
def sweeper(world: SQLiteWorld, desk: Desk, metrics: Metrics) -> Sweeper:
    dues = DueRegistry()
    dues.register(desk.sweeper)
    return Sweeper(world.store, dues, metrics)


async def test_the_sweeper_names_the_moment_of_the_next_due_row(
    world: SQLiteWorld, desk: Desk, sweeper: Sweeper
) -> None:
    await desk.enqueue(item("soon", delay_seconds=7), item("later", delay_seconds=90))
    assert await sweeper.tick() == pytest.approx(7)
    await world.advance(7)
    assert await sweeper.tick() == 0.0
    assert await desk.state("soon") == "ready"
    assert await sweeper.tick() == pytest.approx(83)


async def test_the_sweeper_has_nothing_to_wait_for_in_an_empty_house(sweeper: Sweeper) -> None:
    assert await sweeper.tick() is None


async def test_what_a_dead_holder_held_is_claimed_again_after_a_sweep(
    world: SQLiteWorld, desk: Desk, sweeper: Sweeper, metrics: Metrics
) -> None:
    await desk.add("a")
    await desk.run("a", holder="dies")
    await world.advance(61)
    await sweeper.tick()
    await world.advance(5)  # the backoff
    await sweeper.tick()
    [again] = await desk.claim(holder="lives", start=True)
    assert (again.id, again.epoch, again.attempts) == ("a", 2, 2)
    assert sample(metrics, "podium_swept_total", due="work") == 2


async def test_one_due_query_that_fails_is_seen_and_tried_again(
    world: SQLiteWorld, desk: Desk, metrics: Metrics
) -> None:
    class Broken:
        name = "broken"

        async def sweep(self, store: Store, limit: int) -> Swept:
            raise PodiumError("a bug in a domain")

    dues = DueRegistry()
    dues.register(Broken())
    dues.register(desk.sweeper)
    await desk.enqueue(item("a", delay_seconds=1))
    await world.advance(2)
    with pytest.raises(PodiumError):
        await Sweeper(world.store, dues, metrics).tick()
    assert await desk.state("a") == "ready"


def test_a_due_query_cannot_be_registered_twice(desk: Desk) -> None:
    dues = DueRegistry()
    dues.register(desk.sweeper)
    with pytest.raises(ValueError, match="already"):
        dues.register(desk.sweeper)


async def test_the_janitor_forgets_what_is_old_and_keeps_what_is_not(
    world: SQLiteWorld, desk: Desk, metrics: Metrics
) -> None:
    await desk.add("done", "dead")
    await desk.complete(await desk.run("done"))
    await desk.kill("dead")
    await world.store.write(_answer_once, "key")
    janitor = Janitor(world.store, metrics, retention=Retention(journal_seconds=60 * DAY))

    await world.advance(29 * DAY)
    await janitor.tick()
    assert await desk.state("done") == "done"

    await world.advance(2 * DAY)
    await janitor.tick()
    assert await desk.state("done") is None
    assert await desk.state("dead") == "dead"
    assert len(await desk.story("dead")) == 1
    assert sample(metrics, "podium_pruned_total", what="idempotency") == 1

    await world.advance(60 * DAY)
    await janitor.tick()
    assert await desk.state("dead") is None
    assert await desk.story("dead") == []


async def test_the_janitor_takes_a_long_way_in_pieces(
    world: SQLiteWorld, desk: Desk, metrics: Metrics
) -> None:
    for start in range(0, ROWS_PER_PIECE + 500, 500):
        await desk.enqueue(*(item(f"{start + n}") for n in range(500)))
        claimed = await desk.claim(500, start=True)
        await world.store.write(desk.work.complete, [Done(lease) for lease in claimed])
    await world.advance(31 * DAY)
    await Janitor(world.store, metrics).tick()
    assert sample(metrics, "podium_pruned_total", what="work") == ROWS_PER_PIECE + 500


async def test_the_auditor_reads_zero_in_a_healthy_house(
    world: SQLiteWorld, desk: Desk, metrics: Metrics
) -> None:
    await desk.add("a", "b")
    await desk.run("a")
    assert set((await Auditor(world.store, metrics).audit()).values()) == {0}


async def test_the_auditor_sees_a_row_that_nobody_swept(
    world: SQLiteWorld, desk: Desk, metrics: Metrics
) -> None:
    await desk.add("a")
    await desk.run("a")
    await world.advance(60 + 61)
    assert (await Auditor(world.store, metrics).audit())["work_overdue"] == 1
    assert sample(metrics, "podium_audit_violations", check="work_overdue") == 1


async def test_the_auditor_sees_what_is_finished_and_not_finished(
    world: SQLiteWorld, desk: Desk, metrics: Metrics
) -> None:
    await desk.add("a")
    await desk.complete(await desk.run("a"))
    await desk.add("b")
    await world.query("update work set id = 'a'")
    assert (await Auditor(world.store, metrics).audit())["work_finished_twice"] == 1


async def _answer_once(tx: Tx, key: str) -> None:
    async def do() -> int:
        await journal.append(tx, [journal.Event("test", key, "answered")])
        return 1

    await idempotency.once(tx, key=key, body=b"body", do=do)
