"""The bad connection: what is lost, what happened anyway, and what comes late."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from podium.kernel.errors import CommitUnknown, Unavailable
from podium.kernel.store import Tx
from podium.sim.faults import Faults
from podium.sim.world import Process, Role, World
from tests.sim.conftest import MakeWorld


async def add(tx: Tx, id: str) -> None:
    await tx.rows("orders.add", id=id, kind="plain")
    tx.ring("added")


def lives(world: World, main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def whole() -> None:
        await world.store.open()
        await main()

    world.loop.run(whole())


def boot(world: World, name: str = "one") -> Process:
    return world.boot(Role(name, lambda _: None))


def stored(world: World) -> list[str]:
    return [line.rows.split()[1] for line in world.trace.lines if line.rows.startswith("+orders")]


def test_a_call_lost_before_the_store_changes_nothing(make_world: MakeWorld) -> None:
    world = make_world(Faults(lost_before=1.0))

    async def main() -> None:
        with pytest.raises(Unavailable):
            await boot(world).store.write(add, "a")

    lives(world, main)
    assert stored(world) == []


def test_a_call_lost_after_the_store_happened(make_world: MakeWorld) -> None:
    world = make_world(Faults(lost_after=1.0))

    async def main() -> None:
        with pytest.raises(CommitUnknown):
            await boot(world).store.write(add, "a")

    lives(world, main)
    assert stored(world) == ["a"]


def test_a_full_disk_refuses_and_stores_nothing(make_world: MakeWorld) -> None:
    world = make_world(Faults(disk_full=1.0))

    async def main() -> None:
        process = boot(world)
        with pytest.raises(Unavailable):
            await process.store.write(add, "a")
        world.heal()
        await process.store.write(add, "b")

    lives(world, main)
    assert stored(world) == ["b"]


def test_a_stall_stops_the_process_exactly_in_front_of_the_write(make_world: MakeWorld) -> None:
    world = make_world(Faults(stall=1.0, stall_at=("add",)))
    sent_at: list[float] = []

    async def write(process: Process) -> None:
        sent_at.append(world.loop.time())
        await process.store.write(add, "a")

    async def main() -> None:
        process = boot(world)
        process.spawn(write(process))
        await asyncio.sleep(59)
        assert process.node.is_paused
        assert stored(world) == []
        await asyncio.sleep(400)

    lives(world, main)
    assert sent_at == [0]
    assert stored(world) == ["a"]


def test_a_stuck_call_leaves_its_process_running(make_world: MakeWorld) -> None:
    world = make_world(Faults(stuck=1.0, stuck_at=("add",)))
    ticks: list[float] = []

    async def tick() -> None:
        while True:
            await asyncio.sleep(1)
            ticks.append(world.loop.time())

    async def main() -> None:
        process = boot(world)
        process.spawn(process.store.write(add, "a"))
        process.spawn(tick())
        await asyncio.sleep(50)
        assert stored(world) == []
        await asyncio.sleep(400)

    lives(world, main)
    assert stored(world) == ["a"]
    assert len(ticks) >= 449


def test_what_was_sent_arrives_though_the_sender_is_dead(make_world: MakeWorld) -> None:
    world = make_world(Faults(stuck=1.0))

    async def main() -> None:
        process = boot(world)
        process.spawn(process.store.write(add, "a"))
        await asyncio.sleep(1)
        world.kill(process)
        await asyncio.sleep(400)

    lives(world, main)
    assert stored(world) == ["a"]


def rings(world: World, pause_seconds: float = 0.0) -> list[float]:
    """When the bell of a write by one process was heard by the other."""
    heard: list[float] = []

    async def listen(process: Process) -> None:
        listener = process.store.bell.listen("added")
        while True:
            if await listener.wait(1_000):
                heard.append(world.loop.time())

    async def main() -> None:
        speaker, hearer = boot(world), boot(world, "two")
        hearer.spawn(listen(hearer))
        await asyncio.sleep(1)
        if pause_seconds:
            hearer.node.pause()
            world.loop.later(pause_seconds, hearer.node.resume)
        await speaker.store.write(add, "a")
        await asyncio.sleep(100)

    lives(world, main)
    return heard


def test_a_bell_is_heard_by_the_others(make_world: MakeWorld) -> None:
    assert len(rings(make_world())) == 1


def test_a_lost_bell_is_not(make_world: MakeWorld) -> None:
    assert rings(make_world(Faults(ring_lost=1.0))) == []


def test_a_paused_process_hears_the_bell_when_it_is_resumed(make_world: MakeWorld) -> None:
    [heard_at] = rings(make_world(), pause_seconds=30.0)
    assert heard_at >= 31


def test_every_process_has_a_clock_of_its_own(make_world: MakeWorld) -> None:
    world = make_world()
    one, two = boot(world), boot(world, "two")
    one.clock.jump(3_600)
    assert (one.clock.now() - two.clock.now()).total_seconds() == 3_600
    assert one.clock.monotonic() == two.clock.monotonic()


def test_a_name_is_new_at_every_boot(make_world: MakeWorld) -> None:
    world = make_world()
    one = boot(world)
    world.kill(one)
    assert boot(world).name != one.name
