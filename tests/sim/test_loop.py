"""The loop: one seed, one history; and processes that stop between two instructions."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest

from podium.sim.loop import Node, SimLoop, Violation


@pytest.fixture
def loop() -> Iterator[SimLoop]:
    loop = SimLoop(random.Random(7))
    yield loop
    loop.dispose()


def lives(loop: SimLoop, *mains: Coroutine[Any, Any, Any]) -> None:
    async def all_of_them() -> None:
        await asyncio.gather(*mains)

    loop.run(all_of_them())


def order_of(seed: int) -> list[int]:
    loop = SimLoop(random.Random(seed))
    order: list[int] = []

    async def step(n: int) -> None:
        for _ in range(3):
            await asyncio.sleep(0)
            order.append(n)

    lives(loop, *(step(n) for n in range(5)))
    loop.dispose()
    return order


def test_one_seed_is_one_order() -> None:
    assert order_of(3) == order_of(3)


def test_seeds_differ_in_who_goes_first() -> None:
    assert len({tuple(order_of(seed)) for seed in range(5)}) > 1


def test_time_jumps_to_the_next_timer(loop: SimLoop) -> None:
    lives(loop, asyncio.sleep(86_400))
    assert loop.time() == 86_400
    assert loop.steps < 20


def test_a_paused_process_does_not_even_hear_its_timers(loop: SimLoop) -> None:
    node = Node(loop, "one")
    woke_at: list[float] = []

    async def nap() -> None:
        await asyncio.sleep(10)
        woke_at.append(loop.time())

    async def nemesis() -> None:
        node.spawn(nap())
        await asyncio.sleep(5)
        node.pause()
        await asyncio.sleep(100)
        assert woke_at == []
        node.resume()
        await asyncio.sleep(1)

    lives(loop, nemesis())
    assert woke_at == [105]


def test_what_a_process_started_is_paused_with_it(loop: SimLoop) -> None:
    node = Node(loop, "one")
    ticks: list[float] = []

    async def tick() -> None:
        while True:
            await asyncio.sleep(1)
            ticks.append(loop.time())

    async def parent() -> None:
        await asyncio.create_task(tick())

    async def nemesis() -> None:
        node.spawn(parent())
        await asyncio.sleep(2.5)
        node.pause()
        await asyncio.sleep(10)

    lives(loop, nemesis())
    assert ticks == [1, 2]


def test_nothing_of_a_killed_process_runs_again(loop: SimLoop) -> None:
    node = Node(loop, "one")
    said: list[str] = []

    async def speak() -> None:
        try:
            said.append("begun")
            await asyncio.sleep(10)
            said.append("awake")
        finally:
            said.append("cleaned up")

    async def nemesis() -> None:
        node.spawn(speak())
        await asyncio.sleep(5)
        node.kill()
        await asyncio.sleep(100)
        assert said == ["begun"]

    lives(loop, nemesis())


def test_a_violation_stops_the_world_at_that_step(loop: SimLoop) -> None:
    after: list[str] = []

    async def break_it() -> None:
        try:
            raise loop.violate("a_promise", "it was broken")
        except Violation:
            # Whoever swallows errors must not keep the world running.
            await asyncio.sleep(0)
            after.append("went on")

    async def bystander() -> None:
        while True:
            await asyncio.sleep(0)
            if loop.violation is not None:
                after.append("saw it")

    with pytest.raises(Violation, match="a_promise: it was broken") as raised:
        lives(loop, break_it(), bystander())
    assert raised.value.invariant == "a_promise"
    assert after == []


def test_the_first_violation_counts(loop: SimLoop) -> None:
    async def break_two() -> None:
        loop.violate("first", "this")
        loop.violate("second", "that")

    with pytest.raises(Violation, match="first"):
        lives(loop, break_two())


def test_a_callback_that_raises_is_a_violation(loop: SimLoop) -> None:
    async def main() -> None:
        loop.call_soon(lambda: 1 // 0)
        await asyncio.sleep(1)

    with pytest.raises(Violation, match="ZeroDivisionError"):
        lives(loop, main())


def test_waiting_for_nobody_is_a_violation(loop: SimLoop) -> None:
    with pytest.raises(Violation, match="nothing_hangs"):
        lives(loop, asyncio.Event().wait())
