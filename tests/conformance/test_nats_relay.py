"""The relay and a broker that dies, forgets, or is not there: it costs time and nothing else."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path

import pytest

from podium.engine import BusConsumer
from podium.engine.loop import Service, keep_ticking
from podium.kernel.bus import Delivery, Message
from podium.kernel.errors import Unavailable
from podium.kernel.outbox import Notice, Outbox
from podium.kernel.store import Tx
from podium.kernel.telemetry import Metrics
from podium.testing.broker_server import Nats, nats
from podium.testing.suites.bus import Post, bodies
from tests.conformance.brokers import DEADLINE_SECONDS, stranger, until
from tests.worlds import NatsWorld, nats_on_postgres, nats_on_sqlite

Q = "orders"


@pytest.fixture(scope="module")
def server() -> Iterator[Nats]:
    with nats() as server:
        yield server


@pytest.fixture
def victim(tmp_path: Path) -> Iterator[Nats]:
    """A server of this test's own, to be killed."""
    with nats(tmp_path / "nats") as server:
        yield server


@pytest.fixture(params=["SQLite", "PostgreSQL"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    if request.param == "SQLite":
        return tmp_path / "podium.db"
    return str(request.getfixturevalue("migrated_url"))


@pytest.fixture
async def world(place: Path | str, server: Nats) -> AsyncIterator[NatsWorld]:
    opened: AbstractAsyncContextManager[NatsWorld] = (
        nats_on_sqlite(place, server, duplicate_seconds=0.1)
        if isinstance(place, Path)
        else nats_on_postgres(place, server, duplicate_seconds=0.1)
    )
    async with opened as world:
        yield world


@pytest.fixture
def post(world: NatsWorld) -> Post:
    return Post(world)


async def states(world: NatsWorld) -> dict[str, int]:
    rows = await world.query("select state, count(*) as count from work group by state")
    return {row.state: row.count for row in rows}


# Telling -----------------------------------------------------------------------------------------


async def test_two_relays_side_by_side_tell_each_message_once(world: NatsWorld, post: Post) -> None:
    await post.send(Q, *(Message(n) for n in range(1_000)))
    relays = [world.relay([Q], notices_max=50) for _ in range(2)]

    async def drain(number: int) -> None:
        while await relays[number].tick() == 0.0:
            pass

    await asyncio.gather(drain(0), drain(1))
    async with stranger(world) as someone:
        assert await someone.published_count() == 1_000
    assert await states(world) == {"offered": 1_000}


async def test_one_attempt_told_twice_is_kept_once_and_the_next_attempt_is_another(
    world: NatsWorld, post: Post
) -> None:
    await world.broker.generation()
    notice = Notice("orders//m", 0, Q, "1", None, 0, 30_000_000)
    later = notice._replace(epoch=1)
    assert await world.broker.publish([notice, notice, later]) == [notice, notice, later]
    async with stranger(world) as someone:
        assert await someone.count() == 2


async def test_what_was_taken_in_the_name_of_another_stream_is_told_at_once(
    world: NatsWorld, post: Post
) -> None:
    await post.send(Q, Message("x"))
    outbox = Outbox(world.work())
    assert len(await post.store.write(outbox.take, Q, holder="relay of old", n=10)) == 1
    await world.relay([Q]).tick()
    assert bodies(await post.receive(Q)) == ["x"]


async def test_a_relay_that_died_between_taking_and_telling_costs_half_a_minute(
    world: NatsWorld, post: Post
) -> None:
    await post.send(Q, Message("x"))
    generation = await world.broker.generation()
    outbox = Outbox(world.work())
    await post.store.write(outbox.take, Q, holder=f"relay {generation}", n=10)
    await post.pass_time(29)
    assert await post.receive(Q) == []
    await post.pass_time(2)
    assert bodies(await post.receive(Q)) == ["x"]


async def test_a_backlog_that_nobody_hears_is_told_less_and_less_often(
    world: NatsWorld, post: Post
) -> None:
    """10,000 messages, four minutes, 26 rounds: told after 0, 30, 60, 120 and 240 seconds."""
    for first in range(0, 10_000, 2_000):
        await post.send(Q, *(Message(n) for n in range(first, first + 2_000)))
    relay = world.relay([Q])
    told = []
    async with stranger(world) as someone:
        for _ in range(26):
            while await relay.tick() == 0.0:
                pass
            told.append(await someone.published_count())
            await world.advance(10)
            while (await post.desk.sweep()).settled:
                pass
    # On PostgreSQL the time that this test itself takes passes too: one time more or less.
    assert 40_000 <= told[-1] <= 60_000


async def test_what_is_told_lives_no_longer_in_the_stream_than_its_row_is_hidden(
    world: NatsWorld, post: Post
) -> None:
    await post.send(Q, Message("x", ttl_seconds=1))
    await world.relay_once()
    async with stranger(world) as someone:
        assert await someone.published_count() == 1

        async def is_gone() -> bool:
            return await someone.count() == 0

        await until(is_gone)


async def test_one_relay_tells_many_queues_in_the_order_of_each(
    world: NatsWorld, post: Post
) -> None:
    for n in range(5):
        await post.send("a", Message(n))
        await post.send("b", Message(-n))
    await world.relay(["a", "b", "empty"], notices_max=2).tick()
    assert await states(world) == {"offered": 4, "ready": 6}
    await world.relay(["a", "b", "empty"]).tick()
    assert bodies(await post.receive("a")) == [0, 1, 2, 3, 4]
    assert bodies(await post.receive("b")) == [0, -1, -2, -3, -4]


# Away --------------------------------------------------------------------------------------------


async def test_while_the_broker_is_away_messages_are_received_from_the_database(
    tmp_path: Path, victim: Nats
) -> None:
    async with nats_on_sqlite(tmp_path / "podium.db", victim) as world:
        post = Post(world)
        relay = world.relay([Q])
        await post.send(Q, Message("told before"))
        await relay.tick()
        victim.kill()
        await until(lambda: _is_away(world))
        await post.send(Q, Message("sent meanwhile"))
        await relay.tick()
        assert await states(world) == {"offered": 1, "ready": 1}, "it takes nothing"
        assert bodies(await post.receive(Q)) == ["sent meanwhile"]
        await world.advance(6)
        await relay.tick()
        assert bodies(await post.receive(Q)) == ["told before"], "recalled, long before its time"


async def _is_away(world: NatsWorld) -> bool:
    return await world.broker.generation() is None


async def test_what_the_broker_did_not_take_is_given_back_at_once(
    tmp_path: Path, victim: Nats
) -> None:
    async with nats_on_sqlite(tmp_path / "podium.db", victim) as world:
        post = Post(world)
        relay = world.relay([Q])
        await relay.tick()
        await post.send(Q, Message("x"))
        generation = await world.broker.generation()
        victim.kill()
        # It still believes that the broker is there.
        taken = await post.store.write(Outbox(world.work()).take, Q, holder="relay x", n=1)
        with pytest.raises(Exception, match="the broker took 0 of 1"):
            await relay._publish(taken, "relay x")
        assert generation is not None
        assert await states(world) == {"ready": 1}


async def test_a_stream_that_somebody_deleted_is_made_again_and_told_everything(
    world: NatsWorld, post: Post
) -> None:
    await post.send(Q, *(Message(n) for n in range(50)))
    await post.ack(*await post.receive(Q, n=20))
    async with stranger(world) as someone:
        await someone.js.delete_stream(someone.stream)
    await post.send(Q, Message(50))

    async def rest() -> list[Delivery]:
        with suppress(Unavailable):
            await world.relay([Q]).tick()
        with suppress(Unavailable):
            return await post.receive(Q, n=100)
        return []

    assert sorted(bodies(await until(rest))) == list(range(20, 51))


# Everything at once ------------------------------------------------------------------------------


@asynccontextmanager
async def running(world: NatsWorld, *services: Service) -> AsyncIterator[None]:
    stop, metrics, rng = asyncio.Event(), Metrics(), random.Random(3)
    tasks = [
        asyncio.create_task(
            keep_ticking(each, bell=world.store.bell, stop=stop, rng=rng, metrics=metrics)
        )
        for each in services
    ]
    try:
        yield
    finally:
        stop.set()
        async with asyncio.timeout(DEADLINE_SECONDS):
            await asyncio.gather(*tasks)


class Desk:
    """Consumers that write down what they handled; the table refuses the same message twice."""

    def __init__(self, world: NatsWorld) -> None:
        self.world = world
        self.note = world.know("insert into seen (id) values (:id)")
        self.seen = world.know("select count(*) as count from seen")

    async def handle(self, tx: Tx, delivery: Delivery) -> None:
        await tx.rows(self.note, id=delivery.message_id)

    def consumer(self, number: int) -> BusConsumer:
        return BusConsumer(
            self.world.store,
            self.world.bus(),
            source=Q,
            holder=f"consumer-{number}",
            handle=self.handle,
            metrics=Metrics(),
            messages_max=20,
        )

    async def count(self) -> int:
        rows = await self.world.query("select count(*) as count from seen")
        return int(rows[0].count)


async def run_through(world: NatsWorld, victim: Nats, *, rounds: int, wipe: bool) -> None:
    await world.script("create table seen (id text primary key)")
    post, desk = Post(world), Desk(world)
    services: list[Service] = [
        world.relay([Q], notices_max=25),
        *(desk.consumer(n) for n in range(2)),
    ]
    sent = 0
    async with running(world, *services):
        for _ in range(rounds):
            await post.send(Q, *(Message(n) for n in range(150)))
            sent += 150
            half = sent - 75
            await until(lambda half=half: _at_least(desk, half))  # type: ignore[misc]
            victim.kill()
            if wipe:
                victim.wipe()
            await post.send(Q, *(Message(n) for n in range(50)))
            sent += 50
            victim.start()
        await until(lambda: _at_least(desk, sent))
    assert await desk.count() == sent
    rows = await world.query(
        "select state, attempts, count(*) as count from work_finished group by 1, 2"
    )
    assert {(row.state, row.attempts): row.count for row in rows} == {("done", 1): sent}
    assert await states(world) == {}


async def _at_least(desk: Desk, count: int) -> bool:
    return await desk.count() >= count


async def test_wiping_the_broker_s_store_under_load_costs_only_time(
    tmp_path: Path, victim: Nats
) -> None:
    """P35: what is unfinished is told again, and nothing is handled twice."""
    async with nats_on_sqlite(tmp_path / "podium.db", victim, ack_wait_seconds=1.0) as world:
        await run_through(world, victim, rounds=4, wipe=True)


async def test_killing_the_broker_under_load_costs_only_time(
    migrated_url: str, victim: Nats
) -> None:
    async with nats_on_postgres(migrated_url, victim, ack_wait_seconds=1.0) as world:
        await run_through(world, victim, rounds=4, wipe=False)


async def test_a_thousand_messages_pass_through_relay_broker_and_consumers(
    world: NatsWorld,
) -> None:
    await world.script("create table seen (id text primary key)")
    post, desk = Post(world), Desk(world)
    services: list[Service] = [
        world.relay([Q]),
        world.relay([Q]),
        *(desk.consumer(n) for n in range(3)),
    ]
    async with running(world, *services):
        for first in range(0, 1_000, 100):
            await post.send(Q, *(Message(n) for n in range(first, first + 100)))
        await until(lambda: _at_least(desk, 1_000))
    async with stranger(world) as someone:
        assert await someone.published_count() == 1_000
        assert await someone.count() == 0
