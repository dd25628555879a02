"""PostgreSQL gone, slow, full of others, or silent at the worst moment: nothing is lost or doubled."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest

from podium.backends.postgres import PostgresStore
from podium.contracts.errors import Code
from podium.kernel.errors import CommitUnknown, PodiumError, Unavailable
from podium.kernel.migrate import KERNEL, migrate
from podium.kernel.store import Tx
from podium.testing.servers import postgres
from tests.conformance.wire import Loss, Wire, wire_to
from tests.worlds import postgres_store

TABLE = "create table notes (id text not null)"


class Notes:
    """Counts how often its body ran, and how many rows that made."""

    def __init__(self, store: PostgresStore) -> None:
        self.store = store
        self.runs = 0
        store.queries.add("notes.add", "insert into notes (id) values (:id)")
        store.queries.add("notes.count", "select count(*) as count from notes")

    async def add(self, tx: Tx, id: str) -> int:
        self.runs += 1
        await tx.rows("notes.add", id=id)
        tx.ring("notes")
        return self.runs

    async def count(self) -> int:
        return int((await self.store.read(count_body))[0].count)


async def count_body(tx: Tx) -> Any:
    return await tx.rows("notes.count")


async def make_table(tx: Tx) -> None:
    await tx.script(TABLE)


@asynccontextmanager
async def notes_at(url: str, **settings: Any) -> AsyncIterator[Notes]:
    store = postgres_store(url, **settings)
    await store.open()
    try:
        yield Notes(store)
    finally:
        await store.close()


@pytest.fixture
async def notes(migrated_url: str) -> AsyncIterator[Notes]:
    async with notes_at(migrated_url) as notes:
        await notes.store.write(make_table)
        yield notes


@pytest.fixture
async def wired(migrated_url: str, notes: Notes) -> AsyncIterator[tuple[Wire, Notes]]:
    port = int(re.findall(r":(\d+)/", migrated_url)[0])
    async with wire_to(port) as (wire, wire_port):
        url = migrated_url.replace(f":{port}/", f":{wire_port}/")
        async with notes_at(url, patience_seconds=1.0) as wired:
            yield wire, wired


class TestLostCommits:
    async def test_a_commit_whose_answer_is_lost_happened_once(
        self, wired: tuple[Wire, Notes]
    ) -> None:
        wire, notes = wired
        rung = notes.store.bell.listen("notes")
        wire.next_loss = Loss.ANSWER
        assert await notes.store.write(notes.add, "a") == 1, "the answer of the run that counted"
        assert (notes.runs, await notes.count()) == (1, 1)
        assert await rung.wait(0), "and its bells"

    async def test_a_commit_that_was_lost_is_done_again(self, wired: tuple[Wire, Notes]) -> None:
        wire, notes = wired
        wire.next_loss = Loss.REQUEST
        assert await notes.store.write(notes.add, "a") == 2
        assert await notes.count() == 1

    async def test_many_writers_with_many_losses_all_land_once(
        self, wired: tuple[Wire, Notes]
    ) -> None:
        wire, notes = wired
        for n in range(12):
            wire.next_loss = (Loss.ANSWER, Loss.REQUEST, Loss.NOTHING)[n % 3]
            await asyncio.gather(*(notes.store.write(notes.add, f"{n}.{m}") for m in range(3)))
        assert await notes.count() == 36

    @pytest.mark.parametrize("loss", [Loss.ANSWER, Loss.REQUEST], ids=lambda loss: loss.name)
    async def test_what_cannot_be_found_out_is_said_so(
        self, wired: tuple[Wire, Notes], loss: Loss
    ) -> None:
        wire, notes = wired
        wire.next_loss, wire.stays_cut = loss, True
        with pytest.raises(CommitUnknown) as refused:
            await notes.store.write(notes.add, "a")
        assert refused.value.code == Code.SERVICE_UNAVAILABLE
        wire.is_cut = False
        assert await notes.count() == (1 if loss is Loss.ANSWER else 0)


class TestSessionsThatEnd:
    async def test_a_body_whose_connection_dies_is_run_again(self, notes: Notes) -> None:
        notes.store.queries.add("notes.die", "select pg_terminate_backend(pg_backend_pid())")

        async def die_once(tx: Tx) -> int:
            run = await notes.add(tx, "a")
            if run == 1:
                await tx.rows("notes.die")
            return run

        assert await notes.store.write(die_once) == 2
        assert await notes.count() == 1

    async def test_the_bell_line_is_taken_up_again(self, migrated_url: str, notes: Notes) -> None:
        async with notes_at(migrated_url) as other:
            rung = other.store.bell.listen("notes")
            with psycopg.connect(migrated_url, autocommit=True) as eye:
                eye.execute(
                    "select pg_terminate_backend(pid) from pg_stat_activity"
                    " where application_name = 'podium-listen'"
                )
            assert await rung.wait(10), "everybody is woken: something may have been missed"
            # The other line may still be away: what rings now may be lost, and is rung again.
            for n in range(20):
                await notes.store.write(notes.add, str(n))
                if await rung.wait(0.5):
                    return
            raise AssertionError("no bell is heard any more")

    async def test_a_deadlock_is_settled_by_running_one_of_them_again(self, notes: Notes) -> None:
        for id in ("a", "b"):
            await notes.store.write(notes.add, id)
        notes.store.queries.add("notes.lock", "select id from notes where id = :id for update")
        met = asyncio.Barrier(2)
        runs: list[str] = []

        async def cross(tx: Tx, first: str, second: str) -> str:
            await tx.script("set local deadlock_timeout = '20ms'")
            runs.append(first)
            await tx.rows("notes.lock", id=first)
            if runs.count(first) == 1:
                await met.wait()
            await tx.rows("notes.lock", id=second)
            return first

        answers = await asyncio.gather(
            notes.store.write(cross, "a", "b"), notes.store.write(cross, "b", "a")
        )
        assert sorted(answers) == ["a", "b"]
        assert len(runs) == 3

    async def test_a_body_that_takes_too_long_is_refused_with_a_code(
        self, migrated_url: str, notes: Notes
    ) -> None:
        async def sleep(tx: Tx) -> None:
            await notes.add(tx, "a")
            await tx.script("set local statement_timeout = '50ms'")
            await tx.rows("notes.sleep")

        async with notes_at(migrated_url, patience_seconds=0.3) as hasty:
            hasty.store.queries.add("notes.sleep", "select pg_sleep(20)")
            with pytest.raises(PodiumError) as refused:
                await hasty.store.write(sleep)
            assert isinstance(refused.value, Unavailable)
            assert await hasty.count() == 0

    async def test_a_body_that_does_nothing_for_too_long_is_refused_with_a_code(
        self, migrated_url: str, notes: Notes
    ) -> None:
        notes.store.queries.add("notes.pid", "select pg_backend_pid() as pid")

        async def dawdle(tx: Tx) -> None:
            await tx.script("set local idle_in_transaction_session_timeout = '20ms'")
            pid = (await tx.rows("notes.pid"))[0].pid
            with psycopg.connect(migrated_url, autocommit=True) as eye:
                while eye.execute("select 1 from pg_stat_activity where pid = %s", (pid,)).rowcount:
                    pass
            await notes.add(tx, "a")

        with pytest.raises(Unavailable):
            await notes.store.write(dawdle)
        assert await notes.count() == 0

    async def test_a_lock_that_takes_too_long_is_refused_with_a_code(self, notes: Notes) -> None:
        held, done = asyncio.Event(), asyncio.Event()

        async def hold(tx: Tx) -> None:
            await tx.script("lock table notes in exclusive mode")
            held.set()
            await done.wait()

        async def wait(tx: Tx) -> None:
            await tx.script("set local lock_timeout = '50ms'")
            await notes.add(tx, "a")

        holder = asyncio.create_task(notes.store.write(hold))
        await held.wait()
        with pytest.raises(Unavailable):
            await notes.store.write(wait)
        done.set()
        await holder
        assert await notes.count() == 0


class TestThePool:
    async def test_many_writers_share_few_connections(
        self, migrated_url: str, notes: Notes
    ) -> None:
        async with notes_at(migrated_url, connections_max=2) as few:
            await asyncio.gather(*(few.store.write(few.add, str(n)) for n in range(60)))
            assert await few.count() == 60

    async def test_a_writer_that_gets_no_connection_is_told_so(
        self, migrated_url: str, notes: Notes
    ) -> None:
        held, done = asyncio.Event(), asyncio.Event()

        async def hold(tx: Tx) -> None:
            held.set()
            await done.wait()

        async with notes_at(migrated_url, connections_max=1, patience_seconds=0.3) as few:
            holder = asyncio.create_task(few.store.write(hold))
            await held.wait()
            with pytest.raises(Unavailable) as refused:
                await few.store.write(few.add, "a")
            assert refused.value.code == Code.SERVICE_UNAVAILABLE
            done.set()
            await holder
            await few.store.write(few.add, "b")
            assert await few.count() == 1


async def test_a_server_that_nobody_answers_at_is_refused_at_once(unused_port: int) -> None:
    url = f"postgresql://postgres@127.0.0.1:{unused_port}/postgres"
    store = postgres_store(url, patience_seconds=0.2)
    with pytest.raises(Unavailable):
        await store.open()


@pytest.fixture
def unused_port() -> int:
    from podium.testing.servers import free_port

    return free_port()


async def test_a_server_that_is_killed_loses_nothing_and_is_waited_for() -> None:
    """P1: what was acknowledged survives; what is written meanwhile waits, or is refused in time."""
    with postgres() as server:
        async with notes_at(server.url, patience_seconds=30.0) as notes:
            await migrate(notes.store, [KERNEL])
            await notes.store.write(make_table)
            await notes.store.write(notes.add, "before")
            async with notes_at(server.url, patience_seconds=0.3) as hasty:
                server.kill()
                waiting = asyncio.create_task(notes.store.write(notes.add, "during"))
                with pytest.raises(Unavailable) as refused:
                    await hasty.store.write(hasty.add, "too early")
                assert not isinstance(refused.value, CommitUnknown)
                assert refused.value.code == Code.SERVICE_UNAVAILABLE
                with pytest.raises(Unavailable):
                    await hasty.count()
                assert not waiting.done()
                server.start()
                await asyncio.wait_for(waiting, 30)
                await notes.store.write(notes.add, "after")
                assert await notes.count() == 3
                await asyncio.wait_for(until_it_works(hasty), 30)


async def until_it_works(notes: Notes) -> None:
    while True:
        try:
            await notes.store.write(notes.add, "again")
        except Unavailable:
            continue
        return
