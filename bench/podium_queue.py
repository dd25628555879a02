"""Podium by hand: lists in, batches out, each call one transaction."""

from __future__ import annotations

import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import uvloop

from bench.places import is_postgres
from bench.timing import Burst
from podium.backends.postgres import PostgresStore
from podium.backends.sqlite import SQLiteStore
from podium.kernel import migrate
from podium.kernel.clock import SystemClock
from podium.kernel.ids import Ulids
from podium.kernel.queries import POSTGRES, SQLITE, Queries
from podium.kernel.store import Store
from podium.kernel.work import Done, NewItem, Work

QUEUE = "bench"
HOLDER = "bench"
ENQUEUE = 1_000
"""Items per call of enqueue, for everybody who takes lists."""
FOLDERS = (migrate.SQL, Path(__file__).parent / "sql")


class Opened(NamedTuple):
    store: Store
    work: Work


@asynccontextmanager
async def opened(at: str) -> AsyncIterator[Opened]:
    """A migrated store at a URL or a path, and the queue on it."""
    clock, rng = SystemClock(), random.Random(1)
    store: Store
    if is_postgres(at):
        store = PostgresStore(at, clock=clock, queries=Queries(POSTGRES, FOLDERS), rng=rng)
    else:
        store = SQLiteStore(at, clock=clock, queries=Queries(SQLITE, FOLDERS))
    await store.open()
    try:
        await migrate.migrate(store, [migrate.KERNEL])
        work = Work(clock=clock, ids=Ulids(clock, rng), rng=rng)
        store.bell.watch(work.marks.on_ring)
        yield Opened(store, work)
    finally:
        await store.close()


def burst(at: str, items: int, batch: int) -> Burst:
    return uvloop.run(_burst(at, items, batch))


async def _burst(at: str, items: int, batch: int) -> Burst:
    async with opened(at) as (store, work):
        began = time.perf_counter()
        await fill(store, work, items)
        filled = time.perf_counter()
        drained = 0
        while drained < items:
            claimed = await store.write(work.claim, queue=QUEUE, holder=HOLDER, n=batch, start=True)
            verdicts = await store.write(work.complete, [Done(item) for item in claimed])
            assert claimed, f"{items - drained} items are missing"
            assert set(verdicts) == {"ok"}, verdicts
            drained += len(claimed)
        return Burst(filled - began, time.perf_counter() - filled)


async def fill(store: Store, work: Work, items: int) -> None:
    for start in range(0, items, ENQUEUE):
        part = range(start, min(start + ENQUEUE, items))
        await store.write(work.enqueue, [NewItem(QUEUE, {"n": n}) for n in part])
