"""The bus on NATS: the link, and the services that tell it and tidy it. Imported where `bus.url` is given."""

from __future__ import annotations

import random
from dataclasses import dataclass

from podium.app.settings import Settings
from podium.backends.nats import Keeper, Link, NatsBroker, NatsBus, NatsSettings
from podium.engine import Part, Service, Ticking
from podium.engine.relay import Relay
from podium.kernel.bus import Bus
from podium.kernel.clock import Clock
from podium.kernel.ids import Ulids
from podium.kernel.outbox import Outbox
from podium.kernel.store import Store
from podium.kernel.telemetry import Metrics
from podium.kernel.work import Work


class LinkPart:
    """Begins to connect and does not wait: the database is the truth, the broker a doorbell."""

    name = "broker link"

    def __init__(self, link: Link) -> None:
        self._link = link

    async def start(self) -> None:
        await self._link.open()

    def ask_to_stop(self) -> None:
        pass

    async def stop(self, grace_seconds: float) -> None:
        await self._link.close()


@dataclass(frozen=True, slots=True)
class Carrier:
    bus: Bus
    link: Part
    services: tuple[Service, ...]

    def parts(self, *, store: Store, rng: random.Random, metrics: Metrics) -> list[Part]:
        ticking = [
            Ticking(each, bell=store.bell, rng=rng, metrics=metrics) for each in self.services
        ]
        return [self.link, *ticking]


def carrier(settings: Settings, *, store: Store, work: Work, ids: Ulids, clock: Clock) -> Carrier:
    link = Link(NatsSettings(settings.bus.url.get_secret_value()))
    broker = NatsBroker(link, clock)
    bus = NatsBus(work, ids, broker, clock=clock)
    relay = Relay(store, Outbox(work), broker, queues=settings.bus.queues, clock=clock)
    return Carrier(bus, LinkPart(link), (relay, Keeper(store, bus, broker, clock=clock)))
