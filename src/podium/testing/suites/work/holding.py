"""Holding work: every write presents the epoch it was granted, and gets a verdict of its own."""

from __future__ import annotations

import pytest

from podium.kernel.errors import Invalid
from podium.kernel.retry import Backoff, RetryPolicy
from podium.kernel.store import ROWS_MAX
from podium.kernel.work import Claimed, Lease, Verdict
from podium.kernel.work.model import Leased
from podium.testing.desk import Desk
from podium.testing.suites.work.base import WorkSuite
from podium.testing.worlds import World

OK, EXPIRED, SUPERSEDED = Verdict.OK, Verdict.EXPIRED, Verdict.SUPERSEDED
NOT_HELD, UNKNOWN = Verdict.NOT_HELD, Verdict.UNKNOWN
FIXED = RetryPolicy(backoff=Backoff.FIXED, base_seconds=10, jitter=0)


async def stale(
    world: World, desk: Desk, id: str, *, start: bool = True
) -> tuple[Claimed, Claimed]:
    """A lease that ended in silence, and the one that was granted after it."""
    await desk.add(id, lease_seconds=10, retry=RetryPolicy(base_seconds=0))
    old = await desk.take(id, holder="old", start=start)
    await world.advance(11)
    await desk.sweep()
    return old, await desk.run(id, holder="new")


