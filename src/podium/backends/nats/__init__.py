"""NATS JetStream as the doorbell: see `podium.kernel.outbox` for what it may and may not lose.

link = Link(NatsSettings("nats://127.0.0.1:4222"))
broker = NatsBroker(link, clock)
bus = NatsBus(work, ids, broker, clock=clock)
relay = Relay(store, Outbox(work), broker, queues=["results"], clock=clock)
keeper = Keeper(store, bus, broker, clock=clock)
"""

from podium.backends.nats.broker import NatsBroker
from podium.backends.nats.bus import NatsBus
from podium.backends.nats.keeper import Keeper
from podium.backends.nats.link import Link
from podium.backends.nats.settings import NatsSettings

__all__ = ["Keeper", "Link", "NatsBroker", "NatsBus", "NatsSettings"]
