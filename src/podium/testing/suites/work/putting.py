"""Putting work in: each id once, and nothing that could not be kept."""

from __future__ import annotations

from typing import Any

import pytest

from podium.contracts.errors import Code
from podium.kernel.errors import Invalid, TooLarge
from podium.kernel.retry import RetryPolicy
from podium.kernel.store import ROWS_MAX
from podium.kernel.wake import SWEEP
from podium.kernel.work import Enqueued, Verdict
from podium.kernel.work.queue import channel
from podium.testing.desk import Desk, item
from podium.testing.suites.work.base import WorkSuite
from podium.testing.worlds import World

NAN, INFINITY = float("nan"), float("inf")

REFUSED: list[tuple[str, Any]] = [
    ("id", "a\0b"),
    ("id", "x" * 256),
    ("id", "line\nbreak"),
    ("id", "lone \ud800 surrogate"),
    ("id", 7),
    ("queue", ""),
    ("queue", "q\x7f"),
    ("parent", ""),
    ("parent", "p\0"),
    ("dedupe_key", ""),
    ("dedupe_key", "x" * 256),
    ("priority", -1),
    ("priority", 11),
    ("priority", 1.5),
    ("priority", "high"),
    ("attempts_max", 0),
    ("attempts_max", 10_001),
    ("delay_seconds", -1),
    ("delay_seconds", NAN),
    ("delay_seconds", INFINITY),
    ("delay_seconds", 1e10),
    ("ttl_seconds", 0),
    ("ttl_seconds", -1),
    ("ttl_seconds", "soon"),
    ("lease_seconds", 0),
    ("lease_seconds", INFINITY),
    ("run_seconds_max", 0),
    ("run_seconds_max", NAN),
    ("wait_seconds_max", 0),
    ("wait_seconds_max", 1e10),
    ("payload", {"a": "\0"}),
    ("payload", "\ud800"),
    ("payload", NAN),
    ("payload", {1, 2}),
    ("payload", 2**64),
    ("properties", {"x": "\0"}),
]


