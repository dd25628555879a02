"""What any store must promise about the journal: everything in order, nothing passed over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from podium.kernel import journal
from podium.kernel.errors import Invalid
from podium.kernel.journal import Event, Line, Position
from podium.kernel.store import Store, Tx
from podium.testing.worlds import SharedWorld, World

START = Position()


async def note(store: Store, *ids: str, kind: str = "run") -> None:
    """One line for each id, all in one transaction."""
    await store.write(journal.append, [Event(kind, id, f"saw {id}") for id in ids])


async def tail(store: Store, after: Position = START, n: int = 1_000) -> list[Line]:
    return await store.read(journal.tail, after=after, n=n)


def ids(lines: list[Line]) -> list[str]:
    return [line.aggregate_id for line in lines]


async def next_ids(lines: AsyncIterator[Line], count: int) -> list[str]:
    async with asyncio.timeout(10):
        return [(await anext(lines)).aggregate_id for _ in range(count)]


class JournalSuite:
    async def test_a_line_says_what_happened(self, world: World) -> None:
        event = Event("run", "r1", "started", "me", 7, "because", {"x": [1, "ü"]})
        await world.store.write(journal.append, [event])
        (line,) = await world.store.read(journal.read, "run", "r1")
        assert (line.kind, line.aggregate_id, line.event) == ("run", "r1", "started")
        assert (line.actor, line.epoch, line.reason) == ("me", 7, "because")
        assert line.data == '{"x":[1,"ü"]}'
        assert line.happened_at.tzinfo is not None

    async def test_the_lines_of_one_aggregate_are_in_order(self, world: World) -> None:
        for n in range(5):
            events = [Event("run", "a", f"{n}.{m}") for m in range(3)]
            await world.store.write(journal.append, [*events, Event("run", "b", "noise")])
        await note(world.store, "a", kind="other")
        lines = await world.store.read(journal.read, "run", "a")
        assert [line.event for line in lines] == [f"{n}.{m}" for n in range(5) for m in range(3)]

    async def test_an_aggregate_is_read_in_pages(self, world: World) -> None:
        for n in range(5):
            await world.store.write(journal.append, [Event("run", "a", str(n))])
        first = await world.store.read(journal.read, "run", "a", n=3)
        rest = await world.store.read(journal.read, "run", "a", after=first[-1].position, n=3)
        assert [line.event for line in [*first, *rest]] == list("01234")

    async def test_a_line_is_there_if_and_only_if_its_change_is(self, world: World) -> None:
        async def append_and_fail(tx: Tx) -> None:
            await journal.append(tx, [Event("run", "a", "never")])
            raise RuntimeError

        with pytest.raises(RuntimeError):
            await world.store.write(append_and_fail)
        await note(world.store, "b")
        assert ids(await tail(world.store)) == ["b"]

    async def test_all_lines_are_read_in_pages_each_once(self, world: World) -> None:
        for n in range(7):
            await note(world.store, f"{n}a", f"{n}b")
        seen: list[str] = []
        after = Position()
        while page := await tail(world.store, after, n=3):
            seen += ids(page)
            after = page[-1].position
        assert seen == [f"{n}{part}" for n in range(7) for part in "ab"]

    async def test_the_end_is_before_everything_that_comes(self, world: World) -> None:
        assert await tail(world.store, await world.store.read(journal.end)) == []
        await note(world.store, "old")
        end = await world.store.read(journal.end)
        await note(world.store, "new")
        assert ids(await tail(world.store, end)) == ["new"]

    async def test_a_follower_is_woken_by_each_commit(self, world: World) -> None:
        await note(world.store, "a", "b")
        async with aclosing(journal.follow(world.store, n=2)) as lines:
            assert await next_ids(lines, 2) == ["a", "b"]
            waiting = asyncio.create_task(next_ids(lines, 1))
            await asyncio.sleep(0)
            await note(world.store, "c")
            assert await waiting == ["c"]

    async def test_concurrent_writers_are_followed_without_a_gap(self, world: World) -> None:
        async with aclosing(journal.follow(world.store)) as lines:
            names = [f"{n:02}" for n in range(40)]
            writers = [asyncio.create_task(note(world.store, name)) for name in names]
            seen = await next_ids(lines, 40)
            await asyncio.gather(*writers)
        assert sorted(seen) == names

    async def test_what_is_old_is_forgotten_a_piece_at_a_time(self, world: World) -> None:
        for n in range(3):
            await note(world.store, str(n))
        await world.advance(60 * 86_400)
        await note(world.store, "new")
        while await world.store.write(journal.prune, keep_seconds=30 * 86_400.0, n=2):
            pass
        assert ids(await tail(world.store)) == ["new"]

    async def test_what_is_young_is_kept(self, world: World) -> None:
        await note(world.store, "a")
        await world.advance(86_400)
        await world.store.write(journal.prune, keep_seconds=30 * 86_400.0)
        await note(world.store, "b")
        assert ids(await tail(world.store)) == ["a", "b"]

    async def test_the_journal_outlives_many_weeks_of_tending(self, world: World) -> None:
        for week in range(8):
            await world.store.write(journal.prune, keep_seconds=21 * 86_400.0)
            await note(world.store, str(week))
            await world.advance(7 * 86_400)
        await world.store.write(journal.prune, keep_seconds=21 * 86_400.0)
        kept = ids(await tail(world.store))
        assert kept[-3:] == ["5", "6", "7"]
        assert "0" not in kept

    async def test_a_line_that_cannot_be_kept_is_refused(self, world: World) -> None:
        with pytest.raises(Invalid):
            await world.store.write(journal.append, [Event("run", "a", "x", data="\0")])
        assert await tail(world.store) == []


class SharedJournalSuite:
    async def test_a_line_that_commits_late_is_not_passed_over(self, world: SharedWorld) -> None:
        """Its number was drawn first; whoever follows must still see it, and see it once."""
        other = await world.another_store()
        drawn, may_commit = asyncio.Event(), asyncio.Event()

        async def late(tx: Tx) -> None:
            await journal.append(tx, [Event("run", "late", "drawn first")])
            drawn.set()
            await may_commit.wait()

        slow = asyncio.create_task(other.write(late))
        await drawn.wait()
        await note(world.store, "early")
        seen = await tail(world.store)
        may_commit.set()
        await slow
        after = seen[-1].position if seen else Position()
        seen += await tail(world.store, after)
        assert sorted(ids(seen)) == ["early", "late"]

    async def test_a_follower_of_the_other_process_is_woken(self, world: SharedWorld) -> None:
        other = await world.another_store()
        async with aclosing(journal.follow(other)) as lines:
            waiting = asyncio.create_task(next_ids(lines, 2))
            await note(world.store, "a")
            await note(world.store, "b")
            assert await waiting == ["a", "b"]

    async def test_positions_mean_the_same_to_both(self, world: SharedWorld) -> None:
        other = await world.another_store()
        await note(world.store, "a")
        await note(other, "b")
        (first, _) = await tail(world.store)
        assert ids(await tail(other, first.position)) == ["b"]
