"""Many callers with one item become one call with a list, and each still gets its own answer."""

from __future__ import annotations

import asyncio

import pytest

from podium.kernel.bell import Bell
from podium.kernel.coalesce import Coalescer
from podium.kernel.errors import Invalid, Unavailable


class Calls:
    """Doubles numbers, and remembers what it was called with."""

    def __init__(self, poison: int | None = None) -> None:
        self.lists: list[list[int]] = []
        self.poison = poison

    async def __call__(self, items: list[int]) -> list[int]:
        self.lists.append(items)
        await asyncio.sleep(0)
        if self.poison in items:
            raise Invalid("poison")
        return [item * 2 for item in items]


async def test_calls_that_gather_go_together() -> None:
    calls = Calls()
    double = Coalescer(calls, items_max=100)
    assert await asyncio.gather(*(double(n) for n in range(250))) == [n * 2 for n in range(250)]
    assert [len(items) for items in calls.lists] == [100, 100, 50]
    assert await double(7) == 14


async def test_one_bad_item_among_five_hundred_fails_alone() -> None:
    calls = Calls(poison=250)
    double = Coalescer(calls)
    outcomes = await asyncio.gather(*(double(n) for n in range(500)), return_exceptions=True)
    refused = [n for n, outcome in enumerate(outcomes) if isinstance(outcome, Invalid)]
    assert refused == [250]
    assert [o for o in outcomes if isinstance(o, int)] == [n * 2 for n in range(500) if n != 250]
    assert len(calls.lists) < 25, "split, not sent one by one"


async def test_a_store_that_is_away_fails_all_at_once() -> None:
    calls = 0

    async def away(items: list[int]) -> list[int]:
        nonlocal calls
        calls += 1
        raise Unavailable("gone")

    double = Coalescer(away)
    outcomes = await asyncio.gather(*(double(n) for n in range(50)), return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {Unavailable}
    assert calls == 1, "trying each half again would only make it worse"


async def test_a_bug_reaches_every_caller_and_the_next_call_works() -> None:
    fail = True

    async def call(items: list[int]) -> list[int]:
        if fail:
            raise ZeroDivisionError
        return items

    same = Coalescer(call)
    outcomes = await asyncio.gather(*(same(n) for n in range(3)), return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {ZeroDivisionError}
    fail = False
    assert await same(1) == 1


async def test_a_caller_that_gave_up_is_not_sent_and_disturbs_nobody() -> None:
    calls = Calls()
    double = Coalescer(calls)
    tasks = [asyncio.create_task(double(n)) for n in range(3)]
    await asyncio.sleep(0)
    tasks[1].cancel()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert (outcomes[0], outcomes[2]) == (0, 4)
    assert calls.lists == [[0, 2]]


async def test_a_list_of_answers_that_is_too_short_is_a_bug_that_is_seen() -> None:
    async def short(items: list[int]) -> list[int]:
        return items[1:]

    same = Coalescer(short)
    outcomes = await asyncio.wait_for(
        asyncio.gather(*(same(n) for n in range(3)), return_exceptions=True), 5
    )
    assert any(isinstance(outcome, Exception) for outcome in outcomes)


# The bell -------------------------------------------------------------------------------------


async def test_a_ring_wakes_who_waits_on_its_channel() -> None:
    bell = Bell()
    mine, other = bell.listen("a", "b"), bell.listen("c")
    waiting = asyncio.create_task(mine.wait(10))
    await asyncio.sleep(0)
    bell.ring("b")
    assert await waiting
    assert not await other.wait(0)


async def test_a_ring_between_two_waits_is_not_missed_and_counts_once() -> None:
    bell = Bell()
    listener = bell.listen("a")
    bell.ring("a")
    bell.ring("a")
    assert await listener.wait(0)
    assert not await listener.wait(0)


async def test_a_closed_listener_is_forgotten() -> None:
    bell = Bell()
    listener = bell.listen("a", "b")
    listener.close()
    listener.close()
    bell.ring("a")
    bell.ring_all()
    assert not await listener.wait(0)


async def test_everybody_is_woken_when_something_may_have_been_missed() -> None:
    bell = Bell()
    listeners = [bell.listen("a"), bell.listen("b")]
    heard: list[tuple[str, int | None]] = []
    bell.watch(lambda channel, hint: heard.append((channel, hint)))
    bell.ring_all()
    assert [await listener.wait(0) for listener in listeners] == [True, True]
    assert heard == [("a", None), ("b", None)]


async def test_a_watcher_hears_hints_at_once_on_every_channel() -> None:
    bell = Bell()
    heard: list[tuple[str, int | None]] = []
    bell.watch(lambda channel, hint: heard.append((channel, hint)))
    bell.ring("x", 5)
    bell.ring("y")
    assert heard == [("x", 5), ("y", None)]


async def test_waiting_ends_when_the_time_is_over() -> None:
    assert not await asyncio.wait_for(Bell().listen("a").wait(0.001), 5)


@pytest.mark.parametrize("channel", ["", "work:q", "ü" * 300])
async def test_a_channel_may_have_any_name(channel: str) -> None:
    bell = Bell()
    listener = bell.listen(channel)
    bell.ring(channel)
    assert await listener.wait(0)
