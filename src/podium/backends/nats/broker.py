"""The broker as the relay and the bus see it: publish, fetch, and which stream it is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, StreamInfo

from podium.backends.nats import names, stream
from podium.backends.nats.ear import Ear, NoConsumer
from podium.backends.nats.link import Link
from podium.backends.nats.receipts import Receipts, Sent
from podium.kernel.clock import Clock, to_micros
from podium.kernel.errors import PodiumError
from podium.kernel.outbox import Notice
from podium.kernel.telemetry import logger

REQUEST_SECONDS_MAX = 3.0
PUBLISH_SECONDS_MAX = 10.0
FETCH_SECONDS_MAX = 10.0
LOOK_SECONDS = 0.25
CHECK_SECONDS = 2.0
"""How often to ask whether the stream is still the same one."""
ACKS_PENDING_MAX = 5_000

log = logger(__name__)


class NatsBroker:
    def __init__(self, link: Link, clock: Clock) -> None:
        self.link = link
        self.settings = link.settings
        self._clock = clock
        self._client: Client | None = None
        self._js: JetStreamContext | None = None
        self._generation: str | None = None
        self._checked_at = 0.0
        self._consumers: set[str] = set()
        self._ears: dict[str, list[Ear]] = {}
        self._receipts: Receipts | None = None
        self._told: str | None = None

    # Publishing ------------------------------------------------------------------------------

    async def generation(self) -> str | None:
        js = self.jetstream()
        if js is None:
            self._generation = None
            return None
        now = self._clock.monotonic()
        if self._generation is None or now - self._checked_at >= CHECK_SECONDS:
            try:
                self._adopt(await stream.ensured(js, self.settings))
            except (NatsError, PodiumError, TimeoutError, OSError) as error:
                self._complain("the broker's stream cannot be had", error)
                self._generation = None
            else:
                self._checked_at, self._told = now, None
        return self._generation

    async def publish(self, notices: Sequence[Notice]) -> list[Notice]:
        if not notices or self.jetstream() is None or self._client is None:
            return []
        sent = Sent()
        try:
            async with asyncio.timeout(PUBLISH_SECONDS_MAX):
                if self._receipts is None:
                    self._receipts = await Receipts.opened(self._client, self.settings.prefix)
                await self._receipts.send(notices, sent)
                await self._answered(sent)
        except (NatsError, TimeoutError, OSError) as error:
            sent.error = repr(error)
        finally:
            if self._receipts is not None:
                self._receipts.forget(sent)
        if sent.error is not None:
            # Above all when the stream is gone: look at once, not after a while.
            self._generation = None
            self._complain("the broker does not take notices", sent.error)
        return sent.accepted

    async def _answered(self, sent: Sent) -> None:
        """Until all answers are there, or the connection they would come through is gone."""
        client = self._client
        while self.link.client is client:
            try:
                async with asyncio.timeout(LOOK_SECONDS):
                    await sent.is_over.wait()
                return
            except TimeoutError:
                continue
        sent.error = "the connection broke"

    # Hearing ---------------------------------------------------------------------------------

    async def fetch(self, source: str, *, n: int, wait_seconds: float) -> list[Msg] | None:
        """Up to `n` messages of a source, in order; None when the broker cannot be asked."""
        js = self.jetstream()
        if js is None or await self.generation() is None:
            return None
        try:
            async with asyncio.timeout(wait_seconds + FETCH_SECONDS_MAX):
                await self._ensure_consumer(js, source)
                async with self._ear(source) as ear:
                    return await ear.hear(n, wait_seconds)
        except NoConsumer:
            # Somebody removed it, or the stream with it.
            self._consumers.discard(source)
            self._generation = None
        except (NatsError, TimeoutError, OSError) as error:
            self._complain("the broker does not answer", error)
            self._consumers.discard(source)
        return None

    async def _ensure_consumer(self, js: JetStreamContext, source: str) -> None:
        if source in self._consumers:
            return
        settings = self.settings
        await js.add_consumer(
            settings.stream,
            ConsumerConfig(
                durable_name=names.durable(source),
                filter_subject=names.subject(settings.prefix, source),
                ack_policy=AckPolicy.EXPLICIT,
                ack_wait=settings.ack_wait_seconds,
                max_deliver=settings.deliver_max,
                max_ack_pending=ACKS_PENDING_MAX,
            ),
        )
        self._consumers.add(source)

    @asynccontextmanager
    async def _ear(self, source: str) -> AsyncIterator[Ear]:
        """One ear hears for one caller at a time; what came late for the last one is not lost."""
        spare = self._ears.setdefault(source, [])
        assert self._client is not None
        ear = (
            spare.pop()
            if spare
            else await Ear.opened(self._client, self.settings.stream, names.durable(source))
        )
        try:
            yield ear
        finally:
            if ear.client is self._client:
                self._ears.setdefault(source, []).append(ear)

    # -----------------------------------------------------------------------------------------

    def jetstream(self) -> JetStreamContext | None:
        """None while the broker is away. After a new connection nothing is taken for granted."""
        client = self.link.client
        if client is None:
            return None
        if client is not self._client:
            self._client = client
            self._js = client.jetstream(timeout=REQUEST_SECONDS_MAX)
            self._ears, self._receipts = {}, None
            self._generation = None
            self._consumers.clear()
        return self._js

    def _adopt(self, info: StreamInfo) -> None:
        assert info.created is not None
        generation = f"{self.settings.stream}@{to_micros(info.created)}"
        if generation != self._generation:
            self._consumers.clear()
        self._generation = generation

    def _complain(self, text: str, error: BaseException | str) -> None:
        """Once, until it works again."""
        if text != self._told:
            self._told = text
            log.warning(text, stream=self.settings.stream, error=str(error) or repr(error))
