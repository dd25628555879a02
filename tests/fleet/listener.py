"""A program that listens on NATS with our bus: it writes down each message, once, where all can see it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

import uvloop

from podium.app.run import log_as
from podium.app.sources import load
from podium.app.wiring import Services, wire
from podium.engine import BusConsumer, Supervisor, Ticking
from podium.kernel import journal
from podium.kernel.bus import Delivery
from podium.kernel.store import Tx
from tests.fleet.processes import EVENTS

KIND = "fleet"


async def handle(tx: Tx, delivery: Delivery) -> None:
    event = journal.Event(KIND, delivery.message_id, "handled", data=delivery.body)
    await journal.append(tx, [event])


def consumer(services: Services, name: str) -> BusConsumer:
    return BusConsumer(
        services.store,
        services.bus,
        source=EVENTS,
        holder=name,
        handle=handle,
        metrics=services.metrics,
    )


async def main(name: str) -> None:
    settings = load(flags={}, environment=os.environ)
    log_as(settings)
    services = wire(settings)
    assert services.carrier is not None, "a listener has a broker"
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    await services.store.open()
    parts = [
        services.carrier.link,
        Ticking(
            consumer(services, f"{name}-{os.getpid()}"),
            bell=services.store.bell,
            rng=services.rng,
            metrics=services.metrics,
        ),
    ]
    async with Supervisor(parts):
        print("listening", flush=True)
        await told.wait()
    await services.store.close()


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1]))
