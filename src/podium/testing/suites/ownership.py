"""What any store must promise about ownership: who passes the gate writes alone.

P5: for each run at most one (owner, epoch) can change anything. P6: what lost its owner gets one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from podium.kernel.ownership import Owned, OwnedTable, Ownership
from podium.kernel.store import Row, Tx
from podium.testing.worlds import World

TABLE = """
create table runs (
    id text not null primary key,
    status text not null default 'open',
    owner_id text,
    owner_epoch int not null default 0,
    heartbeat_at {time},
    wake_at {time},
    note text,
    check ((wake_at is null) = (status = 'closed')));
create table steps (run_id text not null, name text not null);
"""


class Runs:
    """A domain's rows behind the gate."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.store = world.store
        self.ownership = Ownership(
            world.store.queries,
            OwnedTable("runs", owner="owner_id", epoch="owner_epoch"),
            orphan_seconds=120,
        )
        self._note = world.know("update runs set note = :note where id = :id")
        self._drop = world.know("delete from steps where run_id = :id")
        self._close = world.know("update runs set status = 'closed', wake_at = null where id = :id")

    async def add(self, *ids: str) -> None:
        for id in ids:
            await self.world.query(
                "insert into runs (id, wake_at) values (:id, podium_now())", id=id
            )
            await self.world.query("insert into steps (run_id, name) values (:id, 's')", id=id)

    async def take(self, owner: str, n: int = 10) -> list[Owned]:
        return sorted(await self.store.write(self.ownership.take, owner=owner, n=n))

    async def heartbeat(self, owner: str) -> list[Owned]:
        return sorted(await self.store.write(self.ownership.heartbeat, owner=owner))

    async def note(self, owner: str, runs: Sequence[Owned], note: str) -> set[str]:
        return await self.store.write(self.note_body, owner, runs, note)

    async def note_body(self, tx: Tx, owner: str, runs: Sequence[Owned], note: str) -> set[str]:
        allowed = await self.ownership.gate(tx, runs, owner=owner)
        for id in sorted(allowed):
            await tx.rows(self._note, id=id, note=note)
        return allowed

    async def drop_steps(self, owner: str, runs: Sequence[Owned]) -> set[str]:
        async def body(tx: Tx) -> set[str]:
            allowed = await self.ownership.gate(tx, runs, owner=owner)
            for id in sorted(allowed):
                await tx.rows(self._drop, id=id)
            return allowed

        return await self.store.write(body)

    async def close(self, owner: str, run: Owned) -> None:
        async def body(tx: Tx) -> None:
            for id in await self.ownership.gate(tx, [run], owner=owner):
                await tx.rows(self._close, id=id)

        await self.store.write(body)

    async def release(self, owner: str, run: Owned, seconds: float) -> set[str]:
        return await self.store.write(self.ownership.release, [(run, seconds)], owner=owner)

    async def takeover(self, *ids: str) -> list[Owned]:
        return sorted(await self.store.write(self.ownership.takeover, ids))

    async def row(self, id: str) -> Row:
        (row,) = await self.world.query("select * from runs where id = :id", id=id)
        return row