class HoldingSuite(WorkSuite):
    # Start -----------------------------------------------------------------------------------

    async def test_a_result_that_came_too_late_leaves_a_trace(
        self, world: World, desk: Desk
    ) -> None:
        """P16: it moves nothing, and it is kept for the record."""
        await desk.add("a", lease_seconds=10)
        late = await desk.run("a")
        await world.advance(11)
        assert await desk.complete(late) == [EXPIRED]
        assert await desk.story("a") == ["refused"]

    async def test_giving_up_before_the_start_uses_an_attempt_too(self, desk: Desk) -> None:
        await desk.add("a", attempts_max=2)
        assert await desk.fail(await desk.take("a"), delay_seconds=0.0) == [OK]
        assert (await desk.live("a")).attempts == 1
        assert await desk.fail(await desk.take("a"), delay_seconds=0.0) == [OK]
        assert await desk.state("a") == "dead"
        assert await desk.story("a") == ["retried", "dead"]

    async def test_starting_twice_says_that_it_was_started(self, desk: Desk) -> None:
        await desk.add("a")
        lease = await desk.take("a")
        assert await desk.complete(lease) == [NOT_HELD]
        assert await desk.start(lease) == [OK]
        assert await desk.start(lease) == [Verdict.STARTED]

    async def test_a_start_counts_an_attempt_and_its_lease_begins_anew(
        self, world: World, desk: Desk
    ) -> None:
        await desk.add("a", lease_seconds=10)
        lease = await desk.take("a")
        await world.advance(8)
        assert await desk.start(lease) == [OK]
        row = await desk.live("a")
        assert (row.state, row.attempts) == ("running", 1)
        assert (row.wake_at - row.started_at).total_seconds() == pytest.approx(10, abs=0.01)

    async def test_a_start_never_leases_past_the_run_limit(self, desk: Desk) -> None:
        await desk.add("a", lease_seconds=60, run_seconds_max=5)
        await desk.start(await desk.take("a"))
        row = await desk.live("a")
        assert (row.wake_at - row.started_at).total_seconds() == pytest.approx(5, abs=0.01)

    async def test_what_is_over_before_it_began_is_not_started(
        self, world: World, desk: Desk
    ) -> None:
        """P17: a superseded attempt is never started, whether or not a sweeper came by."""
        await desk.add("a", lease_seconds=10)
        late = await desk.take("a")
        await world.advance(11)
        assert await desk.start(late) == [EXPIRED]
        await desk.sweep()
        assert await desk.start(late) == [NOT_HELD]
        await desk.take("a", holder="two")
        assert await desk.start(late) == [SUPERSEDED]
        assert (await desk.live("a")).attempts == 0

    async def test_nothing_is_started_twice_under_one_lease(self, desk: Desk) -> None:
        await desk.add("a")
        lease = await desk.take("a")
        assert await desk.start(lease) == [OK]
        assert await desk.start(lease) != [OK]
        assert (await desk.live("a")).attempts == 1

    async def test_a_cancelled_item_is_not_started(self, desk: Desk) -> None:
        await desk.add("a")
        lease = await desk.take("a")
        await desk.cancel("a")
        assert await desk.start(lease) == [Verdict.CANCELLED]

    # Renew -----------------------------------------------------------------------------------

    async def test_a_lease_renewed_in_time_is_never_taken(self, world: World, desk: Desk) -> None:
        """P12: a run ten times as long as its lease."""
        await desk.add("a", lease_seconds=10)
        lease = await desk.run("a")
        for _ in range(12):
            await world.advance(9)
            ((verdict, expires_at),) = await desk.renew(lease)
            assert verdict == OK
            row = await desk.live("a")
            assert expires_at == row.wake_at
            await desk.sweep()
        assert await desk.complete(lease) == [OK]
        assert (await desk.finished("a")).attempts == 1

    async def test_a_lease_may_be_renewed_before_the_start_and_for_longer(
        self, world: World, desk: Desk
    ) -> None:
        await desk.add("a", lease_seconds=10)
        lease = await desk.take("a")
        await desk.renew(lease, seconds=100)
        await world.advance(90)
        assert await desk.start(lease) == [OK]

    async def test_a_renewal_never_reaches_past_the_run_limit(
        self, world: World, desk: Desk
    ) -> None:
        await desk.add("a", lease_seconds=10, run_seconds_max=15)
        lease = await desk.run("a")
        await world.advance(9)
        ((verdict, expires_at),) = await desk.renew(lease, seconds=3_600)
        started_at = (await desk.live("a")).started_at
        assert verdict == OK
        assert expires_at is not None
        assert (expires_at - started_at).total_seconds() == pytest.approx(15, abs=0.01)
        await world.advance(7)
        assert (await desk.renew(lease))[0].verdict == EXPIRED

    async def test_a_renewal_that_comes_late_is_refused(self, world: World, desk: Desk) -> None:
        """P12: also before a sweeper came by, and after another was granted."""
        await desk.add("a", lease_seconds=10)
        lease = await desk.run("a")
        await world.advance(11)
        assert await desk.renew(lease) == [(EXPIRED, None)]
        old, _ = await stale(world, desk, "b")
        assert await desk.renew(old) == [(SUPERSEDED, None)]

    @pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
    async def test_a_renewal_needs_a_time(self, desk: Desk, seconds: float) -> None:
        await desk.add("a")
        with pytest.raises(Invalid):
            await desk.renew(await desk.run("a"), seconds=seconds)

    # Complete --------------------------------------------------------------------------------

    async def test_a_completed_item_keeps_its_result_and_leaves_the_queue(self, desk: Desk) -> None:
        await desk.add("a")
        lease = await desk.run("a", holder="me")
        assert await desk.complete(lease, result={"n": 1}) == [OK]
        row = await desk.finished("a")
        assert (row.state, row.result, row.holder) == ("done", '{"n":1}', "me")
        assert (row.epoch, row.attempts, row.error) == (1, 1, None)
        assert await desk.story("a") == ["done"]

    async def test_only_what_runs_can_be_completed(self, desk: Desk) -> None:
        await desk.add("a")
        lease = await desk.take("a")
        assert await desk.complete(lease) != [OK]
        assert await desk.state("a") == "leased"

    async def test_a_result_counts_once(self, desk: Desk) -> None:
        """P16: duplicates change nothing after the first accepted one."""
        await desk.add("a")
        lease = await desk.run("a")
        assert await desk.complete(lease, lease, result=1) == [OK, OK]
        assert await desk.complete(lease, result=2) == [Verdict.DONE]
        assert await desk.fail(lease) == [Verdict.DONE]
        assert (await desk.finished("a")).result == "1"
        assert await desk.story("a") == ["done"]

    async def test_a_holder_presumed_dead_changes_nothing(self, world: World, desk: Desk) -> None:
        """P10: every write of a superseded lease is refused."""
        old, new = await stale(world, desk, "a")
        before = await desk.live("a")
        assert await desk.complete(old, result="old") == [SUPERSEDED]
        assert await desk.fail(old) == [SUPERSEDED]
        assert await desk.release(old) == [SUPERSEDED]
        assert await desk.start(old) == [SUPERSEDED]
        assert [r.verdict for r in await desk.renew(old)] == [SUPERSEDED]
        after = await desk.live("a")
        assert after._replace(now_at=None) == before._replace(now_at=None)
        assert await desk.complete(new, result="new") == [OK]
        assert (await desk.finished("a")).result == '"new"'

    async def test_a_lease_that_ended_changes_nothing_even_before_the_sweep(
        self, world: World, desk: Desk
    ) -> None:
        await desk.add("a", lease_seconds=10)
        lease = await desk.run("a")
        await world.advance(11)
        assert await desk.complete(lease) == [EXPIRED]
        assert await desk.fail(lease) == [EXPIRED]
        assert await desk.release(lease) == [EXPIRED]
        assert await desk.state("a") == "running"

    async def test_each_row_of_a_list_gets_its_own_verdict(self, world: World, desk: Desk) -> None:
        old, _ = await stale(world, desk, "fenced")
        await desk.add("mine", "leased", "done", "dead", "cancelled", "released", lease_seconds=60)
        mine, done = await desk.run("mine"), await desk.run("done")
        leased, dead = await desk.take("leased"), await desk.run("dead")
        cancelled, released = await desk.run("cancelled"), await desk.run("released")
        await desk.complete(done)
        await desk.fail(dead, retryable=False)
        await desk.cancel("cancelled")
        await desk.release(released)
        nobody = Lease("nobody", 1)
        asked: list[Leased] = [mine, done, dead, cancelled, released, nobody, old]
        assert await desk.complete(*asked) == [
            OK,
            Verdict.DONE,
            Verdict.DEAD,
            Verdict.CANCELLED,
            NOT_HELD,
            UNKNOWN,
            SUPERSEDED,
        ]
        assert await desk.start(leased) == [OK]

    async def test_two_leases_of_one_item_in_one_list_are_told_apart(
        self, world: World, desk: Desk
    ) -> None:
        """And the item's end is journalled once."""
        old, new = await stale(world, desk, "a")
        assert await desk.complete(old, new) == [Verdict.DONE, OK]
        assert (await desk.story("a")).count("done") == 1
        old, new = await stale(world, desk, "b")
        assert [r.verdict for r in await desk.renew(new, old)] == [OK, SUPERSEDED]
        assert await desk.fail(new, old, delay_seconds=0) == [OK, SUPERSEDED]
        assert (await desk.story("b")).count("retried") == 2, "the silence, and this one"

    async def test_too_many_rows_are_refused(self, desk: Desk) -> None:
        many = [Lease("a", 1)] * (ROWS_MAX + 1)
        for call in (desk.start, desk.complete, desk.fail, desk.release, desk.renew):
            with pytest.raises(Invalid):
                await call(*many)

    # Fail ------------------------------------------------------------------------------------

    async def test_a_failure_backs_off_and_is_tried_again(self, world: World, desk: Desk) -> None:
        await desk.add("a", retry=FIXED)
        assert await desk.fail(await desk.run("a"), error="boom") == [OK]
        row = await desk.live("a")
        assert (row.state, row.attempts, row.error, row.holder) == ("scheduled", 1, "boom", None)
        assert (row.wake_at - row.now_at).total_seconds() == pytest.approx(10, abs=1)
        await world.advance(9)
        await desk.sweep()
        assert await desk.claim() == []
        await world.advance(2)
        await desk.sweep()
        (again,) = await desk.claim(start=True)
        assert (again.epoch, again.attempts) == (2, 2)
        assert await desk.story("a") == ["retried"]

    async def test_attempts_never_exceed_the_policy(self, desk: Desk) -> None:
        """P11: the counter rises by one per start; at the maximum it is a dead letter."""
        await desk.add("a", attempts_max=3, retry=RetryPolicy(base_seconds=0))
        for attempt in (1, 2, 3):
            lease = await desk.run("a")
            assert lease.attempts == attempt
            assert await desk.fail(lease, error=f"boom {attempt}") == [OK]
        row = await desk.finished("a")
        assert (row.state, row.attempts, row.error) == ("dead", 3, "boom 3")
        assert row.reason == "failed_attempts_exhausted"
        assert await desk.story("a") == ["retried", "retried", "dead"]

    async def test_one_attempt_means_never_started_twice(self, desk: Desk) -> None:
        await desk.add("a", attempts_max=1)
        await desk.fail(await desk.run("a"))
        assert await desk.state("a") == "dead"

    async def test_what_is_not_retryable_is_a_dead_letter_at_once(self, desk: Desk) -> None:
        await desk.add("a", attempts_max=9)
        await desk.fail(await desk.run("a"), error="never", retryable=False, reason="refused")
        row = await desk.finished("a")
        assert (row.state, row.reason, row.error) == ("dead", "refused_not_retryable", "never")

    async def test_a_failure_may_say_when_to_try_again(self, desk: Desk) -> None:
        await desk.add("a", "b", retry=FIXED)
        await desk.fail(await desk.run("a"), delay_seconds=500)
        row = await desk.live("a")
        assert (row.ready_at - row.now_at).total_seconds() == pytest.approx(500, abs=1)
        await desk.fail(await desk.run("b"), delay_seconds=0)
        assert await desk.state("b") == "ready"

    @pytest.mark.parametrize("delay", [-1, float("nan"), float("inf"), 1e12])
    async def test_a_delay_that_is_no_time_is_refused(self, desk: Desk, delay: float) -> None:
        await desk.add("a")
        lease = await desk.run("a")
        with pytest.raises(Invalid):
            await desk.fail(lease, delay_seconds=delay)
        assert await desk.complete(lease) == [OK]

    async def test_an_error_text_is_kept_whatever_is_in_it(self, desk: Desk) -> None:
        await desk.add("a")
        await desk.fail(await desk.run("a"), error="\0 \ud800 " + "x" * 10_000, delay_seconds=0)
        error = (await desk.live("a")).error
        assert len(error) == 4_000
        assert error.startswith("␀ ? xxx")
        assert error.endswith("…")

    # Release ---------------------------------------------------------------------------------

    async def test_a_released_item_keeps_its_place_and_its_attempts(
        self, world: World, desk: Desk
    ) -> None:
        await desk.add("a", "b")
        await world.advance(5)
        running = await desk.run("a")
        assert await desk.release(running) == [OK]
        row = await desk.live("a")
        assert (row.state, row.attempts, row.epoch) == ("ready", 0, 1)
        assert [each.id for each in await desk.claim(2)] == ["a", "b"]
        assert await desk.story("a") == [], "nothing happened"

    async def test_what_was_released_is_not_held_any_more(self, desk: Desk) -> None:
        await desk.add("a")
        lease = await desk.run("a")
        await desk.release(lease)
        assert await desk.complete(lease) == [NOT_HELD]
        assert await desk.release(lease) == [NOT_HELD]
