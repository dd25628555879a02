"""The bus with a broker: everything is as on SQL but how a consumer learns that there is something.

    broker ──fetch──► heard ──one transaction──► rows claimed ──acknowledge──► broker

A notice of ours is claimed by its row's id. A message of somebody else becomes a row, in the same
transaction that claims it, and from then on it is like any other. What cannot be read becomes a dead
letter. Only when that is committed is the broker told; if the store is away, it is told to come
again later, and later still the next time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterable, Sequence
from contextlib import asynccontextmanager

from nats.aio.msg import Msg

from podium.backends.nats import letters
from podium.backends.nats.broker import NatsBroker
from podium.backends.nats.letters import Envelope, Known
from podium.kernel import bus
from podium.kernel.bus import LOOK, Delivery, Heard, Message, Refusal, SqlBus
from podium.kernel.clock import Clock
from podium.kernel.ids import Ulids
from podium.kernel.store import Tx
from podium.kernel.telemetry import logger
from podium.kernel.work import Work, decide

LOOK_SECONDS = 5.0
"""How often to look into the database although the broker is there: a relay may be missing."""
NAK_SECONDS_MAX = 300.0
ACK_SECONDS_MAX = 2.0

log = logger(__name__)


class NatsBus(SqlBus):
    def __init__(
        self,
        work: Work,
        ids: Ulids,
        broker: NatsBroker,
        *,
        clock: Clock,
        lock_seconds: float = bus.LOCK_SECONDS,
        deliveries_max: int = bus.DELIVERIES_MAX,
        look_seconds: float = LOOK_SECONDS,
    ) -> None:
        super().__init__(work, ids, lock_seconds=lock_seconds, deliveries_max=deliveries_max)
        self._broker = broker
        self._clock = clock
        self._look_seconds = look_seconds
        self._look_at: dict[str, float] = {}

    @asynccontextmanager
    async def hearing(self, source: str, *, n: int, wait_seconds: float) -> AsyncIterator[Heard]:
        decide.name("source", source)
        decide.refuse_count(n)
        messages = await self._broker.fetch(source, n=n, wait_seconds=wait_seconds)
        if messages is None:
            yield LOOK
            return
        sorted_letters = [(each, letters.read(source, _envelope(each))) for each in messages]
        keeping = asyncio.create_task(self._keep(messages)) if messages else None
        try:
            yield self._heard(source, [letter for _, letter in sorted_letters])
        except (Exception, asyncio.CancelledError):
            await _settled(self._nak(message) for message in messages)
            raise
        finally:
            if keeping is not None:
                keeping.cancel()
        await _settled(_done(message, letter) for message, letter in sorted_letters)

    async def receive(
        self, tx: Tx, source: str, *, holder: str, n: int = 1, heard: Heard = LOOK
    ) -> list[Delivery]:
        deliveries = await super().receive(tx, source, holder=holder, n=n, heard=heard)
        if heard.look and len(deliveries) >= n:
            # There is a backlog that nobody tells: go on looking.
            self._look_at[source] = self._clock.monotonic()
        return deliveries

    def _heard(self, source: str, found: Sequence[letters.Letter]) -> Heard:
        return Heard(
            known=[letter.row_id for letter in found if isinstance(letter, Known)],
            arrivals=[letter for letter in found if isinstance(letter, Message)],
            refused=[letter for letter in found if isinstance(letter, Refusal)],
            look=self._is_time_to_look(source),
        )

    def _is_time_to_look(self, source: str) -> bool:
        now = self._clock.monotonic()
        if now < self._look_at.setdefault(source, now + self._look_seconds):
            return False
        self._look_at[source] = now + self._look_seconds
        return True

    async def _keep(self, messages: Sequence[Msg]) -> None:
        """While the transaction takes its time the broker must not take us for dead."""
        while True:
            await asyncio.sleep(self._broker.settings.ack_wait_seconds / 3)
            await _settled(message.in_progress() for message in messages)

    async def _nak(self, message: Msg) -> None:
        # Never without a delay: it would come back at once, until its deliveries are used up.
        tries = message.metadata.num_delivered
        await message.nak(delay=min(2.0 ** min(tries - 1, 20), NAK_SECONDS_MAX))


async def _done(message: Msg, letter: letters.Letter) -> None:
    if isinstance(letter, Known):
        # If this gets lost the notice comes again, finds its row claimed, and is gone then.
        await message.ack()
    elif isinstance(letter, Message):
        await message.ack_sync(timeout=ACK_SECONDS_MAX)
    else:
        log.warning("a message cannot be read", id=letter.message_id, error=letter.error)
        await message.term()


async def _settled(calls: Iterable[Awaitable[object]]) -> None:
    """The row is the truth by now: a broker that cannot be told tells us again."""
    try:
        async with asyncio.timeout(ACK_SECONDS_MAX + 1):
            outcomes = await asyncio.gather(*calls, return_exceptions=True)
    except TimeoutError as error:
        outcomes = [error]
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            log.debug("the broker was not told", error=repr(outcome))


def _envelope(message: Msg) -> Envelope:
    tokens = message.reply.split(".")
    nanos = int(tokens[7] if len(tokens) == 9 else tokens[9])
    where = message.metadata
    return Envelope(
        message.data, message.headers or {}, where.stream, where.sequence.stream, nanos // 1_000
    )