class PuttingInSuite(WorkSuite):
    async def test_a_new_item_is_ready_with_all_it_came_with(self, desk: Desk) -> None:
        retry = RetryPolicy(base_seconds=3)
        everything = item(
            "a",
            payload={"x": ["ü", 1, None]},
            priority=3,
            parent="p",
            properties={"k": "v"},
            attempts_max=7,
            retry=retry,
            lease_seconds=11,
        )
        assert await desk.enqueue(everything) == [Enqueued("a", True)]
        row = await desk.live("a")
        assert (row.state, row.queue, row.priority, row.parent) == ("ready", "q", 3, "p")
        assert (row.epoch, row.attempts, row.attempts_max) == (0, 0, 7)
        claimed = await desk.take("a")
        assert claimed.body == {"x": ["ü", 1, None]}
        assert claimed.properties == '{"k":"v"}'
        assert claimed.lease_seconds == 11

    async def test_an_item_without_an_id_gets_one(self, desk: Desk) -> None:
        first, second = await desk.enqueue(item(), item())
        assert first.created
        assert second.created
        assert first.id < second.id

    async def test_an_id_that_is_known_is_not_enqueued_again(self, desk: Desk) -> None:
        await desk.add("a", payload=1)
        assert await desk.enqueue(item("a", payload=2)) == [Enqueued("a", False)]
        assert (await desk.take("a")).body == 1

    async def test_an_id_that_was_finished_is_not_run_again(self, desk: Desk) -> None:
        """P3: whatever is sent twice is done once, also after it was done."""
        await desk.add("done", "dead", "cancelled")
        await desk.complete(await desk.run("done"))
        await desk.kill("dead")
        await desk.cancel("cancelled")
        again = await desk.enqueue(item("done"), item("dead"), item("cancelled"), item("new"))
        assert [each.created for each in again] == [False, False, False, True]
        assert [each.id for each in await desk.claim(10)] == ["new"]

    async def test_one_id_twice_in_one_list_is_created_once(self, desk: Desk) -> None:
        answers = await desk.enqueue(item("a", payload=1), item("b"), item("a", payload=2))
        assert [each.created for each in answers] == [True, True, False]
        assert (await desk.take("a")).body == 1

    async def test_two_unfinished_items_never_share_a_dedupe_key(self, desk: Desk) -> None:
        await desk.add("a", dedupe_key="k")
        again = await desk.enqueue(item("b", dedupe_key="k"), item("c", dedupe_key="other"))
        assert again == [Enqueued("a", False), Enqueued("c", True)]
        assert await desk.state("b") is None

    async def test_one_dedupe_key_twice_in_one_list_names_the_first(self, desk: Desk) -> None:
        answers = await desk.enqueue(item("a", dedupe_key="k"), item("b", dedupe_key="k"))
        assert answers == [Enqueued("a", True), Enqueued("a", False)]

    async def test_a_dedupe_key_is_free_again_when_its_item_is_finished(self, desk: Desk) -> None:
        await desk.add("a", dedupe_key="k")
        await desk.complete(await desk.run("a"))
        assert await desk.enqueue(item("b", dedupe_key="k")) == [Enqueued("b", True)]

    async def test_a_known_id_with_a_new_dedupe_key_says_its_own_id(self, desk: Desk) -> None:
        await desk.add("a")
        assert await desk.enqueue(item("a", dedupe_key="k")) == [Enqueued("a", False)]

    async def test_too_many_rows_are_refused_before_any_is_written(self, desk: Desk) -> None:
        with pytest.raises(Invalid) as refused:
            await desk.enqueue(*(item() for _ in range(ROWS_MAX + 1)))
        assert refused.value.code == Code.VALIDATION_INVALID_PARAMS
        assert await desk.store.read(desk.work.depth, queue="q") == 0

    async def test_a_full_list_is_taken(self, desk: Desk) -> None:
        answers = await desk.enqueue(*(item() for _ in range(ROWS_MAX)))
        assert all(answer.created for answer in answers)

    async def test_an_empty_list_changes_nothing(self, desk: Desk) -> None:
        assert await desk.enqueue() == []

    @pytest.mark.parametrize(("field", "value"), REFUSED, ids=lambda v: repr(v)[:20])
    async def test_what_cannot_be_kept_is_refused_by_name(
        self, desk: Desk, field: str, value: Any
    ) -> None:
        with pytest.raises(Invalid) as refused:
            await desk.enqueue(item("good"), item(**{field: value}))
        assert refused.value.details["field"] == field
        assert await desk.state("good") is None, "the whole list stands or falls"

    async def test_a_payload_of_ten_megabytes_is_too_large(self, desk: Desk) -> None:
        with pytest.raises(TooLarge) as refused:
            await desk.enqueue(item(payload="x" * 10_000_000))
        assert refused.value.code == Code.PAYLOAD_TOO_LARGE

    async def test_names_may_be_any_readable_text(self, desk: Desk) -> None:
        odd = "ü/'\"%s:x(🎭) \\ --"
        await desk.enqueue(item(odd, queue=odd, parent=odd, dedupe_key=odd))
        (claimed,) = await desk.claim(queue=odd, holder=odd, start=True)
        assert (claimed.id, claimed.queue, claimed.parent) == (odd, odd, odd)
        assert await desk.complete(claimed) == [Verdict.OK]

    async def test_what_becomes_ready_rings_its_queue_after_the_commit(self, desk: Desk) -> None:
        rung = desk.store.bell.listen(channel("q"))
        with pytest.raises(Invalid):
            await desk.enqueue(item("a"), item(priority=99))
        assert not await rung.wait(0)
        await desk.add("a")
        assert await rung.wait(0)

    async def test_what_is_due_soon_wakes_the_sweeper_and_no_worker(self, desk: Desk) -> None:
        rung, swept = desk.store.bell.listen(channel("q")), desk.store.bell.listen(SWEEP)
        await desk.add("later", delay_seconds=3_600)
        assert not await swept.wait(0)
        await desk.add("soon", delay_seconds=1)
        assert await swept.wait(0)
        assert not await rung.wait(0)

    async def test_counts_are_by_queue_and_state(self, world: World, desk: Desk) -> None:
        await desk.add("a", "b", "c", "d", "e")
        await desk.add("s", delay_seconds=60)
        await desk.add("other", queue="other")
        await desk.kill("a")
        await desk.complete(await desk.run("b"))
        await desk.run("c")
        await desk.take("d")
        counts = await world.store.read_long(desk.work.counts)
        assert counts == {
            ("q", "dead"): 1,
            ("q", "running"): 1,
            ("q", "leased"): 1,
            ("q", "ready"): 1,
            ("q", "scheduled"): 1,
            ("other", "ready"): 1,
        }

    async def test_depth_counts_what_is_ready_no_further_than_asked(self, desk: Desk) -> None:
        await desk.add(*"abcde")
        await desk.add("later", delay_seconds=60)
        assert await desk.store.read(desk.work.depth, queue="q") == 5
        assert await desk.store.read(desk.work.depth, queue="q", at_most=3) == 3
        assert await desk.store.read(desk.work.depth, queue="empty") == 0
