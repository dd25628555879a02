"""Taking work out: one holder at a time, the most urgent first, nothing too early or too late."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from podium.kernel.errors import Invalid
from podium.kernel.store import Tx
from podium.kernel.work import Claimed, Offered, Verdict
from podium.testing.desk import Desk, item
from podium.testing.suites.work.base import WorkSuite
from podium.testing.worlds import World


def ids(items: Sequence[Claimed | Offered]) -> list[str]:
    return [each.id for each in items]


class TakingOutSuite(WorkSuite):
    async def test_an_item_has_one_holder(self, desk: Desk) -> None:
        await desk.add("a")
        assert len(await desk.claim(holder="one")) == 1
        assert await desk.claim(holder="two") == []

    async def test_concurrent_claimers_never_get_the_same_item(self, desk: Desk) -> None:
        """P13."""
        await desk.enqueue(*(item(f"{n:03}") for n in range(100)))
        grants = await asyncio.gather(*(desk.claim(7, holder=f"h{n}") for n in range(20)))
        got = [each.id for grant in grants for each in grant]
        assert len(got) == len(set(got))
        rest = await desk.claim(100)
        assert len(got) + len(rest) == 100

    async def test_items_go_first_in_first_out(self, world: World, desk: Desk) -> None:
        await desk.add("a", "b", "c")
        await world.advance(1)
        await desk.add("d")
        assert ids(await desk.claim(2)) == ["a", "b"]
        assert ids(await desk.claim(2)) == ["c", "d"]

    async def test_the_urgent_goes_first(self, desk: Desk) -> None:
        await desk.enqueue(item("low"), item("high", priority=10), item("middle", priority=5))
        assert ids(await desk.claim(3)) == ["high", "middle", "low"]

    async def test_an_old_item_overtakes_a_new_urgent_one(self, world: World) -> None:
        """P13: with `ageing_seconds` 60, ten minutes of age make up for ten steps of priority."""
        desk = world.desk(ageing_seconds=60)
        await desk.add("old")
        await world.advance(590)
        await desk.add("too early", priority=10)
        await world.advance(20)
        await desk.add("too late", priority=10)
        assert ids(await desk.claim(3)) == ["too early", "old", "too late"]

    async def test_each_queue_is_its_own(self, desk: Desk) -> None:
        await desk.add("a", queue="one")
        await desk.add("b", queue="two")
        assert ids(await desk.claim(5, queue="two")) == ["b"]
        assert await desk.claim(5, queue="three") == []

    async def test_a_grant_raises_the_epoch_and_says_until_when(
        self, world: World, desk: Desk
    ) -> None:
        await desk.add("a", lease_seconds=30)
        first = await desk.take("a", holder="one")
        assert (first.epoch, first.attempts) == (1, 0)
        row = await desk.live("a")
        assert (row.state, row.holder) == ("leased", "one")
        assert (row.wake_at, row.epoch) == (first.expires_at, 1)
        assert 29 < (first.expires_at - row.now_at).total_seconds() <= 30
        await desk.release(first)
        assert (await desk.take("a")).epoch == 2

    async def test_claiming_with_start_begins_at_once(self, desk: Desk) -> None:
        await desk.add("a")
        (claimed,) = await desk.claim(start=True)
        assert claimed.attempts == 1
        assert await desk.state("a") == "running"
        assert await desk.complete(claimed) == [Verdict.OK]

    async def test_a_claim_with_start_never_leases_past_the_run_limit(self, desk: Desk) -> None:
        await desk.add("a", lease_seconds=60, run_seconds_max=5)
        claimed = await desk.run("a")
        row = await desk.live("a")
        assert (claimed.expires_at - row.started_at).total_seconds() == pytest.approx(5, abs=0.01)

    async def test_items_are_claimed_by_id_as_far_as_nobody_holds_them(self, desk: Desk) -> None:
        await desk.add("a", "b", "c")
        await desk.add("later", delay_seconds=60)
        await desk.take("b", holder="other")
        got = await desk.claim_ids("a", "b", "a", "later", "nobody", "c")
        assert ids(got) == ["a", "c"]

    async def test_what_is_put_off_is_not_claimed(self, world: World, desk: Desk) -> None:
        await desk.add("a", delay_seconds=10)
        await world.advance(9)
        await desk.sweep()
        assert await desk.claim() == []
        assert await desk.claim_ids("a") == []
        await world.advance(2)
        await desk.sweep()
        assert ids(await desk.claim()) == ["a"]

    async def test_what_has_expired_is_not_delivered_even_before_the_sweep(
        self, world: World, desk: Desk
    ) -> None:
        await desk.add("a", "b", ttl_seconds=10)
        await world.advance(11)
        assert await desk.claim(5) == []
        assert await desk.claim_ids("a") == []
        assert await desk.offer(5) == []

    async def test_the_time_to_live_begins_when_an_item_is_due(
        self, world: World, desk: Desk
    ) -> None:
        await desk.add("a", delay_seconds=100, ttl_seconds=10)
        await world.advance(105)
        await desk.sweep()
        assert ids(await desk.claim()) == ["a"]

    @pytest.mark.parametrize("n", [0, -1, 2_001])
    async def test_an_odd_number_of_items_is_refused(self, desk: Desk, n: int) -> None:
        with pytest.raises(Invalid):
            await desk.claim(n)
        with pytest.raises(Invalid):
            await desk.offer(n)

    async def test_a_holder_needs_a_name(self, desk: Desk) -> None:
        with pytest.raises(Invalid):
            await desk.claim(holder="")
        with pytest.raises(Invalid):
            await desk.claim_ids("a", holder="\0")
        with pytest.raises(Invalid):
            await desk.offer(holder="")

    # Offers ----------------------------------------------------------------------------------

    async def test_an_offer_is_hidden_from_everybody_else(self, world: World, desk: Desk) -> None:
        await desk.add("a", payload=1, priority=2)
        (offered,) = await desk.offer(holder="one", hide_seconds=5)
        assert (offered.id, offered.payload, offered.priority) == ("a", "1", 2)
        assert (offered.attempts, offered.attempts_max) == (0, 3)
        assert await desk.offer(holder="two") == []
        assert await desk.claim(holder="two") == []
        await world.advance(6)
        await desk.sweep()
        assert ids(await desk.offer(holder="two")) == ["a"]

    async def test_an_offer_grants_nothing(self, desk: Desk) -> None:
        await desk.add("a")
        await desk.offer()
        row = await desk.live("a")
        assert (row.state, row.epoch, row.attempts) == ("offered", 0, 0)

    async def test_an_offer_is_taken_by_its_id_once(self, desk: Desk) -> None:
        """H18: between the poll and the acknowledgement two may know of it; one gets it."""
        await desk.add("a")
        await desk.offer(holder="one")
        assert ids(await desk.claim_ids("a", holder="two", start=True)) == ["a"]
        assert await desk.claim_ids("a", holder="one") == []

    async def test_an_offer_that_outlived_its_item_is_not_taken(
        self, world: World, desk: Desk
    ) -> None:
        await desk.add("a", ttl_seconds=3)
        await desk.offer(hide_seconds=60)
        await world.advance(4)
        assert await desk.claim_ids("a") == [], "delivered after its time to live"

    async def test_offers_do_not_stretch_the_limit_of_the_wait(
        self, world: World, desk: Desk
    ) -> None:
        await desk.add("a", wait_seconds_max=10)
        for _ in range(3):
            await desk.offer(hide_seconds=4)
            await world.advance(5)
            await desk.sweep()
        assert await desk.state("a") == "dead"

    async def test_offers_go_by_urgency_and_may_ask_for_it(self, desk: Desk) -> None:
        await desk.enqueue(
            item("low", priority=1), item("mid", priority=5), item("top", priority=9)
        )
        assert ids(await desk.offer(5, priority_min=5)) == ["top", "mid"]
        assert ids(await desk.offer(5)) == ["low"]

    async def test_an_offer_needs_a_time(self, desk: Desk) -> None:
        with pytest.raises(Invalid):
            await desk.offer(hide_seconds=0)

    # Marks -----------------------------------------------------------------------------------

    async def test_a_released_item_is_found_below_the_mark(self, desk: Desk) -> None:
        await desk.add("a", "b", "c")
        (first,) = await desk.claim(1)
        await desk.claim(1)
        await desk.release(first)
        assert ids(await desk.claim(2)) == ["a", "c"]

    async def test_an_urgent_item_is_found_below_the_mark(self, desk: Desk) -> None:
        await desk.add("a", "b", "c")
        await desk.claim(2)
        await desk.add("urgent", priority=10)
        assert ids(await desk.claim(1)) == ["urgent"]

    async def test_a_replayed_and_a_retried_item_are_found_below_the_mark(
        self, world: World, desk: Desk
    ) -> None:
        await desk.add("dead", "retried", "x", "y")
        (dead, retried, _) = await desk.claim(3, start=True)
        await desk.fail(dead, retryable=False)
        await desk.replay("dead")
        await desk.fail(retried, delay_seconds=0)
        assert set(ids(await desk.claim(5))) == {"dead", "retried", "y"}

    async def test_a_promoted_item_is_found_below_the_mark(self, world: World, desk: Desk) -> None:
        await desk.add("soon", delay_seconds=1, priority=5)
        await desk.add("a", "b")
        await desk.claim(1)
        await world.advance(2)
        await desk.sweep()
        assert ids(await desk.claim(1)) == ["soon"]

    async def test_a_claim_that_was_rolled_back_hides_nothing_for_long(
        self, world: World, desk: Desk
    ) -> None:
        await desk.add("a")

        async def claim_and_fail(tx: Tx) -> None:
            await desk.work.claim(tx, queue="q", holder="x", n=1)
            raise RuntimeError("on second thoughts")

        with pytest.raises(RuntimeError):
            await desk.store.write(claim_and_fail)
        await world.advance(2)
        assert ids(await desk.claim()) == ["a"]
