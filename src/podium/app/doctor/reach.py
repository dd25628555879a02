"""Would a callback get through? Asked of the guard that would let it out, with one real call."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Sequence

from podium.app.doctor.report import Finding, Level
from podium.app.egress import outgoing
from podium.app.settings import Settings
from podium.effects.http import CallFailed, Refused, Request
from podium.kernel.clock import SystemClock
from podium.kernel.errors import Invalid

CHECK = "reach"


async def examine_reach(settings: Settings, urls: Sequence[str]) -> AsyncIterator[Finding]:
    client = outgoing(settings, clock=SystemClock(), rng=random.Random())
    async with client:
        for url in urls:
            try:
                answer = await client.send(Request("HEAD", url))
            except Refused as error:
                mend = "if it is yours, allow its network or port: --set egress.networks=… or egress.ports=…"
                yield Finding(CHECK, Level.FAIL, str(error), mend)
            except Invalid as error:
                yield Finding(CHECK, Level.FAIL, str(error), "correct the address")
            except CallFailed as error:
                yield Finding(CHECK, Level.WARN, str(error), "look whether its server runs")
            else:
                yield Finding(CHECK, Level.OK, f"{url} answers {answer.status}")
