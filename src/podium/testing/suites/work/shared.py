"""What holds between two processes on one queue."""

from __future__ import annotations

import asyncio

import pytest

from podium.kernel.work import Verdict
from podium.kernel.work.queue import channel
from podium.testing.desk import Desk, item
from podium.testing.worlds import SharedWorld


class SharedWorkSuite:
    @pytest.fixture
    async def desks(self, world: SharedWorld) -> tuple[Desk, Desk]:
        return world.desk(), world.desk(await world.another_store())

    async def test_what_one_process_enqueues_wakes_the_other(
        self, desks: tuple[Desk, Desk]
    ) -> None:
        here, there = desks
        rung = there.store.bell.listen(channel("q"))
        await rung.wait(0)
        await here.add("a")
        assert await rung.wait(5)
        assert [each.id for each in await there.claim()] == ["a"]

    async def test_two_processes_never_claim_the_same_item(self, desks: tuple[Desk, Desk]) -> None:
        here, there = desks
        await here.enqueue(*(item(f"{n:03}") for n in range(200)))
        grants = await asyncio.gather(
            *(desk.claim(9, holder=f"h{n}") for n in range(12) for desk in (here, there))
        )
        got = [each.id for grant in grants for each in grant]
        assert len(got) == len(set(got))
        # What was locked by a neighbour for a moment is passed over, not lost.
        while rest := await there.claim(200):
            got += [each.id for each in rest]
        assert len(got) == 200

    async def test_what_the_other_process_gives_back_is_found_below_the_mark(
        self, world: SharedWorld, desks: tuple[Desk, Desk]
    ) -> None:
        here, there = desks
        await here.add("a", "b", "c")
        (first,) = await here.claim(1)
        assert [each.id for each in await there.claim(1)] == ["b"]
        rung = there.store.bell.listen(channel("q"))
        await here.release(first)
        assert await rung.wait(5)
        assert [each.id for each in await there.claim(1)] == ["a"]

    async def test_a_lost_ring_hides_an_item_for_a_second_at_most(
        self, world: SharedWorld, desks: tuple[Desk, Desk]
    ) -> None:
        here, _ = desks
        deaf = Desk(here.store, world.work(await world.another_store()))
        await here.add("a", "b", "c")
        (first,) = await here.claim(1)
        await deaf.claim(1)
        await here.release(first)
        await world.advance(1.1)
        assert [each.id for each in await deaf.claim(1)] == ["a"]

    async def test_a_lease_of_one_process_is_known_to_the_other(
        self, desks: tuple[Desk, Desk]
    ) -> None:
        here, there = desks
        await here.add("a")
        lease = await here.run("a")
        assert await there.complete(lease) == [Verdict.OK]
        assert await here.complete(lease) == [Verdict.DONE]
