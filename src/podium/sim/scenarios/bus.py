"""Publishers, subscribers and a relay to a broker.

An order is a row and a message in one transaction. Two subscriptions record it with the real
BusConsumer, in the transaction that acknowledges it; a third is relayed to a broker, whose far
side is an idempotent consumer.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import Any

from podium.kernel.bus import Delivery, Message, SqlBus
from podium.kernel.errors import Unavailable
from podium.kernel.store import Tx
from podium.kernel.work.queue import channel
from podium.sim.broker import Broker
from podium.sim.checkers import BusChecker, WorkChecker
from podium.sim.parts import Parts
from podium.sim.scenarios.scenario import SAFETY_POLL_SECONDS, Scenario
from podium.sim.world import Process, Role, World

TOPIC = "orders"
EVERY, GOOD, RELAYED, FAR = "every", "good", "relayed", "far"
POISON = "poison"
ORDERS = (8, 16)
PATIENT = 200


@dataclass(slots=True)
class Order:
    id: str
    kind: str
    at_seconds: float
    is_acknowledged: bool = False


def wants(kind: str) -> list[str]:
    return [EVERY, GOOD, RELAYED] if kind == GOOD else [EVERY, RELAYED]


class BusScenario(Scenario):
    name = "bus"

    def __init__(self, world: World, parts: Parts) -> None:
        super().__init__(world, parts)
        self.work = WorkChecker(world)
        self.checker = BusChecker(world, TOPIC, wants)
        world.checkers += [self.work, self.checker]
        self.broker = Broker(world)
        self.orders = [
            Order(
                f"order-{n}",
                self.rng.choice((GOOD, GOOD, "plain", POISON)),
                self.rng.uniform(0, self.horizon_seconds * 0.6),
            )
            for n in range(self.rng.randint(*ORDERS))
        ]

    async def prepare(self) -> None:
        process = Process(self.world, Role("nobody", lambda _: None), "nobody")
        await self.world.store.write(self._subscribe, process)

    async def _subscribe(self, tx: Tx, process: Process) -> None:
        bus = self._bus(process)
        await bus.subscribe(tx, TOPIC, EVERY)
        await bus.subscribe(tx, TOPIC, GOOD, only={"kind": GOOD})
        await bus.subscribe(tx, TOPIC, RELAYED)

    def roles(self) -> list[Role]:
        return [
            self.engine(2),
            Role("publisher", self._start_publisher, is_mortal=False),
            Role("every", partial(self._start_consumer, EVERY), 2),
            Role("good", partial(self._start_consumer, GOOD), 2),
            Role("relay", lambda p: p.keep_ticking(Relay(p, self._bus(p), self)), 2),
            Role("far", self._start_far, 2),
        ]

    def _bus(self, process: Process, deliveries_max: int = PATIENT) -> SqlBus:
        return SqlBus(process.work, process.ids, deliveries_max=deliveries_max)

    # Near ------------------------------------------------------------------------------------

    def _start_publisher(self, process: Process) -> None:
        for order in self.orders:
            process.spawn(self._publish(process, order))

    async def _publish(self, process: Process, order: Order) -> None:
        await asyncio.sleep(order.at_seconds)
        bus = self._bus(process, deliveries_max=3 if order.kind == POISON else PATIENT)
        while True:
            await self.insist(process, self._add, bus, order)
            order.is_acknowledged = True
            if order.id not in self.checker.orders:
                raise self.world.violate("acknowledged_is_stored", f"{order.id} is nowhere")
            if process.rng.random() >= self.world.current_faults().resend:
                return
            await asyncio.sleep(process.rng.uniform(0, 60))

    async def _add(self, tx: Tx, bus: SqlBus, order: Order) -> None:
        """A row of its own and the message. Sent again, neither is there twice."""
        await tx.rows("orders.add", id=order.id, kind=order.kind)
        message = Message({"id": order.id}, order.id, properties={"kind": order.kind})
        await bus.publish(tx, TOPIC, [message])

    def _start_consumer(self, subscription: str, process: Process) -> None:
        async def handle(tx: Tx, delivery: Delivery) -> None:
            if delivery.properties["kind"] == POISON:
                raise ValueError("nobody can read this order")
            await tx.rows(
                "orders.record",
                subscription=subscription,
                message_id=delivery.message_id,
                node=process.name,
            )

        consumer = self.parts.bus_consumer(
            process.store,
            self._bus(process),
            source=f"{TOPIC}/{subscription}",
            holder=process.name,
            handle=handle,
            metrics=self.world.metrics,
            messages_max=4,
        )
        consumer.pause_seconds_max = SAFETY_POLL_SECONDS
        process.keep_ticking(consumer)

    # Far -------------------------------------------------------------------------------------

    def _start_far(self, process: Process) -> None:
        inbox: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()
        self.broker.consume(process, lambda id, body: inbox.put_nowait((id, body)))
        process.spawn(self._apply_all(process, inbox))

    async def _apply_all(self, process: Process, inbox: asyncio.Queue[tuple[str, Any]]) -> None:
        while True:
            id, _ = await inbox.get()
            try:
                await process.store.write(self._apply, id, process.name)
            except Unavailable:
                continue
            self.broker.acknowledge(id)

    async def _apply(self, tx: Tx, id: str, node: str) -> None:
        await tx.rows("orders.apply", subscription=FAR, message_id=id, node=node)

    # The end ---------------------------------------------------------------------------------

    def left(self) -> str:
        waiting = [order.id for order in self.orders if not order.is_acknowledged]
        if waiting:
            return f"not answered: {', '.join(waiting)}"
        if self.work.live_count:
            items = [f"{id} is {i.live.state}" for id, i in self.work.items.items() if i.live]
            return ", ".join(items)
        return ", ".join(self.broker.waiting)

    def finish(self) -> None:
        for order in self.orders:
            for subscription in wants(order.kind):
                self._judge(order, subscription)

    def _judge(self, order: Order, subscription: str) -> None:
        item = self.work.items[f"{TOPIC}/{subscription}//{order.id}"].finished
        dead = order.kind == POISON
        if subscription == RELAYED:
            # The relay can send what nobody can read; but it has fewer tries for it.
            if not self.checker.received[FAR, order.id] and not (dead and item.state == "dead"):
                raise self.world.violate("arrives_and_applies", f"{order.id} never arrived")
            return
        if (item.state == "dead") != dead:
            raise self.world.violate(
                "dead_letters_are_the_poisoned", f"{order.id} at {subscription} is {item.state}"
            )
        if self.checker.received[subscription, order.id] != (0 if dead else 1):
            raise self.world.violate("recorded_once", f"{subscription} never recorded {order.id}")


class Relay:
    """Reads the relayed subscription, publishes to the broker, and only then acknowledges."""

    name = "relay"
    pause_seconds_max = SAFETY_POLL_SECONDS

    def __init__(self, process: Process, bus: SqlBus, scenario: BusScenario) -> None:
        self._source = f"{TOPIC}/{RELAYED}"
        self.channels: tuple[str, ...] = (channel(self._source),)
        self._process = process
        self._bus = bus
        self._broker = scenario.broker
        self._marks_first = scenario.parts.relay_marks_first

    async def tick(self) -> float | None:
        store = self._process.store
        deliveries = await store.write(
            self._bus.receive, self._source, holder=self._process.name, n=3
        )
        for delivery in deliveries:
            if self._marks_first:
                await store.write(self._bus.ack, [delivery])
                await self._broker.publish(delivery.message_id, delivery.body)
            else:
                # Published and not acknowledged is published again: the far side knows its id.
                await self._broker.publish(delivery.message_id, delivery.body)
                await store.write(self._bus.ack, [delivery])
        return 0.0 if deliveries else None
