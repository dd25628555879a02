"""From committed rows to a broker that has them: the relay beside a bare client."""

from __future__ import annotations

import asyncio
import time
from typing import NamedTuple

import nats
import orjson
import uvloop
from nats.js.api import RetentionPolicy, StorageType

from bench.podium_queue import ENQUEUE, QUEUE, opened
from podium.backends.nats import Link, NatsBroker, NatsSettings
from podium.engine.relay import Relay
from podium.kernel.clock import SystemClock
from podium.kernel.outbox import Outbox
from podium.kernel.work import NewItem

SUBJECT = f"podium.bus.{QUEUE}"
CONNECT_SECONDS_MAX = 10.0


class Relayed(NamedTuple):
    messages_per_second: float
    raw_per_second: float


def relayed(at: str, nats_url: str, messages: int) -> Relayed:
    """Messages per second that the broker confirmed: through the relay, and with no row behind them."""
    through = uvloop.run(_through_the_relay(at, nats_url, messages))
    return Relayed(through, uvloop.run(_bare(nats_url, messages)))


async def _through_the_relay(at: str, nats_url: str, messages: int) -> float:
    clock = SystemClock()
    link = Link(NatsSettings(nats_url))
    await link.open(wait_seconds=CONNECT_SECONDS_MAX)
    broker = NatsBroker(link, clock)
    try:
        async with opened(at) as (store, work):
            relay = Relay(store, Outbox(work), broker, queues=[QUEUE], clock=clock)
            await relay.tick()
            for first in range(0, messages, ENQUEUE):
                part = range(first, min(first + ENQUEUE, messages))
                items = [NewItem(QUEUE, _body(n), id=f"{QUEUE}//{n}") for n in part]
                await store.write(work.enqueue, items)
            began = time.perf_counter()
            while await relay.tick() == 0.0:
                pass
            seconds = time.perf_counter() - began
        js = broker.jetstream()
        assert js is not None
        found = (await js.stream_info(link.settings.stream)).state.messages
        assert found == messages, f"the broker has {found} of {messages}"
        return messages / seconds
    finally:
        await link.close()


async def _bare(nats_url: str, messages: int) -> float:
    """The same bodies and ids, the same kind of stream, as many on their way at once."""
    client = await nats.connect(nats_url)
    js = client.jetstream()
    await js.delete_stream("podium")
    await js.add_stream(
        name="bare",
        subjects=[SUBJECT],
        retention=RetentionPolicy.WORK_QUEUE,
        storage=StorageType.FILE,
    )
    try:
        began = time.perf_counter()
        answers = [
            await js.publish_async(
                SUBJECT, orjson.dumps(_body(n)), headers={"Nats-Msg-Id": f"{QUEUE}//{n}:0"}
            )
            for n in range(messages)
        ]
        await asyncio.gather(*answers)
        return messages / (time.perf_counter() - began)
    finally:
        await js.delete_stream("bare")
        await client.close()


def _body(n: int) -> dict[str, int]:
    return {"n": n}
