"""Duties that others hand to the janitor."""

from __future__ import annotations

import pytest

from podium.engine import Janitor
from podium.engine.janitor import PIECES_PER_TICK, THINGS_PER_PIECE
from podium.kernel.errors import Unavailable
from podium.kernel.telemetry import Metrics
from tests.engine.conftest import sample
from tests.worlds import SQLiteWorld


class Heap:
    """Of things that nobody wants."""

    def __init__(self, size: int) -> None:
        self.size = size

    async def collect(self, n: int) -> int:
        count = min(n, self.size)
        self.size -= count
        return count


async def test_a_duty_is_done_in_pieces_until_nothing_is_left(
    world: SQLiteWorld, metrics: Metrics
) -> None:
    heap = Heap(2 * THINGS_PER_PIECE + 1)
    assert await Janitor(world.store, metrics, duties={"blobs": heap.collect}).tick() is None
    assert heap.size == 0
    assert sample(metrics, "podium_pruned_total", what="blobs") == 2 * THINGS_PER_PIECE + 1


async def test_a_heap_too_large_for_one_round_is_gone_on_with_soon(
    world: SQLiteWorld, metrics: Metrics
) -> None:
    heap = Heap(PIECES_PER_TICK * THINGS_PER_PIECE + 1)
    assert await Janitor(world.store, metrics, duties={"blobs": heap.collect}).tick() == 1.0
    assert heap.size == 1


async def test_a_duty_that_fails_is_seen_and_keeps_no_other_waiting(
    world: SQLiteWorld, metrics: Metrics
) -> None:
    async def broken(n: int) -> int:
        raise Unavailable("the bucket does not answer")

    heap = Heap(5)
    duties = {"broken": broken, "heap": heap.collect}
    with pytest.raises(Unavailable):
        await Janitor(world.store, metrics, duties=duties).tick()
    assert heap.size == 0
