"""What any bus must promise: design section 3.6, the same on SQL and on a broker.

Lock one minute with renewal, ten deliveries, two weeks to live, dead letters with a reason that can
be listed and replayed, delayed delivery, properties for routing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from podium.kernel.bus import Delivery, Message
from podium.kernel.errors import Invalid
from podium.kernel.store import Tx
from podium.kernel.work import Verdict
from podium.testing.desk import Desk
from podium.testing.worlds import World

OK = Verdict.OK


class Post:
    """A bus and its sweeper, each call in a transaction of its own."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.store = world.store
        work = world.work()
        self.bus = world.bus(work)
        self.desk = Desk(world.store, work)

    async def send(self, queue: str, *messages: Message) -> list[str]:
        return await self.store.write(self.bus.send, queue, messages)

    async def publish(self, topic: str, *messages: Message) -> list[str]:
        return await self.store.write(self.bus.publish, topic, messages)

    async def subscribe(self, topic: str, name: str, only: dict[str, Any] | None = None) -> None:
        await self.store.write(self.bus.subscribe, topic, name, only=only)

    async def receive(self, source: str, n: int = 10, holder: str = "one") -> list[Delivery]:
        """As a consumer does it: listen, and then receive in one transaction."""
        await self.world.relay_once()
        async with self.bus.hearing(source, n=n, wait_seconds=self.world.hear_seconds) as heard:
            return await self.store.write(self.bus.receive, source, holder=holder, n=n, heard=heard)

    async def ack(self, *deliveries: Delivery) -> list[Verdict]:
        return await self.store.write(self.bus.ack, deliveries)

    async def nack(self, *deliveries: Delivery, delay_seconds: float | None = 0) -> list[Verdict]:
        return await self.store.write(
            self.bus.nack, deliveries, error="not now", delay_seconds=delay_seconds
        )

    async def renew(self, *deliveries: Delivery) -> list[Verdict]:
        return await self.store.write(self.bus.renew, deliveries)

    async def pass_time(self, seconds: float) -> None:
        """Move the clock, and let the sweeper come by."""
        await self.world.advance(seconds)
        await self.desk.sweep()


def bodies(deliveries: Sequence[Delivery]) -> list[Any]:
    return [delivery.body for delivery in deliveries]


