from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest

from podium.engine import BusConsumer, WorkConsumer
from podium.engine.consumer import Outcome
from podium.kernel.bus import Delivery, Message, SqlBus
from podium.kernel.errors import CommitUnknown
from podium.kernel.store import Body, P, R, Tx
from podium.kernel.telemetry import Metrics
from podium.kernel.work import Claimed, Done, Failure, Lease
from podium.testing.desk import Desk, Q, item
from tests.engine.conftest import sample
from tests.worlds import SQLiteWorld

Handle = Callable[[list[Claimed]], Awaitable[Sequence[Outcome]]]
DEADLINE_SECONDS = 5.0


async def succeed(items: list[Claimed]) -> list[Outcome]:
    return [Done(it, {"seen": it.id}) for it in items]


@pytest.fixture
def consumer(desk: Desk, metrics: Metrics) -> Callable[[Handle], WorkConsumer]:
    def make(handle: Handle) -> WorkConsumer:
        return WorkConsumer(
            desk.store, desk.work, queue=Q, holder="here", handle=handle, metrics=metrics
        )

    return make


async def test_a_round_claims_handles_and_completes(
    desk: Desk, consumer: Callable[[Handle], WorkConsumer], metrics: Metrics
) -> None:
    await desk.add("a", "b")
    await consumer(succeed).tick()
    assert (await desk.finished("b")).result == '{"seen":"b"}'
    assert sample(metrics, "podium_consumed_total", queue=Q, outcome="done") == 2


async def test_an_empty_queue_is_looked_at_less_and_less_often(
    desk: Desk, consumer: Callable[[Handle], WorkConsumer]
) -> None:
    idle = consumer(succeed)
    pauses = [await idle.tick() for _ in range(3)]
    assert pauses == [1.0, 1.5, 2.25]
    await desk.add("a")
    assert [await idle.tick(), await idle.tick()] == [1.0, 1.5]


async def test_a_full_round_is_followed_by_the_next_at_once(
    desk: Desk, consumer: Callable[[Handle], WorkConsumer]
) -> None:
    await desk.enqueue(*(item(f"{n}") for n in range(150)))
    busy = consumer(succeed)
    assert [await busy.tick(), await busy.tick()] == [0.0, 1.0]


async def test_one_list_may_end_in_both_ways(
    desk: Desk, consumer: Callable[[Handle], WorkConsumer]
) -> None:
    async def handle(items: list[Claimed]) -> list[Outcome]:
        return [Failure(it, "bad", retryable=False) if it.id == "b" else Done(it) for it in items]

    await desk.add("a", "b", "c")
    await consumer(handle).tick()
    assert [await desk.state(id) for id in "abc"] == ["done", "dead", "done"]


@pytest.mark.parametrize(
    "poison", [Done(Lease("50", 1), "a\0b"), Failure(Lease("50", 1), "x", delay_seconds=-1)]
)
async def test_one_result_that_cannot_be_stored_fails_its_own_item_only(
    desk: Desk, consumer: Callable[[Handle], WorkConsumer], poison: Outcome
) -> None:
    async def handle(items: list[Claimed]) -> list[Outcome]:
        return [poison if it.id == "50" else Done(it) for it in items]

    await desk.enqueue(*(item(f"{n:02}") for n in range(100)))
    await consumer(handle).tick()
    assert await desk.state("50") == "dead"
    assert "cannot be stored" in (await desk.finished("50")).error
    assert {await desk.state(f"{n:02}") for n in range(100) if n != 50} == {"done"}


@pytest.mark.parametrize("error", [RuntimeError("boom"), TimeoutError(), asyncio.CancelledError()])
async def test_a_handler_that_raises_fails_its_items(
    desk: Desk, consumer: Callable[[Handle], WorkConsumer], error: BaseException
) -> None:
    async def handle(_: list[Claimed]) -> list[Outcome]:
        raise error

    await desk.add("a")
    await consumer(handle).tick()
    row = await desk.live("a")
    assert row.state == "scheduled"
    assert type(error).__name__ in row.error


