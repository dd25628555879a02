"""Ends that nobody worked for: cancelled, buried, brought back, forgotten."""

from __future__ import annotations

from podium.kernel.clock import EPOCH
from podium.kernel.store import Tx
from podium.kernel.work import Lease, Verdict
from podium.testing.desk import Desk, item
from podium.testing.suites.work.base import WorkSuite
from podium.testing.worlds import World

OK = Verdict.OK


async def forget(tx: Tx, done: float, dead: float) -> list[str]:
    rows = await tx.rows("work.prune_finished", done_seconds=done, dead_seconds=dead, n=10)
    return [row.id for row in rows]


class EndingSuite(WorkSuite):
    # Cancel ----------------------------------------------------------------------------------

    async def test_an_item_can_be_cancelled_whatever_it_is_doing(self, desk: Desk) -> None:
        await desk.add("scheduled", delay_seconds=60)
        await desk.add("offered", priority=10)
        await desk.offer()
        await desk.add("ready", "leased", "running")
        await desk.take("leased")
        await desk.run("running")
        every = ["scheduled", "ready", "offered", "leased", "running"]
        assert [await desk.state(id) for id in every] == every
        assert await desk.cancel(*every, reason="enough") == [OK] * 5
        for id in every:
            row = await desk.finished(id)
            assert (row.state, row.reason) == ("cancelled", "enough")
            assert await desk.story(id) == ["cancelled"]

    async def test_a_cancelled_holder_is_told_at_its_next_write(self, desk: Desk) -> None:
        await desk.add("a")
        lease = await desk.run("a")
        await desk.cancel("a")
        assert await desk.renew(lease) == [(Verdict.CANCELLED, None)]
        assert await desk.complete(lease) == [Verdict.CANCELLED]
        assert await desk.state("a") == "cancelled"

    async def test_what_is_over_cannot_be_cancelled(self, desk: Desk) -> None:
        await desk.add("done", "dead", "cancelled", "live")
        await desk.complete(await desk.run("done"))
        await desk.kill("dead")
        await desk.cancel("cancelled")
        assert await desk.cancel("done", "dead", "cancelled", "nobody", "live", "live") == [
            Verdict.DONE,
            Verdict.DEAD,
            Verdict.CANCELLED,
            Verdict.UNKNOWN,
            OK,
            OK,
        ]

    async def test_the_children_of_one_parent_are_cancelled_together(self, desk: Desk) -> None:
        await desk.add("a", "b", "c", parent="p")
        await desk.add("other", parent="o")
        await desk.add("orphan")
        await desk.run("b")
        assert await desk.cancel_children("p") == ["a", "b", "c"]
        assert await desk.cancel_children("p") == []
        assert [await desk.state(id) for id in ("other", "orphan")] == ["ready", "ready"]

    async def test_only_what_nobody_began_is_withdrawn_when_asked_so(self, desk: Desk) -> None:
        await desk.add("ready", "leased", "running", parent="p")
        await desk.add("scheduled", parent="p", delay_seconds=60)
        leased, running = await desk.take("leased"), await desk.run("running")
        gone = await desk.cancel_children("p", unstarted_only=True)
        assert gone == ["leased", "ready", "scheduled"]
        assert await desk.start(leased) == [Verdict.CANCELLED]
        assert await desk.complete(running) == [OK]

    # Dead letters ----------------------------------------------------------------------------

    async def test_a_dead_letter_tells_what_it_was_and_why(self, desk: Desk) -> None:
        await desk.enqueue(item("a", payload={"n": 1}, parent="p", priority=4, properties={"k": 1}))
        await desk.fail(await desk.run("a"), error="boom", retryable=False)
        (letter,) = await desk.dead()
        assert (letter.id, letter.queue, letter.priority, letter.parent) == ("a", "q", 4, "p")
        assert (letter.payload, letter.properties) == ('{"n":1}', '{"k":1}')
        assert (letter.reason, letter.error) == ("failed_not_retryable", "boom")
        assert (letter.epoch, letter.attempts) == (1, 1)
        assert letter.enqueued_at <= letter.finished_at

    async def test_dead_letters_are_paged_oldest_first_each_once(
        self, world: World, desk: Desk
    ) -> None:
        every = [f"{n:02}" for n in range(10)]
        await desk.add(*every)
        for id in every[:4]:
            await desk.kill(id)
            await world.advance(1)
        leases = [await desk.run(id) for id in every[4:]]
        await desk.fail(*leases, retryable=False)  # all at one moment
        seen: list[str] = []
        after = (EPOCH, "")
        while page := await desk.dead(n=3, after=after):
            seen += [letter.id for letter in page]
            after = page[-1].cursor
        assert seen == every

    async def test_dead_letters_are_listed_by_queue(self, desk: Desk) -> None:
        await desk.add("a", queue="other")
        await desk.kill("a")
        assert await desk.dead() == []

    async def test_a_dead_letter_is_replayed_once_with_fresh_attempts(self, desk: Desk) -> None:
        """P11: it can be driven again, and only what is dead can."""
        await desk.add("a", attempts_max=1, payload=[1])
        await desk.fail(await desk.run("a"), error="boom")
        assert await desk.replay("a", "nobody", "a") == [True, False, True]
        assert await desk.replay("a") == [False], "it is not dead any more"
        row = await desk.live("a")
        assert (row.state, row.attempts, row.epoch, row.error) == ("ready", 0, 1, "boom")
        assert await desk.dead() == []
        again = await desk.run("a")
        assert again.body == [1]
        assert await desk.complete(again) == [OK]
        assert await desk.story("a") == ["dead", "replayed", "done"]

    async def test_what_succeeded_or_was_cancelled_is_not_replayed(self, desk: Desk) -> None:
        await desk.add("done", "cancelled")
        await desk.complete(await desk.run("done"))
        await desk.cancel("cancelled")
        assert await desk.replay("done", "cancelled") == [False, False]
        assert await desk.claim() == []

    async def test_the_epoch_goes_on_after_a_replay(self, desk: Desk) -> None:
        """Nobody who held it in its first life can finish it in its second."""
        await desk.add("a", attempts_max=1)
        first = await desk.run("a")
        await desk.fail(first)
        await desk.replay("a")
        second = await desk.run("a")
        assert second.epoch == first.epoch + 1
        assert await desk.complete(first) == [Verdict.SUPERSEDED]
        assert await desk.complete(second) == [OK]

    async def test_a_replayed_item_has_its_limits_again(self, world: World, desk: Desk) -> None:
        await desk.add("a", ttl_seconds=10)
        await world.advance(11)
        await desk.sweep()
        await desk.replay("a")
        await world.advance(9)
        assert len(await desk.claim()) == 1

    # Retention -------------------------------------------------------------------------------

    async def test_what_is_over_is_forgotten_after_its_time_and_the_dead_later(
        self, world: World, desk: Desk
    ) -> None:
        await desk.add("done", "dead", "live")
        await desk.complete(await desk.run("done"))
        await desk.kill("dead")
        await world.advance(100)
        assert await world.store.write(forget, 200, 300) == []
        assert await world.store.write(forget, 50, 300) == ["done"]
        assert await world.store.write(forget, 50, 60) == ["dead"]
        assert await desk.state("live") == "ready"
        assert await desk.complete(Lease("done", 1)) == [Verdict.UNKNOWN]
