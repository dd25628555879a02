from __future__ import annotations

import asyncio
import random

import pytest

from podium.engine import Supervisor, Ticking
from podium.kernel.bell import Bell
from podium.kernel.telemetry import Metrics


class Noted:
    """A part that notes what happens to it."""

    def __init__(self, name: str, notes: list[str], *, fails: str = "") -> None:
        self.name = name
        self.notes = notes
        self.fails = fails

    async def start(self) -> None:
        self._note("start")

    def ask_to_stop(self) -> None:
        self.notes.append(f"ask {self.name}")

    async def stop(self, grace_seconds: float) -> None:
        self._note("stop")

    def _note(self, what: str) -> None:
        self.notes.append(f"{what} {self.name}")
        if self.fails == what:
            raise RuntimeError(f"{self.name} cannot {what}")


async def test_parts_start_in_order_and_stop_in_the_opposite_one() -> None:
    notes: list[str] = []
    async with Supervisor([Noted("store", notes), Noted("engine", notes), Noted("http", notes)]):
        assert notes == ["start store", "start engine", "start http"]
    assert notes[3:6] == ["ask http", "ask engine", "ask store"]
    assert notes[6:] == ["stop http", "stop engine", "stop store"]


async def test_a_part_that_cannot_start_stops_those_before_it() -> None:
    notes: list[str] = []
    parts = [Noted("store", notes), Noted("engine", notes, fails="start"), Noted("http", notes)]
    with pytest.raises(RuntimeError, match="engine cannot start"):
        await Supervisor([*parts]).start()
    assert notes == ["start store", "start engine", "ask store", "stop store"]


async def test_a_part_that_fails_to_stop_does_not_keep_the_others() -> None:
    notes: list[str] = []
    async with Supervisor([Noted("store", notes), Noted("engine", notes, fails="stop")]):
        pass
    assert notes[-2:] == ["stop engine", "stop store"]


class Stubborn:
    name = "stubborn"
    channels: tuple[str, ...] = ()
    pause_seconds_max = 1.0

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.was_cancelled = False

    async def tick(self) -> float | None:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise
        return None


async def test_a_round_that_does_not_end_in_time_is_cancelled() -> None:
    service = Stubborn()
    part = Ticking(service, bell=Bell(), rng=random.Random(1), metrics=Metrics())
    supervisor = Supervisor([part], grace_seconds=0.01)
    await supervisor.start()
    await service.begun.wait()
    async with asyncio.timeout(5):
        await supervisor.stop()
    assert service.was_cancelled