async def test_leases_are_renewed_while_a_handler_works(
    world: SQLiteWorld, desk: Desk, consumer: Callable[[Handle], WorkConsumer]
) -> None:
    renewed = asyncio.Event()
    before = desk.work.renew

    async def renew(tx: Tx, leases: Sequence[Claimed]) -> object:
        renewed.set()
        return await before(tx, leases)

    desk.work.renew = renew  # type: ignore[method-assign, assignment]

    async def handle(items: list[Claimed]) -> list[Outcome]:
        await renewed.wait()
        return [Done(it) for it in items]

    await desk.enqueue(item("a", lease_seconds=0.03))
    async with asyncio.timeout(DEADLINE_SECONDS):
        await consumer(handle).tick()
    assert await desk.state("a") == "done"


async def test_a_handler_whose_items_were_cancelled_is_stopped(
    desk: Desk, consumer: Callable[[Handle], WorkConsumer]
) -> None:
    stopped = asyncio.Event()

    async def handle(_: list[Claimed]) -> list[Outcome]:
        await desk.cancel("a")
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        raise AssertionError("not reached")

    await desk.enqueue(item("a", lease_seconds=0.03))
    async with asyncio.timeout(DEADLINE_SECONDS):
        await consumer(handle).tick()
        await stopped.wait()
    assert await desk.state("a") == "cancelled"


async def test_a_consumer_that_is_stopped_gives_its_items_back(
    desk: Desk, consumer: Callable[[Handle], WorkConsumer]
) -> None:
    begun = asyncio.Event()

    async def handle(_: list[Claimed]) -> list[Outcome]:
        begun.set()
        await asyncio.Event().wait()
        raise AssertionError("not reached")

    await desk.add("a")
    round = asyncio.create_task(consumer(handle).tick())
    await begun.wait()
    round.cancel()
    with pytest.raises(asyncio.CancelledError):
        await round
    row = await desk.live("a")
    assert (row.state, row.attempts) == ("ready", 0)


async def test_a_result_whose_commit_is_unknown_is_written_again(
    desk: Desk, metrics: Metrics
) -> None:
    class Forgetful:
        """Commits, and then says that it does not know."""

        queries, bell = desk.store.queries, desk.store.bell
        lost = 0

        async def write(self, body: Body[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
            result = await desk.store.write(body, *args, **kwargs)
            if body.__name__ == "_settle_all" and self.lost < 2:
                self.lost += 1
                raise CommitUnknown("the answer was lost")
            return result

    store = Forgetful()
    await desk.add("a")
    await WorkConsumer(
        store,  # type: ignore[arg-type]
        desk.work,
        queue=Q,
        holder="here",
        handle=succeed,
        metrics=metrics,
    ).tick()
    assert store.lost == 2
    assert await desk.state("a") == "done"
    assert await desk.story("a") == ["done"]


@pytest.fixture
def bus(world: SQLiteWorld) -> SqlBus:
    return world.bus()


async def test_a_message_is_handled_and_acknowledged_in_one_transaction(
    world: SQLiteWorld, bus: SqlBus, metrics: Metrics
) -> None:
    await world.script("create table seen (id text primary key)")
    note = world.know("insert into seen (id) values (:id)")

    async def handle(tx: Tx, delivery: Delivery) -> None:
        await tx.rows(note, id=delivery.message_id)
        if delivery.body == "bad":
            raise ValueError("cannot be read")

    await world.store.write(bus.send, "in", [Message("good", id="1"), Message("bad", id="2")])
    consumer = BusConsumer(
        world.store, bus, source="in", holder="here", handle=handle, metrics=metrics
    )
    await consumer.tick()
    assert [row.id for row in await world.query("select id from seen")] == ["1"]
    assert sample(metrics, "podium_consumed_total", queue="in", outcome="failed") == 1
    [waiting] = await world.query("select state, error from work")
    assert (waiting.state, waiting.error) == ("scheduled", "ValueError: cannot be read")


async def test_a_message_whose_lock_was_lost_records_nothing(
    world: SQLiteWorld, bus: SqlBus, metrics: Metrics
) -> None:
    async def handle(tx: Tx, delivery: Delivery) -> None:
        raise AssertionError("it is not ours: it must not be handled")

    consumer = BusConsumer(
        world.store, bus, source="in", holder="here", handle=handle, metrics=metrics
    )
    await world.store.write(bus.send, "in", [Message("x", id="1")])
    [delivery] = await world.store.write(bus.receive, "in", holder="here")
    await world.advance(61)
    assert await consumer._consume(delivery) == "refused"
