"""The way out, with the operator's settings."""

from __future__ import annotations

import random
from dataclasses import replace

from podium.app.settings import Settings
from podium.effects.http import Egress, OutgoingHttp
from podium.kernel.clock import Clock


def outgoing(settings: Settings, *, clock: Clock, rng: random.Random) -> OutgoingHttp:
    """The one way out, for callbacks and whatever else calls an address that somebody gave us."""
    egress = Egress.of(
        networks=[str(network) for network in settings.egress.networks],
        # Before the server has its port there is no address of our own.
        public_url=settings.url if settings.port or settings.public_url else None,
    )
    # The setting is the whole list: who leaves 80 out wants no plain HTTP.
    egress = replace(egress, ports=frozenset(settings.egress.ports))
    return OutgoingHttp(egress=egress, clock=clock, rng=rng)
