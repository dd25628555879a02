"""Consumers: take from a queue, handle, settle; one round at a time.

A `WorkConsumer` hands a list of claimed items to its handler and keeps their leases alive while it
runs; what the handler answers is settled in one transaction. A `BusConsumer` is for messages: each
is handled and acknowledged in the same transaction, so that what was recorded and what was
acknowledged can never differ.

If the store is away when a result is to be written, the round fails; the lease ends by itself and
somebody takes the item again. The lease is the safety net, not the `except`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

from podium.engine.loop import is_being_cancelled
from podium.kernel.bus import LOOK, Bus, Delivery, Heard
from podium.kernel.errors import CommitUnknown, LeaseLost, PodiumError, Unavailable
from podium.kernel.store import Store, Tx
from podium.kernel.telemetry import Metrics, logger
from podium.kernel.work import Claimed, Done, Failure, Verdict, Work
from podium.kernel.work.queue import channel

SAFETY_POLL_SECONDS = 1.0
SAFETY_POLL_SECONDS_MAX = 5.0
"""A queue that stays empty is looked at less and less often; its bell calls at once all the same."""
HEAR_SECONDS = 1.0
"""How long to listen to a broker in one round; a consumer that is stopped waits no longer than that."""
SETTLE_TRIES = 5
GIVE_BACK_SECONDS_MAX = 1.0

log = logger(__name__)

Outcome = Done | Failure
Handle = Callable[[list[Claimed]], Awaitable[Sequence[Outcome]]]
HandleMessage = Callable[[Tx, Delivery], Awaitable[None]]


class Patience:
    """How long to sleep on an empty queue when no bell rings."""

    def __init__(self) -> None:
        self._seconds = SAFETY_POLL_SECONDS

    def pause_seconds(self, *, found: int, wanted: int) -> float:
        if found == wanted:
            # There may be more. When there was less, whatever came since has rung the bell.
            return 0.0
        pause = SAFETY_POLL_SECONDS if found else self._seconds
        self._seconds = pause * 1.5
        return pause


class WorkConsumer:
    """Several of them on one queue, in one process or in many, share its items."""

    pause_seconds_max = SAFETY_POLL_SECONDS_MAX

    def __init__(
        self,
        store: Store,
        work: Work,
        *,
        queue: str,
        holder: str,
        handle: Handle,
        metrics: Metrics,
        items_max: int = 100,
    ) -> None:
        self.name = f"consumer of {queue}"
        self.channels = (channel(queue),)
        self._store = store
        self._work = work
        self._queue = queue
        self._holder = holder
        self._handle = handle
        self._metrics = metrics
        self._items_max = items_max
        self._patience = Patience()

    async def tick(self) -> float | None:
        items = await self._store.write(
            self._work.claim,
            queue=self._queue,
            holder=self._holder,
            n=self._items_max,
            start=True,
        )
        if items:
            await self._settle(self._one_each(items, await self._handle_and_renew(items)))
        return self._patience.pause_seconds(found=len(items), wanted=self._items_max)

    async def _handle_and_renew(self, items: list[Claimed]) -> Sequence[Outcome]:
        handling = asyncio.create_task(self._call(items))
        pause_seconds = min(item.lease_seconds for item in items) / 3
        held = list(items)
        try:
            while True:
                try:
                    async with asyncio.timeout(pause_seconds):
                        return await asyncio.shield(handling)
                except TimeoutError:
                    if handling.done():
                        return await handling
                held = await self._renew(held)
                if not held:
                    # Nothing of it is ours any more: whatever it would answer is refused.
                    return [Failure(item, "its lease was lost") for item in items]
        except asyncio.CancelledError as error:
            if handling.cancelled() and not is_being_cancelled():
                # Something inside the handler was cancelled; this service was not.
                return self._failures(items, error)
            await self._give_back(handling, held)
            raise
        except Exception as error:
            if not handling.done():
                raise
            return self._failures(items, error)
        finally:
            handling.cancel()

    async def _call(self, items: list[Claimed]) -> Sequence[Outcome]:
        return await self._handle(items)

    def _failures(self, items: list[Claimed], error: BaseException) -> list[Outcome]:
        log.error("a handler failed", queue=self._queue, trace=error)
        return [Failure(item, _text(error)) for item in items]

    def _one_each(self, items: list[Claimed], outcomes: Sequence[Outcome]) -> Sequence[Outcome]:
        """What the handler said of each item, and a failure where it said nothing of use."""
        if _answers_in_order(items, outcomes):
            return outcomes
        said = {
            (outcome.lease.id, outcome.lease.epoch): outcome
            for outcome in (outcomes if isinstance(outcomes, list | tuple) else ())
            if isinstance(outcome, Done | Failure)
        }
        silence = "its handler gave no outcome for it"
        return [said.get((item.id, item.epoch)) or Failure(item, silence) for item in items]

    async def _give_back(
        self, handling: asyncio.Future[Sequence[Outcome]], held: list[Claimed]
    ) -> None:
        """This process stops: end the handler, then let somebody else have its items at once."""
        handling.cancel()
        try:
            async with asyncio.timeout(GIVE_BACK_SECONDS_MAX):
                # Shielded: a handler that will not be cancelled is left behind, not waited for.
                await asyncio.gather(asyncio.shield(handling), return_exceptions=True)
                await self._store.write(self._work.release, held)
        except (TimeoutError, PodiumError) as error:
            # Then the leases end by themselves, a little later.
            log.warning("leases not given back", error=repr(error))

    async def _renew(self, held: list[Claimed]) -> list[Claimed]:
        try:
            renewals = await self._store.write(self._work.renew, held)
        except Unavailable:
            # Not renewed, not lost yet: try again in a moment, the lease's end decides.
            return held
        return [
            item
            for item, renewal in zip(held, renewals, strict=True)
            if renewal.verdict is Verdict.OK
        ]

    async def _settle(self, outcomes: Sequence[Outcome]) -> None:
        """One result that cannot be stored fails its own item; its neighbours are settled."""
        if not outcomes:
            return
        try:
            verdicts = await self._write_outcomes(outcomes)
        except Unavailable:
            raise
        except PodiumError as error:
            middle = len(outcomes) // 2
            if middle:
                await self._settle(outcomes[:middle])
                await self._settle(outcomes[middle:])
            else:
                text = f"its result cannot be stored: {error}"
                await self._settle([Failure(outcomes[0].lease, text, retryable=False)])
            return
        counted = Counter(
            _label(outcome, verdict) for outcome, verdict in zip(outcomes, verdicts, strict=True)
        )
        for label, count in counted.items():
            self._metrics.consumed.labels(queue=self._queue, outcome=label).inc(count)

    async def _write_outcomes(self, outcomes: Sequence[Outcome]) -> list[Verdict]:
        for _ in range(SETTLE_TRIES - 1):
            try:
                return await self._store.write(self._settle_all, outcomes)
            except CommitUnknown:
                # Written again under the same epochs: what was done before is simply refused.
                continue
        return await self._store.write(self._settle_all, outcomes)

    async def _settle_all(self, tx: Tx, outcomes: Sequence[Outcome]) -> list[Verdict]:
        done = [outcome for outcome in outcomes if isinstance(outcome, Done)]
        failed = [outcome for outcome in outcomes if isinstance(outcome, Failure)]
        verdicts: dict[int, Verdict] = {}
        if done:
            found = await self._work.complete(tx, done)
            verdicts |= dict(zip(_places(outcomes, Done), found, strict=True))
        if failed:
            found = await self._work.fail(tx, failed)
            verdicts |= dict(zip(_places(outcomes, Failure), found, strict=True))
        return [verdicts[n] for n in range(len(outcomes))]


class BusConsumer:
    """Handles each message in the transaction that acknowledges it."""

    pause_seconds_max = SAFETY_POLL_SECONDS_MAX

    def __init__(
        self,
        store: Store,
        bus: Bus,
        *,
        source: str,
        holder: str,
        handle: HandleMessage,
        metrics: Metrics,
        messages_max: int = 50,
    ) -> None:
        self.name = f"consumer of {source}"
        self.channels = (channel(source),)
        self._store = store
        self._bus = bus
        self._source = source
        self._holder = holder
        self._handle = handle
        self._metrics = metrics
        self._messages_max = messages_max
        self._patience = Patience()
        self._is_store_away = False

    async def tick(self) -> float | None:
        if self._is_store_away:
            # Ask the store first: what is heard now would only be sent back to the broker.
            heard = LOOK
            deliveries = await self._receive(LOOK)
        else:
            async with self._bus.hearing(
                self._source, n=self._messages_max, wait_seconds=HEAR_SECONDS
            ) as heard:
                deliveries = await self._receive(heard)
        outcomes = await asyncio.gather(*(self._consume(delivery) for delivery in deliveries))
        for outcome in outcomes:
            self._metrics.consumed.labels(queue=self._source, outcome=outcome).inc()
        if not heard.look:
            # The waiting was done at the broker.
            return 0.0
        return self._patience.pause_seconds(found=len(deliveries), wanted=self._messages_max)

    async def _receive(self, heard: Heard) -> list[Delivery]:
        if heard.is_silence:
            return []
        self._is_store_away = True
        deliveries = await self._store.write(
            self._bus.receive,
            self._source,
            holder=self._holder,
            n=self._messages_max,
            heard=heard,
        )
        self._is_store_away = False
        return deliveries

    async def _consume(self, delivery: Delivery) -> str:
        try:
            await self._store.write(self.handle_and_ack, delivery)
        except LeaseLost:
            return "refused"
        except Unavailable as error:
            # The lock ends by itself and the message comes again.
            log.warning("a message waits for the store", error=str(error))
            return "refused"
        except Exception as error:
            log.error("a message failed", message=delivery.message_id, trace=error)
            await self._store.write(self._bus.nack, [delivery], error=_text(error))
            return "failed"
        return "done"

    async def handle_and_ack(self, tx: Tx, delivery: Delivery) -> None:
        """LeaseLost, and nothing recorded, when the message is not ours any more."""
        [verdict] = await self._bus.ack(tx, [delivery])
        if verdict is not Verdict.OK:
            raise LeaseLost(delivery.id, delivery.epoch, verdict)
        await self._handle(tx, delivery)


def _answers_in_order(items: list[Claimed], outcomes: Sequence[Outcome]) -> bool:
    """The usual case, which needs no looking up."""
    if not isinstance(outcomes, list) or len(outcomes) != len(items):
        return False
    return all(
        isinstance(outcome, Done | Failure) and outcome.lease is item
        for item, outcome in zip(items, outcomes, strict=True)
    )


def _text(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:
        # An error that cannot even say what it is.
        return type(error).__name__


def _label(outcome: Outcome, verdict: Verdict) -> str:
    if verdict is not Verdict.OK:
        return "refused"
    return "done" if isinstance(outcome, Done) else "failed"


def _places(outcomes: Sequence[Outcome], kind: type) -> list[int]:
    return [n for n, outcome in enumerate(outcomes) if isinstance(outcome, kind)]
