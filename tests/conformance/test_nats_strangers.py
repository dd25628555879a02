"""Producers and consumers that are not ours, and messages that nobody can read.

They use plain nats-py. Nothing they do is dropped in silence, and nothing is handled twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson
import pytest

from podium.backends.nats import Keeper
from podium.backends.nats.keeper import ADVISED
from podium.engine import BusConsumer
from podium.kernel.bus import Delivery, Message
from podium.kernel.clock import SystemClock
from podium.kernel.errors import Unavailable
from podium.kernel.store import Body, P, R, Tx
from podium.kernel.telemetry import Metrics
from podium.testing.broker_server import Nats, nats
from podium.testing.suites.bus import Post, bodies
from tests.conformance.brokers import Stranger, letters, stranger, until
from tests.worlds import NatsOnSQLite, nats_on_sqlite

ONCE_MORE_SECONDS = 3.0
"""The first delay after a refusal is one second."""


@pytest.fixture(scope="module")
def server() -> Iterator[Nats]:
    with nats() as server:
        yield server


@pytest.fixture
async def world(tmp_path: Path, server: Nats) -> AsyncIterator[NatsOnSQLite]:
    async with nats_on_sqlite(
        tmp_path / "podium.db",
        server,
        duplicate_seconds=0.1,
        ack_wait_seconds=0.3,
        deliver_max=2,
    ) as world:
        await world.broker.generation()
        yield world


@pytest.fixture
def post(world: NatsOnSQLite) -> Post:
    return Post(world)


@pytest.fixture
async def someone(world: NatsOnSQLite) -> AsyncIterator[Stranger]:
    async with stranger(world) as someone:
        yield someone


def keeper(post: Post, world: NatsOnSQLite) -> Keeper:
    return Keeper(post.store, post.bus, world.broker, clock=SystemClock())


# Producers ---------------------------------------------------------------------------------------


async def test_a_stranger_s_message_is_received_like_any_other(
    post: Post, someone: Stranger
) -> None:
    await someone.publish("orders", b'{"n": 1}', Nats_Msg_Id="m", colour="red")
    (got,) = await post.receive("orders")
    assert (got.message_id, got.body, got.properties) == ("m", {"n": 1}, {"colour": "red"})
    assert got.delivery_count == 1
    assert await post.nack(got) == ["ok"]
    (again,) = await post.receive("orders")
    assert (again.message_id, again.body, again.delivery_count) == ("m", {"n": 1}, 2)
    assert await post.ack(again) == ["ok"]
    assert await someone.count() == 0


async def test_messages_without_an_id_are_told_apart_by_their_place(
    post: Post, someone: Stranger
) -> None:
    for _ in range(3):
        await someone.publish("orders", b"7")
    got = await post.receive("orders")
    assert bodies(got) == [7, 7, 7]
    assert len({each.message_id for each in got}) == 3


async def test_a_stranger_s_id_is_known_long_after_the_broker_forgot_it(
    post: Post, someone: Stranger
) -> None:
    await someone.publish("orders", b"1", Nats_Msg_Id="m")
    await post.ack(*await post.receive("orders"))

    async def is_forgotten() -> bool:
        await someone.publish("orders", b"1", Nats_Msg_Id="m")
        return await someone.count() == 1

    await until(is_forgotten)
    assert await post.receive("orders") == []
    assert await someone.count() == 0, "heard, known, and acknowledged"


async def test_a_message_whose_acknowledgement_was_lost_is_not_handled_twice(
    post: Post, someone: Stranger
) -> None:
    await someone.publish("orders", b"1")

    async def receive_and_lose_the_line() -> None:
        async with post.bus.hearing("orders", n=1, wait_seconds=1.0) as heard:
            received.extend(
                await post.store.write(post.bus.receive, "orders", holder="a", heard=heard)
            )
            raise ConnectionError

    received: list[Delivery] = []
    with pytest.raises(ConnectionError):
        await receive_and_lose_the_line()
    async with post.bus.hearing("orders", n=1, wait_seconds=ONCE_MORE_SECONDS) as heard:
        assert len(heard.arrivals) == 1, "the broker tells it again"
        assert not await post.store.write(post.bus.receive, "orders", holder="b", heard=heard)
    assert await post.ack(*received) == ["ok"]


async def test_an_id_that_is_too_long_is_kept_as_its_digest(post: Post, someone: Stranger) -> None:
    await someone.publish("orders", b"1", Nats_Msg_Id="x" * 300)
    (got,) = await post.receive("orders")
    assert got.message_id.startswith("sha256:")


@pytest.mark.parametrize(
    "source",
    ["a b.c*d>e", "Größe 🙂", "-" * 100, "🙂" * 100, "a--b", "a/b", f"{'🙂' * 100}/{'ß' * 100}"],
    ids=lambda source: repr(source[:6]),
)
async def test_any_name_of_ours_can_be_told_and_heard(
    post: Post, someone: Stranger, source: str
) -> None:
    topic, _, subscription = source.partition("/")
    if subscription:
        await post.subscribe(topic, subscription)
        await post.publish(topic, Message("ours", id="o"))
    else:
        await post.send(source, Message("ours", id="o"))
    await someone.publish(source, b'"theirs"', Nats_Msg_Id="t")
    got = await post.receive(source)
    assert sorted(bodies(got)) == ["ours", "theirs"]


# Consumers ---------------------------------------------------------------------------------------


async def test_a_stranger_hears_the_body_and_who_it_is(post: Post, someone: Stranger) -> None:
    properties = {"colour": "red", "n": [1], "größe x": "a b"}
    await post.send("orders", Message({"x": "ü"}, id="m", properties=properties))
    assert await post.receive("others") == []  # the relay came by
    await post.receive("orders", n=1)
    await post.send("orders", Message({"x": "ü"}, id="m2", properties=properties))
    await post.world.relay_once()
    (heard,) = await someone.fetch("orders")
    assert orjson.loads(heard.data) == {"x": "ü"}
    assert heard.headers["Podium-Id"] == "orders//m2"
    assert heard.headers["Podium-Epoch"] == "0"
    assert heard.headers["podium-message-id"] == "m2"
    assert (heard.headers["colour"], heard.headers["n"]) == ("red", "[1]")
    assert heard.headers["gr%C3%B6%C3%9Fe%20x"] == "a%20b"


async def test_a_stranger_who_takes_a_notice_and_claims_nothing_costs_only_time(
    post: Post, someone: Stranger
) -> None:
    await post.receive("orders")
    await post.send("orders", Message("x"))
    await post.world.relay_once()
    (heard,) = await someone.fetch("orders")
    await heard.ack_sync()
    assert await post.receive("orders") == []

    async def told_again() -> list[Delivery]:
        await post.pass_time(31)
        return await post.receive("orders")

    assert bodies(await until(told_again)) == ["x"]


async def test_a_body_that_no_message_can_carry_is_in_its_row(
    post: Post, someone: Stranger
) -> None:
    body = "x" * (1024 * 1024 - 10)
    await post.send("orders", Message(body))
    (got,) = await post.receive("orders")
    assert got.body == body
    await post.nack(got)
    await post.world.relay_once()
    (heard,) = await someone.fetch("orders")
    assert (heard.data, heard.headers["Podium-Body"]) == (b"", "in-the-row")


# Poison ------------------------------------------------------------------------------------------

POISON = {
    "nothing": b"",
    "half": b'{"a": ',
    "bytes": b"\xff\xfe\x00",
    "deep": b"[" * 80 + b"]" * 80,
    "deeper than a stack": b"[" * 100_000,
    "nul": b'"\\u0000"',
    "nan": b"NaN",
    "huge number": b"1" + b"0" * 400,
}


@pytest.mark.parametrize("data", POISON.values(), ids=POISON.keys())
async def test_what_nobody_can_read_is_a_dead_letter_and_its_neighbours_arrive(
    post: Post, someone: Stranger, data: bytes
) -> None:
    await someone.publish("orders", b"1", Nats_Msg_Id="m")
    await someone.publish("orders", data, Nats_Msg_Id="poison")
    await someone.publish("orders", b"2")
    assert bodies(await post.receive("orders")) == [1, 2]
    (letter,) = await letters(post, "orders")
    assert letter.reason == "unreadable_not_retryable"
    assert letter.error
    kept = orjson.loads(letter.payload)
    assert kept["size_bytes"] == len(data)
    assert len(kept["raw"]) <= 10_000
    await until(lambda: _is_empty(someone))


async def _is_empty(someone: Stranger) -> bool:
    return await someone.count() == 0


async def test_a_stranger_cannot_take_a_row_of_another_queue(post: Post, someone: Stranger) -> None:
    await post.send("bills", Message("secret", id="m"))
    await someone.publish("orders", b"1", Podium_Id="bills//m")
    assert await post.receive("orders") == []
    (letter,) = await letters(post, "orders")
    assert letter.error == "it names a row of another queue"
    assert bodies(await post.receive("bills")) == ["secret"]


# Given up by the broker --------------------------------------------------------------------------


async def give_up(someone: Stranger, source: str) -> None:
    """Let it be delivered as often as it may be, to somebody who never answers."""
    for _ in range(2):
        await someone.fetch(source)


async def test_a_message_that_was_given_up_is_buried_by_advisory(
    post: Post, world: NatsOnSQLite, someone: Stranger
) -> None:
    listening = keeper(post, world)
    await post.receive("orders")
    await listening.tick()
    bell = post.store.bell.listen(ADVISED)
    await someone.publish("orders", b'{"n": 1}', Nats_Msg_Id="m")
    await give_up(someone, "orders")
    # An advisory is sent when the next reader asks after the last answer is overdue.
    asking = asyncio.create_task(until(lambda: _heard_nothing(post, bell)))
    await asking
    listening._round_at = float("inf")
    await listening.tick()
    (letter,) = await letters(post, "orders")
    assert (letter.reason, letter.payload) == ("max_deliveries_not_retryable", '{"n":1}')
    assert await someone.count() == 0


async def _heard_nothing(post: Post, bell: object) -> bool:
    async with post.bus.hearing("orders", n=1, wait_seconds=0.1) as heard:
        assert heard.is_silence
    return await bell.wait(0.1)  # type: ignore[attr-defined, no-any-return]


async def test_a_message_that_was_given_up_is_buried_by_the_next_round_if_nobody_was_told(
    post: Post, world: NatsOnSQLite, someone: Stranger
) -> None:
    await post.receive("orders")
    await someone.publish("orders", b'{"n": 1}', Nats_Msg_Id="m")
    await give_up(someone, "orders")

    async def buried() -> bool:
        await post.receive("orders")
        await keeper(post, world).tick()
        return bool(await letters(post, "orders"))

    await until(buried)
    assert await someone.count() == 0
    await keeper(post, world).tick()
    (letter,) = await letters(post, "orders")
    assert await post.store.write(post.bus.replay, [letter.id], actor="me") == [True]
    (got,) = await post.receive("orders")
    assert (got.message_id, got.body) == ("m", {"n": 1})


async def test_a_notice_of_ours_that_was_given_up_leaves_the_stream_and_its_row_comes_back(
    post: Post, world: NatsOnSQLite, someone: Stranger
) -> None:
    await post.receive("orders")
    await post.send("orders", Message("x"))
    await world.relay_once()
    await give_up(someone, "orders")

    async def is_swept() -> bool:
        async with post.bus.hearing("orders", n=1, wait_seconds=0.1) as heard:
            assert heard.is_silence
        await keeper(post, world).tick()
        return await someone.count() == 0

    await until(is_swept)
    assert await letters(post, "orders") == []

    async def told_again() -> list[Delivery]:
        await post.pass_time(31)
        return await post.receive("orders")

    assert bodies(await until(told_again)) == ["x"]


async def test_what_waits_for_its_turn_is_not_taken_for_given_up(
    post: Post, world: NatsOnSQLite, someone: Stranger
) -> None:
    await post.receive("orders")
    for n in range(5):
        await someone.publish("orders", b"%d" % n)
    (held,) = await someone.fetch("orders")
    await keeper(post, world).tick()
    assert await letters(post, "orders") == []
    assert await someone.count() == 5
    await held.nak()


async def test_a_message_that_nobody_came_for_in_two_weeks_is_a_dead_letter(
    post: Post, world: NatsOnSQLite, someone: Stranger
) -> None:
    class Later(SystemClock):
        def now(self) -> datetime:
            return datetime.now(UTC) + timedelta(days=14, minutes=1)

    await someone.publish("orders", b"1")
    await someone.publish("a/b/c", b"2")
    await Keeper(post.store, post.bus, world.broker, clock=Later()).tick()
    (letter,) = await letters(post, "orders")
    assert (letter.reason, letter.payload) == ("expired_not_retryable", "1")
    (stray,) = await letters(post, f"{world.link.settings.prefix}.a.b.c")
    assert stray.payload == "2"
    assert await someone.count() == 0


# The store is away -------------------------------------------------------------------------------


class Away:
    """A store that may be away."""

    def __init__(self, world: NatsOnSQLite) -> None:
        self.queries, self.bell = world.store.queries, world.store.bell
        self._store = world.store
        self.is_away = True
        self.asked_count = 0

    async def write(self, body: Body[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        self.asked_count += 1
        if self.is_away:
            raise Unavailable("the store is away")
        return await self._store.write(body, *args, **kwargs)


async def test_while_the_store_is_away_a_message_is_told_again_later_and_no_other_is_fetched(
    post: Post, world: NatsOnSQLite, someone: Stranger
) -> None:
    await post.receive("orders")
    handled: list[object] = []

    async def handle(tx: Tx, delivery: Delivery) -> None:
        handled.append(delivery.body)

    away = Away(world)
    consumer = BusConsumer(
        away,  # type: ignore[arg-type]
        post.bus,
        source="orders",
        holder="me",
        handle=handle,
        metrics=Metrics(),
        messages_max=1,
    )
    await someone.publish("orders", b"1")
    await someone.publish("orders", b"2")
    for _ in range(5):
        with pytest.raises(Unavailable):
            await consumer.tick()
    info = await someone.js.consumer_info(someone.stream, "orders")
    assert (info.num_ack_pending, info.num_pending) == (1, 1), "only the first was ever fetched"
    async with post.bus.hearing("orders", n=2, wait_seconds=0.0) as heard:
        assert [message.body for message in heard.arrivals] == [2], "the first waits its second"
        await post.store.write(post.bus.receive, "orders", holder="x", n=2, heard=heard)
    away.is_away = False

    async def first_is_handled() -> bool:
        await consumer.tick()
        return handled == [1]

    await until(first_is_handled)


async def test_a_long_transaction_keeps_its_messages(post: Post, someone: Stranger) -> None:
    await someone.publish("orders", b"1")
    async with post.bus.hearing("orders", n=1, wait_seconds=1.0) as heard:
        assert len(heard.arrivals) == 1
        # Three times as long as the broker waits for an answer.
        async with post.bus.hearing("orders", n=1, wait_seconds=0.9) as other:
            assert other.is_silence
        await post.store.write(post.bus.receive, "orders", holder="a", heard=heard)
    assert await someone.count() == 0
