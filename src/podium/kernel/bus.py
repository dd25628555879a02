"""The bus: queues, and topics with subscriptions. What is *told* goes through here.

On SQL a message is a work item on the queue of that name, or on `topic/subscription` for each
subscription that wants it: locked for a minute, delivered at most ten times, kept for two weeks,
a dead letter with a reason after that. So the message commits or vanishes with the transaction
that sends it, and acknowledging it commits with what its handler recorded:

    async def handle(tx, delivery):
        await record(tx, delivery.body)
        await bus.ack(tx, [delivery])

A handler records and acknowledges; it never waits. A message id is known as long as finished work
is kept (30 days): sent again it is not delivered again. The promises are in `podium.testing.suites.bus`; a broker keeps the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

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


class SqlBus:
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

    async def receive(self, tx: Tx, source: str, *, holder: str, n: int = 1) -> list[Delivery]:
        """Lock up to `n` messages of a queue or of `topic/subscription`."""
        items = await self._work.claim(tx, queue=source, holder=holder, n=n, start=True)
        return [_delivery(item) for item in items]

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
        items = [
            NewItem(
                queue=queue,
                # No name has a slash: where the queue ends and the id begins is never in doubt.
                id=f"{queue}//{message.id}",
                payload=message.body,
                properties={**(message.properties or {}), MESSAGE_ID: message.id},
                delay_seconds=message.delay_seconds,
                ttl_seconds=message.ttl_seconds,
                attempts_max=self._deliveries_max,
                lease_seconds=self._lock_seconds,
            )
            for queue, message in addressed
        ]
        if items:
            await self._work.enqueue(tx, items)
        return [str(message.id) for _, message in addressed]


MESSAGE_ID = "podium-message-id"


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
