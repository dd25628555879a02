"""The sweep: whatever is due is settled, once, and one bad row never stops the others."""

from __future__ import annotations

import asyncio

import pytest

from podium.kernel.retry import RetryPolicy
from podium.kernel.store import Row, Tx
from podium.kernel.work import Verdict, decide
from podium.kernel.work.model import Leased
from podium.kernel.work.queue import channel
from podium.kernel.work.sweep import quarantine
from podium.testing.desk import Desk, item
from podium.testing.suites.work.base import WorkSuite
from podium.testing.worlds import World

AT_ONCE = RetryPolicy(base_seconds=0)


async def held(tx: Tx, lease: Leased) -> list[Row]:
    return await tx.rows("work.held", leases=[(lease.id, lease.epoch)])


class SweepingSuite(WorkSuite):
    async def test_what_was_put_off_becomes_ready_and_rings(self, world: World, desk: Desk) -> None:
        await desk.add("a", delay_seconds=10)
        await world.advance(11)
        rung = world.store.bell.listen(channel("q"))
        assert (await desk.sweep()).settled == 1
        assert await rung.wait(0)
        assert await desk.state("a") == "ready"

    async def test_an_offer_that_nobody_took_is_ready_again(self, world: World, desk: Desk) -> None:
        await desk.add("a")
        await desk.offer(hide_seconds=5)
        await world.advance(6)
        await desk.sweep()
        row = await desk.live("a")
        assert (row.state, row.holder, row.epoch) == ("ready", None, 0)

    async def test_a_holder_that_never_began_costs_nothing(self, world: World, desk: Desk) -> None:
        await desk.add("a", "b", lease_seconds=10, attempts_max=1)
        await desk.take("a")
        await world.advance(11)
        await desk.sweep()
        row = await desk.live("a")
        assert (row.state, row.attempts) == ("ready", 0)
        assert [each.id for each in await desk.claim(2)] == ["a", "b"], "it keeps its place"
        assert await desk.story("a") == []

    async def test_a_silent_holder_costs_an_attempt(self, world: World, desk: Desk) -> None:
        await desk.add("a", lease_seconds=10, attempts_max=2, retry=AT_ONCE)
        for attempt in (1, 2):
            assert (await desk.run("a")).attempts == attempt
            await world.advance(11)
            await desk.sweep()
        row = await desk.finished("a")
        assert (row.state, row.reason) == ("dead", "lease_expired_attempts_exhausted")
        assert row.error == "its holder went silent"
        assert await desk.story("a") == ["retried", "dead"]

    async def test_a_run_over_its_limit_ends_however_often_it_is_renewed(
        self, world: World, desk: Desk
    ) -> None:
        await desk.add("a", lease_seconds=10, run_seconds_max=25, attempts_max=1)
        lease = await desk.run("a")
        for _ in range(3):
            await world.advance(9)
            await desk.renew(lease)
        await desk.sweep()
        row = await desk.finished("a")
        assert (row.state, row.reason) == ("dead", "run_timeout_attempts_exhausted")

    async def test_a_wait_over_its_limit_is_a_dead_letter_with_a_reason(
        self, world: World, desk: Desk
    ) -> None:
        await desk.add("waits", wait_seconds_max=10)
        await desk.add("expires", ttl_seconds=10)
        await desk.add("lives")
        await world.advance(11)
        await desk.sweep()
        assert (await desk.finished("waits")).reason == "waited_too_long"
        assert (await desk.finished("expires")).reason == "expired"
        assert await desk.state("lives") == "ready"

    async def test_waiting_never_counts_as_running(self, world: World, desk: Desk) -> None:
        await desk.add("a", wait_seconds_max=100, run_seconds_max=10, lease_seconds=10)
        await world.advance(90)
        lease = await desk.run("a")
        await world.advance(9)
        await desk.sweep()
        assert await desk.complete(lease) == [Verdict.OK]

    async def test_running_never_counts_as_waiting(self, world: World, desk: Desk) -> None:
        await desk.add("a", wait_seconds_max=10, lease_seconds=60)
        lease = await desk.run("a")
        await world.advance(50)
        await desk.sweep()
        assert await desk.complete(lease) == [Verdict.OK]

    async def test_a_retry_is_not_delivered_after_its_time_to_live(
        self, world: World, desk: Desk
    ) -> None:
        await desk.add("a", ttl_seconds=20)
        await desk.fail(await desk.run("a"), delay_seconds=30)
        await world.advance(31)
        await world.store.write(desk.sweeper.promote, 10)
        assert await desk.claim() == []
        await desk.sweep()
        assert (await desk.finished("a")).reason == "expired"

    async def test_the_sweep_leaves_alone_what_is_not_due(self, world: World, desk: Desk) -> None:
        """P9."""
        await desk.add("ready", "leased", "running")
        await desk.add("scheduled", delay_seconds=60)
        await desk.take("leased")
        await desk.run("running")
        assert (await desk.sweep()).settled == 0
        every = ["ready", "leased", "running", "scheduled"]
        assert [await desk.state(id) for id in every] == every

    async def test_the_sweep_never_reopens_what_is_over(self, world: World, desk: Desk) -> None:
        """P9."""
        await desk.add("done", "dead", "cancelled", lease_seconds=10)
        await desk.complete(await desk.run("done"))
        await desk.kill("dead")
        await desk.cancel("cancelled")
        await world.advance(10_000_000)
        assert (await desk.sweep()).settled == 0
        for id in ("done", "dead", "cancelled"):
            assert await desk.state(id) == id

    async def test_the_sweep_says_when_to_look_again(self, world: World, desk: Desk) -> None:
        assert (await desk.sweep()).next_seconds is None
        await desk.add("a", delay_seconds=30)
        next_seconds = (await desk.sweep()).next_seconds
        assert next_seconds == pytest.approx(30, abs=1)

    async def test_a_full_sweep_asks_to_be_called_at_once(self, world: World, desk: Desk) -> None:
        await desk.add(*"abcde", lease_seconds=10, attempts_max=1)
        await desk.claim(5, start=True)
        await desk.add(*"fghij", delay_seconds=5)
        await world.advance(11)
        swept = await desk.sweep(limit=5)
        assert (swept.settled, swept.next_seconds) == (10, 0.0)
        assert await desk.store.read(desk.work.depth, queue="q") == 5

    async def test_two_sweepers_settle_each_item_once(self, world: World, desk: Desk) -> None:
        await desk.enqueue(*(item(str(n), lease_seconds=10, retry=AT_ONCE) for n in range(40)))
        await desk.claim(40, start=True)
        await world.advance(11)
        other = world.desk()
        swept = await asyncio.gather(desk.sweep(), other.sweep())
        assert sum(each.settled for each in swept) == 40
        assert await desk.story("7") == ["retried"]

    async def test_a_sweep_does_not_stop_at_a_poisonous_row(self, world: World, desk: Desk) -> None:
        """P9: one among 500; the other 499 are settled, and it is left for a person."""
        await desk.enqueue(*(item(f"{n:03}", ttl_seconds=10) for n in range(500)))
        await world.refuse("work_finished", "insert", "250")
        await world.advance(11)
        assert (await desk.sweep()).settled == 499
        counts = await world.store.read(desk.work.counts)
        assert counts == {("q", "ready"): 1, ("q", "dead"): 499}
        row = await desk.live("250")
        assert (row.wake_at - row.now_at).total_seconds() == pytest.approx(3_600, abs=60)
        assert (await desk.sweep()).settled == 0, "it does not hold up the next sweep either"
        assert await desk.story("250") == ["quarantined"]

    async def test_a_poisonous_row_that_was_put_off_stops_nobody(
        self, world: World, desk: Desk
    ) -> None:
        """P6: neither those put off with it, nor the rescue of what a dead holder held."""
        await desk.add("held", lease_seconds=10, retry=AT_ONCE)
        await desk.run("held")
        await desk.add(*"abcde", delay_seconds=5)
        await world.refuse("work", "update", "c")
        await world.advance(11)
        assert (await desk.sweep()).settled == 5
        assert {await desk.state(id) for id in "abde"} == {"ready"}
        assert await desk.state("held") in ("ready", "scheduled")

    async def test_a_holder_does_not_gain_an_hour_by_a_row_set_apart(
        self, world: World, desk: Desk
    ) -> None:
        await desk.add("a", lease_seconds=10, attempts_max=1)
        lease = await desk.run("a")
        await world.refuse("work_finished", "insert", "a")
        await world.advance(11)
        await desk.sweep()
        assert await desk.renew(lease) == [(Verdict.SUPERSEDED, None)]

    async def test_a_row_that_cannot_even_be_set_apart_stops_nobody(
        self, world: World, desk: Desk
    ) -> None:
        await desk.add(*"abcde", ttl_seconds=10)
        await world.refuse("work_finished", "insert", "c")
        await world.refuse("work", "update", "c")
        await world.advance(11)
        assert (await desk.sweep()).settled == 4
        assert await desk.state("c") == "ready"

    async def test_a_row_that_changed_since_is_not_set_apart(
        self, world: World, desk: Desk
    ) -> None:
        """P9: between the failed settling and the setting apart somebody else may have come."""
        await desk.add("a", lease_seconds=10)
        lease = await desk.run("a")
        await world.store.write(quarantine, "a", "refused")
        assert (await desk.live("a")).wake_at == lease.expires_at

    async def test_a_decision_about_a_row_that_changed_since_is_not_written(
        self, world: World, desk: Desk
    ) -> None:
        """P9: the same holder under the same epoch may have begun meanwhile."""
        await desk.add("a")
        lease = await desk.take("a")
        (row,) = await world.store.write(held, lease)
        assert await desk.start(lease) == [Verdict.OK]
        assert not await world.store.write(desk.work.settle, [(row, decide.after_release(row))])
        assert await desk.complete(lease) == [Verdict.OK]

    async def test_a_retry_policy_that_cannot_be_read_ends_in_a_dead_letter(
        self, world: World, desk: Desk
    ) -> None:
        await desk.add("bad", "good", lease_seconds=10, retry=AT_ONCE)
        await desk.claim(2, start=True)
        await world.query("update work set retry = :text where id = 'bad'", text='{"what": 1}')
        await world.advance(11)
        await desk.sweep()
        assert await desk.state("good") == "ready"
        row = await desk.finished("bad")
        assert (row.state, row.reason) == ("dead", "unreadable")

    async def test_a_failure_under_a_policy_that_cannot_be_read_is_a_dead_letter_too(
        self, world: World, desk: Desk
    ) -> None:
        await desk.add("bad", retry=AT_ONCE)
        lease = await desk.run("bad")
        await world.query("update work set retry = :text where id = 'bad'", text="{")
        assert await desk.fail(lease) == [Verdict.OK]
        assert await desk.state("bad") == "dead"

    async def test_after_an_outage_the_backlog_drains_with_one_start_each(
        self, world: World, desk: Desk
    ) -> None:
        """P17: only what ran when the outage began is started a second time."""
        await desk.enqueue(*(item(f"{n:02}", lease_seconds=10, retry=AT_ONCE) for n in range(60)))
        running = await desk.claim(5, start=True)
        leased = await desk.claim(5, holder="two")
        await world.advance(36_000)
        await desk.sweep()
        assert set(await desk.start(*leased)) == {Verdict.NOT_HELD}
        assert set(await desk.complete(*running)) == {Verdict.NOT_HELD}
        starts = 0
        while batch := await desk.claim(7, start=True):
            starts += len(batch)
            assert set(await desk.complete(*batch)) == {Verdict.OK}
            await desk.sweep()
        assert starts == 60
        attempts = await world.query("select sum(attempts) as total from work_finished")
        assert attempts[0].total == 60 + 5
