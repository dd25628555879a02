"""The bus: queues, and topics with subscriptions. What is *told* goes through here.

On SQL a message is a work item on the queue of that name, or on `topic/subscription` for each
subscription that wants it: locked for a minute, delivered at most ten times, kept for two weeks,
a dead letter with a reason after that. So the message commits or vanishes with the transaction
that sends it, and acknowledging it commits with what its handler recorded:

    async def handle(tx, delivery):
        await record(tx, delivery.body)
        await bus.ack(tx, [delivery])

A handler records and acknowledges; it never waits. A message id is known as long as finished work
is kept (30 days): sent again it is not delivered again.

A broker changes none of this. It is a doorbell that carries the body (see `outbox`): a message is
still a row, and what is heard from the broker is claimed by its id. Nobody talks to a broker inside
a transaction, so receiving has an outside and an inside, the same on every bus:

    async with bus.hearing(source, n=50, wait_seconds=1.0) as heard:
        deliveries = await store.write(bus.receive, source, holder=me, n=50, heard=heard)

The promises are in `podium.testing.suites.bus`; every bus keeps them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from podium.kernel import payload
from podium.kernel.clock import EPOCH
from podium.kernel.errors import Invalid
from podium.kernel.ids import Ulids
from podium.kernel.store import Tx
from podium.kernel.work import Claimed, DeadLetter, Done, Failure, Lease, NewItem, Verdict, Work
from podium.kernel.work.decide import name

LOCK_SECONDS = 60.0
DELIVERIES_MAX = 10
TTL_SECONDS = 14 * 86_400.0
NAME_CHARACTERS_MAX = 100
"""So that topic, subscription and message id fit into one id together."""


@dataclass(frozen=True, slots=True)
class Message:
    body: Any
    id: str | None = None
    """Deterministic where the sender may repeat itself; a new one otherwise."""
    properties: dict[str, Any] | None = None
    delay_seconds: float = 0.0
    ttl_seconds: float = TTL_SECONDS


class Delivery(NamedTuple):
    """One delivery of one message, under a lock that ends by itself."""

    id: str
    epoch: int
    source: str
    message_id: str
    body: Any
    properties: dict[str, Any]
    delivery_count: int

    @property
    def lease(self) -> Lease:
        return Lease(self.id, self.epoch)


class Refusal(NamedTuple):
    """What came from outside and cannot be taken, kept as a dead letter."""

    message_id: str
    body: Any
    reason: str
    error: str


@dataclass(frozen=True, slots=True)
class Heard:
    """What a broker told, to be made good in one transaction."""

    known: Sequence[str] = ()
    """Rows of ours, by id."""
    arrivals: Sequence[Message] = ()
    """Messages of somebody who has no row here: they get one. Each has an id."""
    refused: Sequence[Refusal] = ()
    look: bool = False
    """Look into the database as well: nobody tells, or somebody may have been missed."""

    @property
    def is_silence(self) -> bool:
        return not (self.known or self.arrivals or self.refused or self.look)


LOOK = Heard(look=True)


class Bus(Protocol):
    async def subscribe(
        self, tx: Tx, topic: str, subscription: str, *, only: dict[str, Any] | None = None
    ) -> None: ...

    async def unsubscribe(self, tx: Tx, topic: str, subscription: str) -> bool: ...

    async def send(self, tx: Tx, queue: str, messages: Sequence[Message]) -> list[str]: ...

    async def publish(self, tx: Tx, topic: str, messages: Sequence[Message]) -> list[str]: ...

    def hearing(
        self, source: str, *, n: int, wait_seconds: float
    ) -> AbstractAsyncContextManager[Heard]:
        """Listen, outside any transaction, for up to `wait_seconds` if there is nothing yet.

        What was heard is settled with whoever told it when the block ends well; when the block
        raises it comes again after a while.
        """

    async def receive(
        self, tx: Tx, source: str, *, holder: str, n: int = 1, heard: Heard = LOOK
    ) -> list[Delivery]: ...

    async def renew(self, tx: Tx, deliveries: Sequence[Delivery]) -> list[Verdict]: ...

    async def ack(self, tx: Tx, deliveries: Sequence[Delivery]) -> list[Verdict]: ...

    async def nack(
        self,
        tx: Tx,
        deliveries: Sequence[Delivery],
        *,
        error: str,
        delay_seconds: float | None = None,
    ) -> list[Verdict]: ...

    async def dead_letter(
        self, tx: Tx, deliveries: Sequence[Delivery], *, reason: str
    ) -> list[Verdict]: ...

    async def dead_letters(
        self, tx: Tx, source: str, *, n: int = 100, after: tuple[datetime, str] = (EPOCH, "")
    ) -> list[DeadLetter]: ...

    async def replay(self, tx: Tx, ids: Sequence[str], *, actor: str) -> list[bool]: ...


class SqlBus:
    """The bus without a broker; with one, all but `hearing` stays as it is."""

    def __init__(
        self,
        work: Work,
        ids: Ulids,
        *,
        lock_seconds: float = LOCK_SECONDS,
        deliveries_max: int = DELIVERIES_MAX,
    ) -> None:
        self._work = work
        self._ids = ids
        self._lock_seconds = lock_seconds
        self._deliveries_max = deliveries_max

    async def subscribe(
        self, tx: Tx, topic: str, subscription: str, *, only: dict[str, Any] | None = None
    ) -> None:
        """From now on `topic/subscription` gets the topic's messages whose properties equal `only`."""
        _plain("topic", topic)
        _plain("subscription", subscription)
        if only is not None and not isinstance(only, dict):
            raise Invalid("only is not an object with names", field="only")
        filter = None if only is None else payload.dumps(only, field="only")
        await tx.rows("bus.subscribe", topic=topic, name=subscription, filter=filter)

    async def unsubscribe(self, tx: Tx, topic: str, subscription: str) -> bool:
        """No new messages; those already there stay."""
        return bool(await tx.rows("bus.unsubscribe", topic=topic, name=subscription))

    async def send(self, tx: Tx, queue: str, messages: Sequence[Message]) -> list[str]:
        """To one queue. Returns the message ids."""
        _plain("queue", queue)
        return await self._deliver(tx, [(queue, message) for message in self._named(messages)])

    async def publish(self, tx: Tx, topic: str, messages: Sequence[Message]) -> list[str]:
        """To every subscription of the topic that wants it. Returns the message ids."""
        _plain("topic", topic)
        named = self._named(messages)
        rows = await tx.rows("bus.subscriptions", topics=[(topic,)])
        wants = [(f"{topic}/{row.name}", _filter(row.filter)) for row in rows]
        await self._deliver(
            tx,
            [
                (queue, message)
                for message in named
                for queue, only in wants
                if _matches(message.properties, only)
            ],
        )
        return [str(message.id) for message in named]

    @asynccontextmanager
    async def hearing(self, source: str, *, n: int, wait_seconds: float) -> AsyncIterator[Heard]:
        """Nobody tells here: the bell wakes the consumer, and it looks."""
        yield LOOK

    async def receive(
        self, tx: Tx, source: str, *, holder: str, n: int = 1, heard: Heard = LOOK
    ) -> list[Delivery]:
        """Lock up to `n` messages of a queue or of `topic/subscription`, what was heard first."""
        await self.refuse(tx, source, heard.refused, holder=holder)
        ids = [*heard.known, *(row_id(source, str(each.id)) for each in heard.arrivals)]
        await self._deliver(tx, [(source, message) for message in heard.arrivals])
        items: list[Claimed] = []
        if ids:
            items += await self._work.claim_ids(tx, ids, holder=holder, start=True)
        if heard.look and len(items) < n:
            rest = n - len(items)
            items += await self._work.claim(tx, queue=source, holder=holder, n=rest, start=True)
        return [_delivery(item) for item in items]

    async def refuse(
        self, tx: Tx, source: str, refusals: Sequence[Refusal], *, holder: str
    ) -> list[str]:
        """Keep what cannot be taken as dead letters. One whose id is known has its row already."""
        if not refusals:
            return []
        created = {
            item.id
            for item in await self._work.enqueue(
                tx, [self._item(source, Message(each.body, each.message_id)) for each in refusals]
            )
            if item.created
        }
        failures = {row_id(source, each.message_id): each for each in refusals}
        items = await self._work.claim_ids(tx, sorted(created), holder=holder, start=True)
        await self._work.fail(
            tx,
            [
                Failure(item, failures[item.id].error, False, reason=failures[item.id].reason)
                for item in items
            ],
        )
        return sorted(created)

    async def renew(self, tx: Tx, deliveries: Sequence[Delivery]) -> list[Verdict]:
        return [renewal.verdict for renewal in await self._work.renew(tx, deliveries)]

    async def ack(self, tx: Tx, deliveries: Sequence[Delivery]) -> list[Verdict]:
        """Done with it. Not OK: the lock was lost, and what this transaction records must not be."""
        return await self._work.complete(tx, [Done(delivery) for delivery in deliveries])

    async def nack(
        self,
        tx: Tx,
        deliveries: Sequence[Delivery],
        *,
        error: str,
        delay_seconds: float | None = None,
    ) -> list[Verdict]:
        """Not now: deliver it again later, or bury it when it was delivered often enough."""
        return await self._work.fail(
            tx,
            [
                Failure(delivery, error, delay_seconds=delay_seconds, reason="delivery_failed")
                for delivery in deliveries
            ],
        )

    async def dead_letter(
        self, tx: Tx, deliveries: Sequence[Delivery], *, reason: str
    ) -> list[Verdict]:
        """Never again: it cannot be handled, and somebody should see why."""
        return await self._work.fail(
            tx,
            [
                Failure(delivery, reason, retryable=False, reason="refused")
                for delivery in deliveries
            ],
        )

    async def dead_letters(
        self, tx: Tx, source: str, *, n: int = 100, after: tuple[datetime, str] = (EPOCH, "")
    ) -> list[DeadLetter]:
        return await self._work.dead_letters(tx, queue=source, n=n, after=after)

    async def replay(self, tx: Tx, ids: Sequence[str], *, actor: str) -> list[bool]:
        return await self._work.replay(tx, ids, actor=actor)

    def _named(self, messages: Sequence[Message]) -> list[Message]:
        return [
            Message(
                message.body,
                message.id or self._ids.new(),
                message.properties,
                message.delay_seconds,
                message.ttl_seconds,
            )
            for message in messages
        ]

    async def _deliver(self, tx: Tx, addressed: Sequence[tuple[str, Message]]) -> list[str]:
        if addressed:
            await self._work.enqueue(tx, [self._item(queue, each) for queue, each in addressed])
        return [str(message.id) for _, message in addressed]

    def _item(self, queue: str, message: Message) -> NewItem:
        return NewItem(
            queue=queue,
            id=row_id(queue, str(message.id)),
            payload=message.body,
            properties={**(message.properties or {}), MESSAGE_ID: message.id},
            delay_seconds=message.delay_seconds,
            ttl_seconds=message.ttl_seconds,
            attempts_max=self._deliveries_max,
            lease_seconds=self._lock_seconds,
        )


MESSAGE_ID = "podium-message-id"


def row_id(source: str, message_id: str) -> str:
    """No name has a slash: where the queue ends and the id begins is never in doubt."""
    return f"{source}//{message_id}"


def _plain(field: str, value: str) -> None:
    name(field, value)
    if "/" in value or len(value) > NAME_CHARACTERS_MAX:
        raise Invalid(
            f"{field} is {value!r:.80}; it has no slash and at most {NAME_CHARACTERS_MAX} characters",
            field=field,
        )


def _delivery(item: Claimed) -> Delivery:
    properties: dict[str, Any] = payload.loads(item.properties or "{}")
    message_id = properties.pop(MESSAGE_ID, item.id)
    return Delivery(
        item.id, item.epoch, item.queue, message_id, item.body, properties, item.attempts
    )


def _filter(text: str | None) -> dict[str, Any]:
    return {} if text is None else payload.loads(text)


def _matches(properties: dict[str, Any] | None, only: dict[str, Any]) -> bool:
    has = properties or {}
    return all(key in has and has[key] == value for key, value in only.items())
