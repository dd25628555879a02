"""What was broken once, on purpose or by mistake, on both stores."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from podium.kernel import journal
from podium.kernel.bus import Message
from podium.kernel.errors import Invalid, SchemaMismatch, StoreError, Unavailable
from podium.kernel.ownership import Owned, OwnedTable, Ownership
from podium.kernel.store import Tx
from podium.kernel.work import Done, Lease, NewItem, Verdict
from podium.testing.desk import Desk, item
from podium.testing.worlds import World
from tests.worlds import postgres_world, sqlite_world

DEADLINE_SECONDS = 10.0


@pytest.fixture(params=["sqlite", "postgres"])
async def world(
    request: pytest.FixtureRequest, tmp_path: Path, postgres_url: str
) -> AsyncIterator[World]:
    made = (
        sqlite_world(tmp_path / "podium.db")
        if request.param == "sqlite"
        else postgres_world(postgres_url)
    )
    async with made as world:
        yield world


@pytest.fixture
def desk(world: World) -> Desk:
    return world.desk()


def stop_iteration(tx: Tx) -> Any:
    raise StopIteration


async def cancelled(tx: Tx) -> None:
    raise asyncio.CancelledError


async def generator_exit(tx: Tx) -> None:
    raise GeneratorExit


async def rings_nothing(tx: Tx) -> None:
    tx.ring(None)  # type: ignore[arg-type]


async def rings_a_surrogate(tx: Tx) -> None:
    tx.ring("a\ud800")


@pytest.mark.parametrize(
    "body", [stop_iteration, cancelled, generator_exit, rings_nothing, rings_a_surrogate]
)
async def test_no_body_jams_the_store(world: World, desk: Desk, body: Callable[[Tx], Any]) -> None:
    async with asyncio.timeout(DEADLINE_SECONDS):
        with pytest.raises((RuntimeError, Invalid, asyncio.CancelledError, GeneratorExit)):
            await asyncio.ensure_future(world.store.write(body))
        await desk.add("a")
        assert await desk.state("a") == "ready"


@pytest.mark.parametrize(
    "lease", [(uuid.uuid4(), 1), ("a", "1"), ("a", True), ("a", float("nan")), (5, 1), ("a", 2**31)]
)
async def test_what_is_no_lease_is_refused(desk: Desk, lease: tuple[Any, Any]) -> None:
    await desk.add("a")
    await desk.run("a")
    for call in (desk.complete, desk.renew, desk.start, desk.release, desk.fail):
        with pytest.raises(Invalid, match="lease"):
            await call(Lease(*lease))
    assert await desk.state("a") == "running"


async def test_a_lease_of_nothing_is_unknown(desk: Desk) -> None:
    assert await desk.complete(Lease("nothing", 1)) == [Verdict.UNKNOWN]
    assert await desk.cancel("nothing") == [Verdict.UNKNOWN]
    with pytest.raises(Invalid):
        await desk.cancel(uuid.uuid4())  # type: ignore[arg-type]


async def test_a_queue_and_a_topic_never_share_a_message_id(world: World) -> None:
    bus = world.bus()
    await world.store.write(bus.subscribe, "a", "b")
    await world.store.write(bus.send, "a", [Message(1, id="b/c")])
    await world.store.write(bus.publish, "a", [Message(2, id="c")])
    [plain] = await world.store.write(bus.receive, "a", holder="me")
    [topical] = await world.store.write(bus.receive, "a/b", holder="me")
    assert (plain.body, topical.body) == (1, 2)
    for refused in ("a/b", "a" * 101, ""):
        with pytest.raises(Invalid):
            await world.store.write(bus.send, refused, [Message(1)])


@pytest.mark.parametrize(
    "terms",
    [
        {"priority": True},
        {"priority": 1.5},
        {"attempts_max": "3"},
        {"attempts_max": 10**5000},
        {"retry": {}},
        {"queue": []},
        {"queue": 5},
        {"properties": [1]},
        {"delay_seconds": "soon"},
        {"delay_seconds": True},
        {"ttl_seconds": float("nan")},
        {"lease_seconds": 1e308},
        {"id": ""},
        {"payload": Owned("a", 1).__class__},
    ],
    ids=lambda terms: next(iter(terms)),
)
async def test_bad_terms_are_refused_by_name_and_spoil_nothing(
    desk: Desk, terms: dict[str, Any]
) -> None:
    with pytest.raises(Invalid) as refused:
        await desk.enqueue(item("good"), NewItem(**{"queue": "q", **terms}))
    assert refused.value.details["field"] in (*terms, "item")
    await desk.enqueue(NewItem("q", id="honest", priority=1, attempts_max=3))
    assert (await desk.state("honest"), await desk.state("good")) == ("ready", None)


@pytest.mark.parametrize("wake_seconds", [float("nan"), float("inf"), None, -1, 1e308])
async def test_a_run_is_not_lost_by_a_release_without_a_time(
    world: World, wake_seconds: Any
) -> None:
    await world.script(
        "create table runs (id text primary key, owner text, epoch int not null default 0,"
        " heartbeat_at {time}, wake_at {time})"
    )
    ownership = Ownership(world.store.queries, OwnedTable("runs"))
    await world.query("insert into runs (id, wake_at) values ('a', podium_now())")
    [mine] = await world.store.write(ownership.take, owner="me", n=1)
    with pytest.raises(Invalid):
        await world.store.write(ownership.release, [(mine, wake_seconds)], owner="me")
    assert await world.store.write(ownership.gate, [mine], owner="me") == {"a"}


@pytest.mark.parametrize("n", [0, -1])
async def test_a_follower_reads_at_least_a_line_at_a_time(world: World, n: int) -> None:
    with pytest.raises(Invalid):
        await anext(journal.follow(world.store, n=n))


async def test_a_body_cannot_write_in_another_transaction(world: World, desk: Desk) -> None:
    async def nested(tx: Tx) -> None:
        await desk.add("inner")

    async with asyncio.timeout(DEADLINE_SECONDS):
        with pytest.raises(RuntimeError, match="only tx"):
            await world.store.write(nested)
    assert await desk.state("inner") is None


async def test_a_transaction_that_is_over_writes_nothing(world: World, desk: Desk) -> None:
    kept: list[Tx] = []

    async def keep(tx: Tx) -> None:
        kept.append(tx)

    await world.store.write(keep)
    with pytest.raises(RuntimeError, match="over"):
        await desk.work.enqueue(kept[0], [item("late")])
    assert await desk.state("late") is None


async def test_a_body_that_swallows_a_refusal_is_not_committed(world: World, desk: Desk) -> None:
    nowhere = world.know("select 1 from no_such_table")

    async def swallow(tx: Tx) -> None:
        await desk.work.enqueue(tx, [item("half")])
        try:
            await tx.rows(nowhere)
        except (SchemaMismatch, StoreError):
            return

    with pytest.raises(SchemaMismatch, match="podium migrate"):
        await world.store.write(swallow)
    assert await desk.state("half") is None


async def test_a_closed_store_says_so_at_once_and_opens_again(world: World, desk: Desk) -> None:
    await desk.add("a")
    async with asyncio.timeout(DEADLINE_SECONDS):
        await asyncio.gather(world.store.close(), world.store.close())
        for call in (desk.add("b"), desk.state("a")):
            with pytest.raises(Unavailable, match="not open"):
                await call
        await world.store.open()
    await desk.complete(await desk.run("a"))
    assert await world.store.write(desk.work.complete, [Done(Lease("a", 1))]) == [Verdict.DONE]
