"""An old snapshot held open on PostgreSQL: the remains of claimed rows cannot be cleared away."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import uvloop

from bench.backlog import Stretch, stretch
from bench.podium_queue import fill, opened

QUARTERS = 4


def quarters(at: str, level: int, seconds: float, held: bool) -> list[Stretch]:
    """The loop of `backlog` for a while, in four quarters; the last one has the most remains."""
    with _snapshot(at, held):
        return uvloop.run(_quarters(at, level, seconds, held))


async def _quarters(at: str, level: int, seconds: float, held: bool) -> list[Stretch]:
    async with opened(at) as podium:
        await fill(podium.store, podium.work, level)
        return [await stretch(podium, seconds / QUARTERS) for _ in range(QUARTERS)]


@contextmanager
def _snapshot(at: str, held: bool) -> Iterator[None]:
    with psycopg.connect(at, autocommit=True) as connection:
        if held:
            connection.execute("begin isolation level repeatable read")
            connection.execute("select count(*) from pg_class")
        yield
        if held:
            connection.execute("rollback")