class BusSuite:
    @pytest.fixture
    def post(self, world: World) -> Post:
        return Post(world)

    async def test_a_message_is_received_as_it_was_sent(self, post: Post) -> None:
        body, properties = {"x": ["ü", None, 1.5]}, {"kind": "a", "n": 1}
        (id,) = await post.send("orders", Message(body, properties=properties))
        (got,) = await post.receive("orders")
        assert (got.source, got.message_id, got.body) == ("orders", id, body)
        assert (got.properties, got.delivery_count) == (properties, 1)

    async def test_messages_come_in_the_order_they_were_sent(self, post: Post) -> None:
        await post.send("orders", *(Message(n) for n in range(5)))
        await post.pass_time(1)
        await post.send("orders", Message(5))
        assert bodies(await post.receive("orders")) == [0, 1, 2, 3, 4, 5]

    async def test_a_message_has_one_receiver_at_a_time(self, post: Post) -> None:
        await post.send("orders", Message("x"))
        first, second = await asyncio.gather(
            post.receive("orders", holder="one"), post.receive("orders", holder="two")
        )
        assert len(first) + len(second) == 1

    async def test_an_acknowledged_message_never_comes_back(self, post: Post) -> None:
        await post.send("orders", Message("x"))
        (got,) = await post.receive("orders")
        assert await post.ack(got) == [OK]
        await post.pass_time(30 * 86_400)
        assert await post.receive("orders") == []
        assert await post.ack(got) == [Verdict.DONE]

    async def test_a_message_id_is_known_for_ever(self, post: Post) -> None:
        """P3: what the sender repeats is not delivered again, before or after it was handled."""
        await post.send("orders", Message(1, id="m"))
        assert await post.send("orders", Message(2, id="m")) == ["m"]
        deliveries = await post.receive("orders")
        assert bodies(deliveries) == [1]
        await post.ack(*deliveries)
        await post.send("orders", Message(3, id="m"))
        assert await post.receive("orders") == []

    async def test_one_id_on_two_queues_is_two_messages(self, post: Post) -> None:
        await post.send("orders", Message(1, id="m"))
        await post.send("bills", Message(2, id="m"))
        assert bodies(await post.receive("orders")) == [1]
        assert bodies(await post.receive("bills")) == [2]

    async def test_a_message_is_sent_only_if_its_transaction_commits(self, post: Post) -> None:
        """P15: the message row is the outbox."""

        async def send_and_fail(tx: Tx) -> None:
            await post.bus.send(tx, "orders", [Message("never")])
            raise RuntimeError

        with pytest.raises(RuntimeError):
            await post.store.write(send_and_fail)
        assert await post.receive("orders") == []

    async def test_what_a_handler_records_commits_with_its_acknowledgement(
        self, post: Post
    ) -> None:
        await post.send("orders", Message("x"))
        (got,) = await post.receive("orders")

        async def handle_and_fail(tx: Tx) -> None:
            await post.bus.send(tx, "bills", [Message("bill")])
            assert await post.bus.ack(tx, [got]) == [OK]
            raise RuntimeError

        with pytest.raises(RuntimeError):
            await post.store.write(handle_and_fail)
        assert await post.receive("bills") == []
        assert await post.ack(got) == [OK], "it is still ours"

    # Locks -----------------------------------------------------------------------------------

    async def test_a_lock_lasts_a_minute_and_then_the_message_comes_again(self, post: Post) -> None:
        await post.send("orders", Message("x"))
        (first,) = await post.receive("orders")
        await post.pass_time(59)
        assert await post.receive("orders", holder="two") == []
        await post.pass_time(2)
        await post.pass_time(300)  # the backoff after a silent receiver
        (second,) = await post.receive("orders", holder="two")
        assert second.delivery_count == 2
        assert await post.ack(first) == [Verdict.SUPERSEDED]
        assert await post.ack(second) == [OK]

    async def test_a_lock_can_be_renewed(self, post: Post) -> None:
        await post.send("orders", Message("x"))
        (got,) = await post.receive("orders")
        for _ in range(10):
            await post.pass_time(50)
            assert await post.renew(got) == [OK]
        assert await post.ack(got) == [OK]

    async def test_a_message_given_back_comes_again_when_told(self, post: Post) -> None:
        await post.send("orders", Message("x"))
        (got,) = await post.receive("orders")
        assert await post.nack(got, delay_seconds=30) == [OK]
        await post.pass_time(29)
        assert await post.receive("orders") == []
        await post.pass_time(2)
        assert [d.delivery_count for d in await post.receive("orders")] == [2]

    # Dead letters ----------------------------------------------------------------------------

    async def test_a_message_is_delivered_ten_times_and_then_buried(self, post: Post) -> None:
        await post.send("orders", Message("x", id="m"))
        for count in range(1, 11):
            (got,) = await post.receive("orders")
            assert got.delivery_count == count
            await post.nack(got)
        assert await post.receive("orders") == []
        (letter,) = await post.store.read(post.bus.dead_letters, "orders")
        assert (letter.reason, letter.error) == ("delivery_failed_attempts_exhausted", "not now")

    async def test_ten_silent_receivers_bury_a_message_too(self, post: Post) -> None:
        await post.send("orders", Message("x"))
        for _ in range(10):
            assert len(await post.receive("orders")) == 1
            await post.pass_time(61)
            await post.pass_time(301)
        (letter,) = await post.store.read(post.bus.dead_letters, "orders")
        assert letter.reason == "lease_expired_attempts_exhausted"

    async def test_a_message_lives_two_weeks(self, post: Post) -> None:
        await post.send("orders", Message("x"))
        await post.send("orders", Message("short", ttl_seconds=60))
        await post.pass_time(61)
        (letter,) = await post.store.read(post.bus.dead_letters, "orders")
        assert (letter.reason, letter.payload) == ("expired", '"short"')
        await post.pass_time(14 * 86_400 - 120)
        assert await post.desk.store.read(post.desk.work.depth, queue="orders") == 1
        await post.pass_time(120)
        assert await post.receive("orders") == []
        assert len(await post.store.read(post.bus.dead_letters, "orders")) == 2

    async def test_a_message_can_be_refused_for_good(self, post: Post) -> None:
        await post.send("orders", Message("x"))
        (got,) = await post.receive("orders")
        assert await post.store.write(post.bus.dead_letter, [got], reason="nonsense") == [OK]
        (letter,) = await post.store.read(post.bus.dead_letters, "orders")
        assert (letter.reason, letter.error) == ("refused_not_retryable", "nonsense")

    async def test_a_dead_letter_can_be_replayed(self, post: Post) -> None:
        await post.send("orders", Message({"n": 1}, id="m", properties={"k": 1}))
        (got,) = await post.receive("orders")
        await post.store.write(post.bus.dead_letter, [got], reason="nonsense")
        (letter,) = await post.store.read(post.bus.dead_letters, "orders")
        assert await post.store.write(post.bus.replay, [letter.id], actor="me") == [True]
        (again,) = await post.receive("orders")
        assert (again.message_id, again.body, again.properties) == ("m", {"n": 1}, {"k": 1})
        assert again.delivery_count == 1

    # Delay -----------------------------------------------------------------------------------

    async def test_a_message_can_be_put_off(self, post: Post) -> None:
        await post.send("orders", Message("later", delay_seconds=60), Message("now"))
        assert bodies(await post.receive("orders")) == ["now"]
        await post.pass_time(61)
        assert bodies(await post.receive("orders")) == ["later"]

    # Topics ----------------------------------------------------------------------------------

    async def test_every_subscription_gets_its_own_copy(self, post: Post) -> None:
        await post.subscribe("events", "audit")
        await post.subscribe("events", "mail")
        (id,) = await post.publish("events", Message("x"))
        (first,), (second,) = await post.receive("events/audit"), await post.receive("events/mail")
        assert first.message_id == second.message_id == id
        assert await post.ack(first) == [OK]
        assert await post.nack(second) == [OK]
        assert await post.receive("events/audit") == []
        assert bodies(await post.receive("events/mail")) == ["x"]

    async def test_a_subscription_gets_what_its_filter_wants(self, post: Post) -> None:
        await post.subscribe("events", "red", only={"colour": "red"})
        await post.subscribe("events", "big", only={"colour": "red", "size": 10})
        await post.subscribe("events", "all")
        await post.publish(
            "events",
            Message(1, properties={"colour": "red", "size": 10}),
            Message(2, properties={"colour": "red"}),
            Message(3, properties={"colour": "blue", "size": 10}),
            Message(4),
        )
        assert bodies(await post.receive("events/red")) == [1, 2]
        assert bodies(await post.receive("events/big")) == [1]
        assert bodies(await post.receive("events/all")) == [1, 2, 3, 4]

    async def test_a_subscription_hears_from_when_it_was_made_until_it_is_ended(
        self, post: Post
    ) -> None:
        await post.publish("events", Message("before"))
        await post.subscribe("events", "s")
        await post.publish("events", Message("during"))
        assert await post.store.write(post.bus.unsubscribe, "events", "s")
        assert not await post.store.write(post.bus.unsubscribe, "events", "s")
        await post.publish("events", Message("after"))
        assert bodies(await post.receive("events/s")) == ["during"]

    async def test_subscribing_again_changes_the_filter(self, post: Post) -> None:
        await post.subscribe("events", "s", only={"k": 1})
        await post.subscribe("events", "s", only={"k": 2})
        await post.publish(
            "events", Message(1, properties={"k": 1}), Message(2, properties={"k": 2})
        )
        assert bodies(await post.receive("events/s")) == [2]

    async def test_a_repeated_publication_is_one_message(self, post: Post) -> None:
        await post.subscribe("events", "s")
        await post.publish("events", Message(1, id="m"))
        await post.publish("events", Message(1, id="m"))
        assert bodies(await post.receive("events/s")) == [1]

    async def test_a_topic_without_subscriptions_keeps_nothing(self, post: Post) -> None:
        assert len(await post.publish("events", Message(1))) == 1
        assert await post.receive("events") == []

    # Bad input -------------------------------------------------------------------------------

    @pytest.mark.parametrize("body", ["\0", float("nan"), {"x": b"bytes"}], ids=repr)
    async def test_a_body_that_is_not_json_is_refused(self, post: Post, body: Any) -> None:
        with pytest.raises(Invalid):
            await post.send("orders", Message("good"), Message(body))
        assert await post.receive("orders") == []

    @pytest.mark.parametrize("name", ["", "a\0", "x" * 256], ids=lambda v: repr(v)[:8])
    async def test_a_bad_name_is_refused(self, post: Post, name: str) -> None:
        with pytest.raises(Invalid):
            await post.send(name, Message(1))
        with pytest.raises(Invalid):
            await post.subscribe(name, "s")
        with pytest.raises(Invalid):
            await post.subscribe("t", name)
