"""What any store must promise about transactions.

A body may run more than once, so each test's body only awaits its `tx`; what the world outside
sees of it is what was committed.
"""

from __future__ import annotations

import asyncio

import pytest

from podium.kernel.errors import ConstraintViolated, PodiumError
from podium.kernel.store import Row, Tx, now, write_in_chunks
from podium.testing.worlds import SharedWorld, World

ADD = "insert into notes (id, text) values (:id, :text)"
ALL = "select id, text from notes order by id"
LIST = "insert into notes (id, text) select i.id, i.text from :items(id text, text text) i returning id"


class Boom(Exception):
    pass


class Notes:
    """A table to write in, and bodies that do."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.store = world.store
        self.add_query, self.all_query = world.know(ADD), world.know(ALL)
        self.list_query = world.know(LIST)

    async def add(self, tx: Tx, *ids: str) -> str:
        for id in ids:
            await tx.rows(self.add_query, id=id, text=f"text of {id}")
            tx.ring(f"note:{id}")
        return "+".join(ids)

    async def add_and_fail(self, tx: Tx, *ids: str) -> None:
        await self.add(tx, *ids)
        raise Boom

    async def add_list(self, tx: Tx, ids: list[str]) -> list[str]:
        rows = await tx.rows(self.list_query, items=[(id, id) for id in ids])
        return [row.id for row in rows]

    async def all(self, tx: Tx) -> list[Row]:
        return await tx.rows(self.all_query)

    async def ids(self) -> list[str]:
        return [row.id for row in await self.store.read(self.all)]


class NotesSuite:
    @pytest.fixture
    async def notes(self, world: World) -> Notes:
        await world.script("create table notes (id text not null primary key, text text)")
        return Notes(world)


class StoreSuite(NotesSuite):
    async def test_what_was_written_is_read(self, world: World, notes: Notes) -> None:
        assert await world.store.write(notes.add, "a", "b") == "a+b"
        assert await world.store.read(notes.all) == [("a", "text of a"), ("b", "text of b")]
        assert await world.store.read_long(notes.all) == [("a", "text of a"), ("b", "text of b")]

    async def test_a_body_that_fails_leaves_nothing(self, world: World, notes: Notes) -> None:
        with pytest.raises(Boom):
            await world.store.write(notes.add_and_fail, "a", "b")
        assert await notes.ids() == []

    async def test_a_body_that_fails_is_rolled_back_alone(self, world: World, notes: Notes) -> None:
        """Neighbours may share its commit; they do not share its fate."""
        outcomes = await asyncio.gather(
            world.store.write(notes.add, "a"),
            world.store.write(notes.add_and_fail, "b"),
            world.store.write(notes.add, "c"),
            world.store.write(notes.add_and_fail, "d", "e"),
            world.store.write(notes.add, "f"),
            return_exceptions=True,
        )
        assert [type(outcome) for outcome in outcomes] == [str, Boom, str, Boom, str]
        assert await notes.ids() == ["a", "c", "f"]

    async def test_a_row_that_the_database_refuses_is_a_conflict(
        self, world: World, notes: Notes
    ) -> None:
        await world.store.write(notes.add, "a")
        with pytest.raises(ConstraintViolated):
            await world.store.write(notes.add, "b", "a")
        assert await notes.ids() == ["a"]

    async def test_a_body_that_swallows_a_refusal_is_not_committed(
        self, world: World, notes: Notes
    ) -> None:
        """One store would lose what it wrote and another keep it; so nobody acknowledges it."""

        async def careless(tx: Tx) -> None:
            await notes.add(tx, "b")
            try:
                await notes.add(tx, "a")
            except ConstraintViolated:
                pass

        await world.store.write(notes.add, "a")
        with pytest.raises(ConstraintViolated):
            await world.store.write(careless)
        assert await notes.ids() == ["a"]
        await world.store.write(notes.add, "c")
        assert await notes.ids() == ["a", "c"]

    async def test_bells_ring_after_the_commit(self, world: World, notes: Notes) -> None:
        rung: list[tuple[str, int | None]] = []
        world.store.bell.watch(lambda channel, hint: rung.append((channel, hint)))

        async def body(tx: Tx) -> None:
            tx.ring("x", 3)
            await notes.add(tx, "a")
            assert rung == []

        await world.store.write(body)
        assert rung == [("x", 3), ("note:a", None)]

    async def test_bells_do_not_ring_for_what_was_rolled_back(
        self, world: World, notes: Notes
    ) -> None:
        rung: list[str] = []
        world.store.bell.watch(lambda channel, hint: rung.append(channel))
        await asyncio.gather(
            world.store.write(notes.add, "a"),
            world.store.write(notes.add_and_fail, "b"),
            world.store.write(notes.add, "c"),
            return_exceptions=True,
        )
        assert sorted(rung) == ["note:a", "note:c"]

    async def test_bells_do_not_ring_for_a_read(self, world: World, notes: Notes) -> None:
        rung = world.store.bell.listen("x")

        async def body(tx: Tx) -> None:
            tx.ring("x")

        await world.store.read(body)
        await world.store.write(notes.add, "a")
        assert not await rung.wait(0)

    async def test_a_read_cannot_write(self, world: World, notes: Notes) -> None:
        for read in (world.store.read, world.store.read_long):
            with pytest.raises(PodiumError):
                await read(notes.add, "a")
        assert await notes.ids() == []
        await world.store.write(notes.add, "b")
        assert await notes.ids() == ["b"]

    async def test_a_read_passes_the_errors_of_its_body_on(self, world: World) -> None:
        async def body(tx: Tx) -> None:
            raise Boom

        for read in (world.store.read, world.store.read_long):
            with pytest.raises(Boom):
                await read(body)

    async def test_fifty_writers_at_once_all_land(self, world: World, notes: Notes) -> None:
        names = [f"{n:03}" for n in range(50)]
        answers = await asyncio.gather(*(world.store.write(notes.add, name) for name in names))
        assert answers == names
        assert await notes.ids() == names

    async def test_readers_see_whole_transactions_while_others_write(
        self, world: World, notes: Notes
    ) -> None:
        async def write(n: int) -> None:
            await world.store.write(notes.add, f"{n:02}a", f"{n:02}b")

        async def read() -> int:
            return len(await world.store.read(notes.all))

        answers = await asyncio.gather(*(write(n) if n % 2 else read() for n in range(40)))
        assert all(count % 2 == 0 for count in answers if count is not None)

    async def test_a_caller_that_gave_up_leaves_all_or_nothing(
        self, world: World, notes: Notes
    ) -> None:
        tasks = [
            asyncio.create_task(world.store.write(notes.add, f"{n}a", f"{n}b")) for n in range(6)
        ]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await world.store.write(notes.add, "last")
        ids = await notes.ids()
        assert {"1a", "1b", "3a", "3b", "5a", "5b", "last"} <= set(ids)
        for n in "024":
            assert (f"{n}a" in ids) == (f"{n}b" in ids)

    async def test_a_list_is_one_statement_with_an_answer_per_row(
        self, world: World, notes: Notes
    ) -> None:
        names = [f"{n:04}" for n in range(2_000)]
        assert sorted(await world.store.write(notes.add_list, names)) == names
        assert await world.store.write(notes.add_list, []) == []

    async def test_a_long_list_is_written_in_chunks_and_answered_in_order(
        self, world: World, notes: Notes
    ) -> None:
        names = [f"{n:04}" for n in range(25)]
        assert sorted(await write_in_chunks(world.store, notes.add_list, names, 10)) == names  # type: ignore[arg-type]

    async def test_an_unknown_query_is_named(self, world: World) -> None:
        with pytest.raises(LookupError, match="no_such"):
            await world.store.write(run, "no_such.query")

    async def test_parameters_must_be_exactly_those_of_the_query(
        self, world: World, notes: Notes
    ) -> None:
        with pytest.raises(TypeError, match="text"):
            await world.store.write(run, notes.add_query, id="a")
        with pytest.raises(TypeError, match="extra"):
            await world.store.write(run, notes.add_query, id="a", text="b", extra="c")
        assert await notes.ids() == []

    async def test_the_clock_of_the_database_follows_the_world(self, world: World) -> None:
        before = await world.store.read(now)
        await world.advance(3_600)
        after = await world.store.write(now)
        assert before.tzinfo is not None
        assert 3_600 <= (after - before).total_seconds() < 3_660

    async def test_all_rows_of_a_statement_have_one_time(self, world: World) -> None:
        rows = await world.query(
            "select podium_now() as x_at from :items(n int) i", items=[(n,) for n in range(500)]
        )
        assert len({row.x_at for row in rows}) == 1

    async def test_a_migration_that_fails_leaves_nothing(self, world: World) -> None:
        with pytest.raises(Exception, match="nowhere"):
            await world.script("create table half (id text); insert into nowhere values (1);")
        await world.script("create table half (id text);")


class SharedStoreSuite(NotesSuite):
    async def test_a_read_is_one_snapshot(self, world: SharedWorld, notes: Notes) -> None:
        other = await world.another_store()

        async def look_twice(tx: Tx) -> tuple[int, int]:
            before = len(await notes.all(tx))
            await other.write(notes.add, f"written after {before}")
            return before, len(await notes.all(tx))

        # A store may have to see once that a body looks twice; then it runs it once, and in one.
        for _ in range(2):
            before, after = await world.store.read(look_twice)
            assert before == after
        assert len(await notes.ids()) == before + 1

    async def test_a_write_is_seen_by_the_other_store_when_it_returns(
        self, world: SharedWorld, notes: Notes
    ) -> None:
        other = await world.another_store()
        for n in range(20):
            await world.store.write(notes.add, str(n))
            assert len(await other.read(notes.all)) == n + 1

    async def test_a_bell_is_heard_in_the_other_process_with_the_lowest_hint(
        self, world: SharedWorld
    ) -> None:
        other = await world.another_store()
        heard: list[tuple[str, int | None]] = []
        here = world.store.bell.listen("x", "y")
        there = other.bell.listen("y")
        other.bell.watch(lambda channel, hint: heard.append((channel, hint)))

        async def ring(tx: Tx) -> None:
            tx.ring("x", 7)
            tx.ring("x", 5)
            tx.ring("y")

        await world.store.write(ring)
        assert await here.wait(0)
        assert await there.wait(5)
        assert heard == [("x", 5), ("y", None)]

    async def test_many_bells_with_long_names_all_arrive(self, world: SharedWorld) -> None:
        other = await world.another_store()
        names = ["ü" * 100 + str(n) for n in range(150)]
        listeners = [other.bell.listen(name) for name in names]

        async def ring_all(tx: Tx) -> None:
            for name in names:
                tx.ring(name, 1)

        await world.store.write(ring_all)
        assert all([await listener.wait(5) for listener in listeners])


async def run(tx: Tx, query: str, /, **params: object) -> list[Row]:
    return await tx.rows(query, **params)