class OwnershipSuite:
    @pytest.fixture
    async def runs(self, world: World) -> Runs:
        await world.script(TABLE)
        return Runs(world)

    async def test_a_new_run_is_taken_once(self, runs: Runs) -> None:
        await runs.add("a", "b")
        assert await runs.take("one") == [Owned("a", 1), Owned("b", 1)]
        assert await runs.take("two") == []
        row = await runs.row("a")
        assert (row.owner_id, row.owner_epoch) == ("one", 1)
        assert row.heartbeat_at is not None

    async def test_no_more_are_taken_than_asked_for_when_statistics_are_old(
        self, world: World, runs: Runs
    ) -> None:
        """A planner that believes in one row may ask an inner query again for each that there is."""
        await world.script("create index runs_wake on runs (wake_at)")
        await runs.add("first")
        await world.script("analyze runs")
        await runs.add(*(f"later {n}" for n in range(20)))
        assert len(await runs.take("one", n=1)) == 1

    async def test_no_more_are_taken_than_asked_for_the_longest_waiting_first(
        self, world: World, runs: Runs
    ) -> None:
        for id in ("a", "b", "c"):
            await runs.add(id)
            await world.advance(1)
        assert await runs.take("one", n=2) == [Owned("a", 1), Owned("b", 1)]

    async def test_two_takers_never_get_the_same_run(self, runs: Runs) -> None:
        names = [f"{n:02}" for n in range(40)]
        await runs.add(*names)
        taken = await asyncio.gather(*(runs.take(f"owner {n}", n=5) for n in range(10)))
        got = [run.id for some in taken for run in some]
        assert len(got) == len(set(got))
        assert len(got) + len(await runs.take("last", n=100)) == 40

    async def test_an_owner_that_beats_is_not_robbed(self, world: World, runs: Runs) -> None:
        """P7."""
        await runs.add("a")
        mine = await runs.take("one")
        for _ in range(20):
            await world.advance(100)
            assert await runs.heartbeat("one") == mine
            assert await runs.take("two") == []
        assert await runs.note("one", mine, "still here") == {"a"}

    async def test_an_orphan_gets_a_new_owner(self, world: World, runs: Runs) -> None:
        """P6: found by the same question as a new run."""
        await runs.add("a")
        await runs.take("one")
        await world.advance(119)
        assert await runs.take("two") == []
        await world.advance(2)
        assert await runs.take("two") == [Owned("a", 2)]
        assert await runs.heartbeat("one") == []

    async def test_an_owner_that_was_paused_changes_nothing(self, world: World, runs: Runs) -> None:
        """P5: neither an update nor a delete of a stale owner gets through."""
        await runs.add("a")
        mine = await runs.take("one")
        await world.advance(121)
        theirs = await runs.take("two")
        assert await runs.note("one", mine, "late") == set()
        assert await runs.drop_steps("one", mine) == set()
        assert await runs.note("two", theirs, "new") == {"a"}
        assert (await runs.row("a")).note == "new"
        assert len(await runs.world.query("select * from steps")) == 1
        assert await runs.drop_steps("two", theirs) == {"a"}
        assert await runs.world.query("select * from steps") == []

    async def test_the_gate_lets_only_the_owner_through_and_only_under_its_epoch(
        self, runs: Runs
    ) -> None:
        await runs.add("a", "b", "c")
        mine = await runs.take("one")
        assert await runs.note("two", mine, "x") == set()
        assert await runs.note("one", [Owned("a", 0), Owned("b", 2)], "x") == set()
        stale = [Owned("a", 1), Owned("b", 9), Owned("nobody", 1), Owned("c", 1), Owned("c", 1)]
        assert await runs.note("one", stale, "x") == {"a", "c"}
        assert (await runs.row("b")).note is None

    async def test_one_name_at_two_boots_is_told_apart_by_the_epoch(
        self, world: World, runs: Runs
    ) -> None:
        await runs.add("a")
        before = await runs.take("one")
        await world.advance(121)
        after = await runs.take("one")
        assert await runs.note("one", before, "old") == set()
        assert await runs.note("one", after, "new") == {"a"}

    async def test_a_released_run_is_nobodys_until_it_is_due(
        self, world: World, runs: Runs
    ) -> None:
        await runs.add("a")
        (mine,) = await runs.take("one")
        called = runs.store.bell.listen(runs.ownership.channel)
        assert await runs.release("one", mine, 1_000) == {"a"}
        assert not await called.wait(0), "nobody is wanted for a long while"
        next_seconds = await runs.store.read(runs.ownership.next_wake)
        assert next_seconds == pytest.approx(1_000, abs=5)
        row = await runs.row("a")
        assert (row.owner_id, row.heartbeat_at, row.owner_epoch) == (None, None, 1)
        assert await runs.note("one", [mine], "late") == set()
        assert await runs.heartbeat("one") == []
        await world.advance(999)
        assert await runs.take("two") == []
        await world.advance(2)
        assert await runs.take("two") == [Owned("a", 2)]

    async def test_only_the_owner_can_release(self, runs: Runs) -> None:
        await runs.add("a")
        (mine,) = await runs.take("one")
        assert await runs.release("two", mine, 10) == set()
        assert await runs.release("one", Owned("a", 0), 10) == set()
        assert (await runs.row("a")).owner_id == "one"

    async def test_a_takeover_shuts_the_owner_out_and_calls_for_a_new_one(self, runs: Runs) -> None:
        await runs.add("a", "b")
        mine = await runs.take("one")
        rung = runs.store.bell.listen(runs.ownership.channel)
        assert await runs.takeover("a") == [Owned("a", 2)]
        assert await rung.wait(0)
        assert await runs.note("one", mine, "late") == {"b"}
        assert await runs.release("one", mine[0], 10) == set()
        assert await runs.heartbeat("one") == [Owned("b", 1)]
        assert await runs.take("two") == [Owned("a", 3)]

    async def test_a_takeover_works_on_a_run_without_an_owner(self, runs: Runs) -> None:
        await runs.add("a")
        assert await runs.takeover("a", "a", "nobody") == [Owned("a", 1)]
        assert await runs.take("one") == [Owned("a", 2)]

    async def test_what_is_closed_is_never_touched_again(self, world: World, runs: Runs) -> None:
        await runs.add("a")
        (mine,) = await runs.take("one")
        await runs.close("one", mine)
        await world.advance(1_000_000)
        assert await runs.take("two") == []
        assert await runs.takeover("a") == []
        assert await runs.heartbeat("one") == []
        assert await runs.note("one", [mine], "late") == set()
        assert await runs.release("one", mine, 10) == set()
        assert (await runs.row("a")).status == "closed"
