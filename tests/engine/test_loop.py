from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest

from podium.engine import keep_ticking
from podium.kernel.bell import Bell
from podium.kernel.errors import Unavailable
from podium.kernel.telemetry import Metrics
from tests.engine.conftest import sample

DEADLINE_SECONDS = 5.0


class Counting:
    """A service that counts its rounds, and does in each what the script says."""

    name = "counting"
    channels = ("door",)
    pause_seconds_max = 1_000.0

    def __init__(self, script: list[float | BaseException | None]) -> None:
        self.script = script
        self.ticks = 0
        self.during: Callable[[], None] = lambda: None
        self.ticked = asyncio.Condition()

    async def tick(self) -> float | None:
        self.ticks += 1
        self.during()
        async with self.ticked:
            self.ticked.notify_all()
        step = self.script.pop(0) if self.script else None
        if isinstance(step, BaseException):
            raise step
        return step

    async def has_ticked(self, times: int) -> None:
        async with asyncio.timeout(DEADLINE_SECONDS), self.ticked:
            await self.ticked.wait_for(lambda: self.ticks >= times)


class Running:
    def __init__(self, service: Counting) -> None:
        self.bell = Bell()
        self.stop = asyncio.Event()
        self.metrics = Metrics()
        self.task = asyncio.create_task(
            keep_ticking(
                service,
                bell=self.bell,
                stop=self.stop,
                rng=random.Random(1),
                metrics=self.metrics,
            )
        )

    async def __aenter__(self) -> Running:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stop.set()
        async with asyncio.timeout(DEADLINE_SECONDS):
            await self.task


async def test_an_idle_service_ticks_once_and_sleeps_until_its_bell_rings() -> None:
    service = Counting([])
    async with Running(service) as running:
        await service.has_ticked(1)
        for _ in range(20):
            await asyncio.sleep(0)
        assert service.ticks == 1
        running.bell.ring("door")
        await service.has_ticked(2)


async def test_a_ring_during_a_round_is_not_missed() -> None:
    service = Counting([])
    running = Running(service)
    service.during = lambda: running.bell.ring("door") if service.ticks == 1 else None
    async with running:
        await service.has_ticked(2)


async def test_a_service_that_has_more_to_do_goes_on_without_a_bell() -> None:
    service = Counting([0.0, 0.0, 0.0])
    async with Running(service):
        await service.has_ticked(4)


async def test_a_service_is_called_at_the_moment_it_named() -> None:
    service = Counting([0.01, None])
    async with Running(service):
        await service.has_ticked(2)


@pytest.mark.parametrize(
    "error", [ValueError("a bug"), Unavailable("away"), asyncio.CancelledError("inside")]
)
async def test_a_failed_round_does_not_end_the_service(error: BaseException) -> None:
    service = Counting([error])
    async with Running(service) as running:
        await service.has_ticked(2)
        assert sample(running.metrics, "podium_service_failures_total", service="counting") == 1


async def test_stopping_wakes_a_sleeper_at_once() -> None:
    service = Counting([])
    running = Running(service)
    await service.has_ticked(1)
    running.stop.set()
    async with asyncio.timeout(DEADLINE_SECONDS):
        await running.task
    assert service.ticks == 1
