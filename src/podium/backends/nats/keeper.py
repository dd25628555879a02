"""The keeper of the stream: what the broker gave up becomes a dead letter, and leaves the stream.

When a message was delivered as often as it may be, JetStream leaves it where it is, tells it once in
an advisory that nobody may hear, and never speaks of it again. So the keeper listens to advisories,
*and* it goes round: below a consumer's floor everything was acknowledged and is gone, and what is
still there was given up. It also buries what nobody came for in two weeks.

A notice of ours needs no dead letter: its row is ready again by itself. The keepers of several
processes may do the same work; a dead letter has one id, however often it is written.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import orjson
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from nats.js.api import ConsumerInfo, RawStreamMsg
from nats.js.errors import APIError, NotFoundError

from podium.backends.nats import letters, names
from podium.backends.nats.broker import NatsBroker
from podium.backends.nats.letters import Envelope
from podium.kernel import bus
from podium.kernel.bus import SqlBus
from podium.kernel.clock import Clock, to_micros
from podium.kernel.errors import Unavailable
from podium.kernel.store import Store
from podium.kernel.telemetry import logger

ADVISED = "nats:advised"
ROUND_SECONDS = 60.0
MESSAGES_PER_ROUND = 1_000
SEQUENCE_GONE = 10043
"""The server's code for a message that is not there any more."""
HOLDER = "keeper of the stream"

log = logger(__name__)


class Keeper:
    name = "keeper of the stream"
    channels = (ADVISED,)
    pause_seconds_max = 5.0

    def __init__(
        self,
        store: Store,
        sql_bus: SqlBus,
        broker: NatsBroker,
        *,
        clock: Clock,
        round_seconds: float = ROUND_SECONDS,
    ) -> None:
        self._store = store
        self._bus = sql_bus
        self._broker = broker
        self._stream = broker.settings.stream
        self._clock = clock
        self._round_seconds = round_seconds
        self._round_at = 0.0
        self._listening: Client | None = None
        self._advised: set[int] = set()

    async def tick(self) -> float | None:
        js = self._broker.jetstream()
        if js is None or await self._broker.generation() is None:
            return None
        try:
            await self._listen()
            await self._follow_advice(js)
            if self._clock.monotonic() >= self._round_at:
                await self.go_round(js)
                self._round_at = self._clock.monotonic() + self._round_seconds
        except (NatsError, TimeoutError, OSError) as error:
            raise Unavailable(f"the broker cannot be asked: {error!r}") from error
        return None

    async def go_round(self, js: JetStreamContext) -> int:
        """Everything that was given up or is too old, whoever was told of it. Says how many."""
        count = 0
        for consumer in await self._consumers(js):
            async for message in self._given_up(js, consumer):
                count += await self._bury(js, message, "max_deliveries", _spent(consumer))
        async for message in self._too_old(js):
            await self._bury(js, message, "expired", "nobody came for it")
            count += 1
        return count

    # Advisories ------------------------------------------------------------------------------

    async def _listen(self) -> None:
        client = self._broker.link.client
        if client is None or client is self._listening:
            return
        subject = f"$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.{self._stream}.>"
        await client.subscribe(subject, cb=self._note)
        self._listening = client

    async def _note(self, message: Msg) -> None:
        try:
            self._advised.add(int(orjson.loads(message.data)["stream_seq"]))
        except (ValueError, KeyError, TypeError) as error:
            log.warning("an advisory cannot be read", error=repr(error))
            return
        self._store.bell.ring(ADVISED)

    async def _follow_advice(self, js: JetStreamContext) -> None:
        for sequence in sorted(self._advised):
            try:
                message = await js.get_msg(self._stream, seq=sequence)
            except NotFoundError:
                pass
            else:
                await self._bury(js, message, "max_deliveries", "delivered as often as it may be")
            self._advised.discard(sequence)

    # Rounds ----------------------------------------------------------------------------------

    async def _consumers(self, js: JetStreamContext) -> list[ConsumerInfo]:
        found: list[ConsumerInfo] = []
        while page := await js.consumers_info(self._stream, offset=len(found)):
            found += page
        return found

    async def _given_up(
        self, js: JetStreamContext, consumer: ConsumerInfo
    ) -> AsyncIterator[RawStreamMsg]:
        """What lies below the floor; with nothing on its way, the floor is the last one delivered."""
        floor = consumer.delivered if not consumer.num_ack_pending else consumer.ack_floor
        if floor is None:
            return
        subject = consumer.config.filter_subject or f"{self._broker.settings.prefix}.>"
        async for message in self._walk(js, subject):
            if (message.seq or 0) > floor.stream_seq:
                return
            yield message

    async def _too_old(self, js: JetStreamContext) -> AsyncIterator[RawStreamMsg]:
        oldest_micros = to_micros(self._clock.now()) - int(bus.TTL_SECONDS * 1e6)
        async for message in self._walk(js, f"{self._broker.settings.prefix}.>"):
            if message.time is None or to_micros(message.time) > oldest_micros:
                return
            yield message

    async def _walk(self, js: JetStreamContext, subject: str) -> AsyncIterator[RawStreamMsg]:
        sequence = 1
        for _ in range(MESSAGES_PER_ROUND):
            try:
                message = await js.get_msg(self._stream, seq=sequence, subject=subject, next=True)
            except NotFoundError:
                return
            yield message
            sequence = (message.seq or 0) + 1

    async def _bury(
        self, js: JetStreamContext, message: RawStreamMsg, reason: str, error: str
    ) -> int:
        """The row first; only what is safe in the database leaves the stream."""
        subject = message.subject or ""
        # A subject that is none of ours names no queue; its letters lie under its own name.
        source = names.source(self._broker.settings.prefix, subject) or subject[:200]
        refusal = letters.undelivered(source, self._envelope(message), reason, error)
        if refusal is not None:
            await self._store.write(self._bus.refuse, source, [refusal], holder=HOLDER)
            log.warning("the broker gave a message up", source=source, id=refusal.message_id)
        try:
            await js.delete_msg(self._stream, message.seq or 0)
        except APIError as gone:
            if gone.err_code != SEQUENCE_GONE:
                raise
        return 1

    def _envelope(self, message: RawStreamMsg) -> Envelope:
        assert message.time is not None
        return Envelope(
            message.data or b"",
            {str(name): str(value) for name, value in (message.headers or {}).items()},
            self._stream,
            message.seq or 0,
            to_micros(message.time),
        )


def _spent(consumer: ConsumerInfo) -> str:
    return f"delivered {consumer.config.max_deliver} times and never acknowledged"
