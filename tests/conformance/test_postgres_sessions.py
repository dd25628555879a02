"""Every body of several statements, interleaved with another session's at its worst place.

Simulation on SQLite is serial, so what happens between two statements of one body can only be shown
here: one session stops between them, the other one waits or is refused, and the outcome is right.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from podium.kernel import idempotency
from podium.kernel.errors import KeyReused
from podium.kernel.migrate import KERNEL, migrate
from podium.kernel.ownership import Owned
from podium.kernel.retry import RetryPolicy
from podium.kernel.store import Tx
from podium.kernel.work import Done, Enqueued, Failure, Verdict
from podium.testing.desk import item
from podium.testing.suites.ownership import TABLE, Runs
from tests.conformance.sessions import END, Pause, Sessions
from tests.worlds import postgres_store, postgres_world

OK = Verdict.OK
AT_ONCE = RetryPolicy(base_seconds=0)


@pytest.fixture
async def sessions(migrated_url: str) -> AsyncIterator[Sessions]:
    async with postgres_world(migrated_url) as world:
        yield Sessions(world, await world.another_store())


class TestEnqueue:
    async def test_one_id_at_once_is_created_once(self, sessions: Sessions) -> None:
        held = await sessions.hold(sessions.here.work.enqueue, [item("a"), item("b")])
        answers = await sessions.after(*held, sessions.there.enqueue(item("b"), item("c")))
        assert answers == [Enqueued("b", False), Enqueued("c", True)]

    async def test_one_dedupe_key_at_once_names_the_one_that_has_it(
        self, sessions: Sessions
    ) -> None:
        held = await sessions.hold(sessions.here.work.enqueue, [item("a", dedupe_key="k")])
        call = sessions.there.enqueue(item("b", dedupe_key="k"))
        assert await sessions.after(*held, call) == [Enqueued("a", False)]

    async def test_a_dedupe_key_that_is_finished_meanwhile_is_free_or_taken(
        self, sessions: Sessions
    ) -> None:
        """Between the insert that found it taken and the question who has it, it may be finished."""
        here, there = sessions.here, sessions.there
        await here.add("a", dedupe_key="k")
        lease = await here.run("a")
        new = item("b", dedupe_key="k")
        pause, task = await sessions.hold(
            here.work.enqueue, [new], before="work.known_by_dedupe_key"
        )
        assert await there.complete(lease) == [OK]
        pause.go()
        (answer,) = await task
        assert not answer.created
        assert await here.state("b") is None

    async def test_what_is_finished_at_that_moment_is_not_created_again(
        self, sessions: Sessions
    ) -> None:
        """P3: the message that is redelivered while its first delivery is being completed."""
        await sessions.here.add("a")
        lease = await sessions.here.run("a")
        held = await sessions.hold(sessions.here.work.complete, [Done(lease)])
        answers = await sessions.after(*held, sessions.there.enqueue(item("a")))
        assert answers == [Enqueued("a", False)]
        assert await sessions.here.state("a") == "done"
        assert await sessions.there.claim() == []

    async def test_what_was_rolled_back_is_free_for_the_other(self, sessions: Sessions) -> None:
        async def enqueue_and_fail(tx: Tx) -> None:
            await sessions.here.work.enqueue(tx, [item("a")])
            await pause.stop("fail")
            raise RuntimeError

        pause = Pause("fail")
        task = asyncio.create_task(sessions.here.store.write(enqueue_and_fail))
        await pause.reached()
        answers = await sessions.after(pause, task, sessions.there.enqueue(item("a")))
        assert answers == [Enqueued("a", True)]
        with pytest.raises(RuntimeError):
            await task


class TestClaim:
    async def test_a_claimer_passes_over_what_another_is_claiming(self, sessions: Sessions) -> None:
        await sessions.here.add("a", "b", "c")
        pause, held = await sessions.hold(sessions.here.work.claim, queue="q", holder="one", n=2)
        assert [each.id for each in await sessions.there.claim(5)] == ["c"]
        pause.go()
        assert [each.id for each in await held] == ["a", "b"]

    async def test_what_is_being_claimed_is_not_claimed_by_id(self, sessions: Sessions) -> None:
        await sessions.here.add("a", "b")
        pause, held = await sessions.hold(sessions.here.work.claim_ids, ["a"], holder="one")
        assert [each.id for each in await sessions.there.claim_ids("a", "b")] == ["b"]
        pause.go()
        await held


class TestFailAndRelease:
    @pytest.mark.parametrize("query", ["work.put_back", "journal.append"])
    async def test_nobody_else_settles_what_is_being_failed(
        self, sessions: Sessions, query: str
    ) -> None:
        await sessions.here.add("a")
        lease = await sessions.here.run("a")
        failure = Failure(lease, "boom", delay_seconds=60)
        held = await sessions.hold(sessions.here.work.fail, [failure], before=query)
        assert await sessions.after(*held, sessions.there.complete(lease)) == [Verdict.NOT_HELD]
        assert await held[1] == [OK]
        assert await sessions.here.state("a") == "scheduled"
        assert await sessions.here.story("a") == ["retried", "refused"]

    async def test_a_completion_is_first_and_the_failure_changes_nothing(
        self, sessions: Sessions
    ) -> None:
        await sessions.here.add("a")
        lease = await sessions.here.run("a")
        held = await sessions.hold(sessions.here.work.complete, [Done(lease)])
        assert await sessions.after(*held, sessions.there.fail(lease)) == [Verdict.DONE]
        assert await sessions.here.story("a") == ["done"]

    async def test_what_is_being_released_is_not_completed(self, sessions: Sessions) -> None:
        await sessions.here.add("a")
        lease = await sessions.here.run("a")
        held = await sessions.hold(sessions.here.work.release, [lease], before="work.put_back")
        assert await sessions.after(*held, sessions.there.complete(lease)) == [Verdict.NOT_HELD]
        assert await sessions.here.state("a") == "ready"

    async def test_two_failures_of_one_lease_count_once(self, sessions: Sessions) -> None:
        await sessions.here.add("a")
        lease = await sessions.here.run("a")
        failure = Failure(lease, "boom", delay_seconds=0)
        held = await sessions.hold(sessions.here.work.fail, [failure], before="work.put_back")
        assert await sessions.after(*held, sessions.there.fail(lease)) == [Verdict.NOT_HELD]
        assert (await sessions.here.live("a")).attempts == 1


class TestSweep:
    async def test_two_sweeps_never_settle_the_same_row(self, sessions: Sessions) -> None:
        await sessions.here.add("a", lease_seconds=10, retry=AT_ONCE)
        await sessions.here.run("a")
        await sessions.world.advance(11)
        pause, held = await sessions.hold(sessions.here.sweeper.settle, 10, before="work.put_back")
        assert await sessions.there.store.write(sessions.there.sweeper.settle, 10) == 0
        pause.go()
        assert await held == 1
        assert await sessions.here.story("a") == ["retried"]

    async def test_what_is_being_swept_cannot_be_completed(self, sessions: Sessions) -> None:
        await sessions.here.add("a", lease_seconds=10, retry=AT_ONCE)
        lease = await sessions.here.run("a")
        await sessions.world.advance(11)
        pause, held = await sessions.hold(sessions.here.sweeper.settle, 10, before="work.put_back")
        assert await sessions.there.complete(lease) == [Verdict.EXPIRED]
        pause.go()
        assert await held == 1

    @pytest.mark.parametrize("call", ["renew", "complete"])
    async def test_what_its_holder_is_writing_is_left_alone(
        self, sessions: Sessions, call: str
    ) -> None:
        """P9: the sweep passes over a row that changes at that moment, and finds it changed after."""
        await sessions.here.add("a", lease_seconds=10)
        lease = await sessions.here.run("a")
        bodies: dict[str, tuple[Callable[..., Awaitable[Any]], Any]] = {
            "renew": (sessions.here.work.renew, [lease]),
            "complete": (sessions.here.work.complete, [Done(lease)]),
        }
        pause, held = await sessions.hold(*bodies[call])
        sessions.world.stores[1].clock_offset_seconds += 10.5  # late for the sweeper alone
        assert await sessions.there.store.write(sessions.there.sweeper.settle, 10) == 0
        pause.go()
        await held
        sessions.world.stores[1].clock_offset_seconds -= 10.5
        assert (await sessions.there.sweep()).settled == 0

    async def test_what_is_cancelled_while_it_is_promoted_stays_cancelled(
        self, sessions: Sessions
    ) -> None:
        await sessions.here.add("a", delay_seconds=10)
        await sessions.world.advance(11)
        pause, held = await sessions.hold(sessions.here.work.cancel, ["a"], reason="enough")
        assert await sessions.there.store.write(sessions.there.sweeper.promote, 10) == 0
        pause.go()
        assert await held == [OK]
        assert await sessions.here.state("a") == "cancelled"


class TestCancel:
    async def test_a_completion_that_is_first_wins(self, sessions: Sessions) -> None:
        await sessions.here.add("a")
        lease = await sessions.here.run("a")
        held = await sessions.hold(sessions.here.work.complete, [Done(lease)])
        assert await sessions.after(*held, sessions.there.cancel("a")) == [Verdict.DONE]

    async def test_a_cancellation_that_is_first_wins(self, sessions: Sessions) -> None:
        await sessions.here.add("a")
        lease = await sessions.here.run("a")
        held = await sessions.hold(
            sessions.here.work.cancel, ["a"], reason="enough", before="work.finish"
        )
        assert await sessions.after(*held, sessions.there.complete(lease)) == [Verdict.CANCELLED]
        assert await sessions.here.story("a") == ["cancelled"]

    async def test_what_is_being_cancelled_is_not_started(self, sessions: Sessions) -> None:
        """P18: once the cancellation is acknowledged nothing new starts."""
        await sessions.here.add("a")
        lease = await sessions.here.take("a")
        held = await sessions.hold(
            sessions.here.work.cancel, ["a"], reason="enough", before="work.finish"
        )
        assert await sessions.after(*held, sessions.there.start(lease)) == [Verdict.CANCELLED]

    async def test_what_has_just_started_is_not_withdrawn_as_unstarted(
        self, sessions: Sessions
    ) -> None:
        await sessions.here.add("a", "b", parent="p")
        lease = await sessions.here.take("a")
        held = await sessions.hold(sessions.here.work.start, [lease])
        call = sessions.there.cancel_children("p", unstarted_only=True)
        assert await sessions.after(*held, call) == ["b"]
        assert await sessions.here.complete(lease) == [OK]

    async def test_what_is_claimed_meanwhile_is_cancelled_under_its_new_epoch(
        self, sessions: Sessions
    ) -> None:
        await sessions.here.add("a")
        held = await sessions.hold(
            sessions.here.work.claim, queue="q", holder="one", n=1, start=True
        )
        assert await sessions.after(*held, sessions.there.cancel("a")) == [OK]
        assert await sessions.here.complete(*await held[1]) == [Verdict.CANCELLED]

    async def test_two_cancellations_at_once_are_one(self, sessions: Sessions) -> None:
        await sessions.here.add("a", "b")
        held = await sessions.hold(
            sessions.here.work.cancel, ["a", "b"], reason="enough", before="work.finish"
        )
        call = sessions.there.cancel("b", "a")
        assert await sessions.after(*held, call) == [Verdict.CANCELLED] * 2
        assert await sessions.here.story("a") == ["cancelled"]


class TestReplay:
    async def test_two_operators_replay_once(self, sessions: Sessions) -> None:
        await sessions.here.add("a")
        await sessions.here.kill("a")
        held = await sessions.hold(sessions.here.work.replay, ["a"], actor="one")
        assert await sessions.after(*held, sessions.there.replay("a")) == [False]
        assert await held[1] == [True]
        assert len(await sessions.here.claim(5)) == 1


class TestIdempotency:
    async def once(self, tx: Tx, body: bytes, answer: Any) -> Any:
        async def do() -> Any:
            return answer

        return await idempotency.once(tx, key="k", body=body, do=do)

    async def test_the_second_caller_waits_and_is_given_the_first_answer(
        self, sessions: Sessions
    ) -> None:
        held = await sessions.hold(self.once, b"x", 1, before="idempotency.answer")
        call = sessions.there.store.write(self.once, b"x", 2)
        assert await sessions.after(*held, call) == 1

    async def test_the_second_caller_with_another_body_is_refused(self, sessions: Sessions) -> None:
        held = await sessions.hold(self.once, b"x", 1, before="idempotency.answer")
        with pytest.raises(KeyReused):
            await sessions.after(*held, sessions.there.store.write(self.once, b"y", 2))

    async def test_the_second_caller_does_it_when_the_first_one_failed(
        self, sessions: Sessions
    ) -> None:
        pause = Pause()

        async def fail(tx: Tx) -> None:
            await self.once(tx, b"x", 1)
            await pause.stop(END)
            raise RuntimeError

        task = asyncio.create_task(sessions.here.store.write(fail))
        await pause.reached()
        call = sessions.there.store.write(self.once, b"y", 2)
        assert await sessions.after(pause, task, call) == 2
        with pytest.raises(RuntimeError):
            await task


class TestOwnership:
    @pytest.fixture
    async def runs(self, sessions: Sessions) -> Runs:
        await sessions.world.script(TABLE)
        runs = Runs(sessions.world)
        await runs.add("a", "b")
        return runs

    async def test_a_takeover_waits_for_who_has_passed_the_gate(
        self, sessions: Sessions, runs: Runs
    ) -> None:
        mine = await runs.take("one")
        held = await sessions.hold(runs.note_body, "one", mine, "mine")
        takeover = sessions.there.store.write(runs.ownership.takeover, ["a"])
        assert await sessions.after(*held, takeover) == [Owned("a", 2)]
        assert (await runs.row("a")).note == "mine", "written before the takeover, not after it"
        assert await runs.note("one", mine, "late") == {"b"}

    async def test_the_gate_waits_for_a_takeover_and_then_refuses(
        self, sessions: Sessions, runs: Runs
    ) -> None:
        mine = await runs.take("one")
        held = await sessions.hold(runs.ownership.takeover, ["a"])
        late = sessions.there.store.write(runs.note_body, "one", mine, "late")
        assert await sessions.after(*held, late) == {"b"}
        assert (await runs.row("a")).note is None

    async def test_who_has_passed_the_gate_is_not_robbed_meanwhile(
        self, sessions: Sessions, runs: Runs
    ) -> None:
        mine = await runs.take("one")
        await sessions.world.advance(121)
        pause, held = await sessions.hold(runs.note_body, "one", mine, "mine")
        take = runs.ownership.take
        assert await sessions.there.store.write(take, owner="two", n=5) == []
        pause.go()
        assert await held == {"a", "b"}
        assert len(await sessions.there.store.write(take, owner="two", n=5)) == 2

    async def test_the_gate_waits_for_who_takes_and_then_refuses(
        self, sessions: Sessions, runs: Runs
    ) -> None:
        mine = await runs.take("one")
        await sessions.world.advance(121)
        held = await sessions.hold(runs.ownership.take, owner="two", n=5)
        late = sessions.there.store.write(runs.note_body, "one", mine, "late")
        assert await sessions.after(*held, late) == set()

    async def test_a_heartbeat_that_waited_for_a_takeover_keeps_nothing(
        self, sessions: Sessions, runs: Runs
    ) -> None:
        await runs.take("one")
        held = await sessions.hold(runs.ownership.takeover, ["a"])
        beat = sessions.there.store.write(runs.ownership.heartbeat, owner="one")
        assert await sessions.after(*held, beat) == [Owned("b", 1)]


async def test_processes_that_start_together_migrate_once(postgres_url: str) -> None:
    stores = [postgres_store(postgres_url, seed=n) for n in range(4)]
    for store in stores:
        await store.open()
    try:
        applied = await asyncio.gather(*(migrate(store, [KERNEL]) for store in stores))
    finally:
        for store in stores:
            await store.close()
    assert sorted(len(each) for each in applied)[:-1] == [0, 0, 0]
    assert max(len(each) for each in applied) >= 1
