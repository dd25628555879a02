"""Podium as an application runs it: a `WorkConsumer` in the engine's loop, woken by bells."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import uvloop

from bench.podium_queue import HOLDER, QUEUE, Opened, fill, opened
from bench.timing import Burst, Turns
from podium.engine import Supervisor, Ticking, WorkConsumer
from podium.engine.consumer import Handle
from podium.kernel import journal
from podium.kernel.telemetry import Metrics
from podium.kernel.work import Claimed, Done, NewItem

SAFETY_SECONDS = 5.0
PAUSE_SECONDS = 0.002
"""Between two items, so that the consumer is asleep when the next one comes."""


def burst(at: str, items: int, batch: int) -> Burst:
    return uvloop.run(_burst(at, items, batch))


async def _burst(at: str, items: int, batch: int) -> Burst:
    done = 0
    last: list[str] = []

    async def nothing(claimed: list[Claimed]) -> Sequence[Done]:
        nonlocal done, last
        done += len(claimed)
        last = [item.id for item in claimed]
        return [Done(item) for item in claimed]

    async with opened(at) as podium:
        began = time.perf_counter()
        await fill(podium.store, podium.work, items)
        filled = time.perf_counter()
        finished = podium.store.bell.listen(journal.CHANNEL)
        async with consuming(podium, nothing, batch):
            while done < items:
                await finished.wait(SAFETY_SECONDS)
            # The last list was handled; it is over when its results are there.
            while len(await podium.store.read(podium.work.finished, last)) < len(last):
                await finished.wait(SAFETY_SECONDS)
            ended = time.perf_counter()
        finished.close()
    return Burst(filled - began, ended - filled)


def one_by_one(at: str, items: int) -> Turns:
    return uvloop.run(_one_by_one(at, items))


async def _one_by_one(at: str, items: int) -> Turns:
    turns = Turns()

    async def one(claimed: list[Claimed]) -> Sequence[Done]:
        turns.begun()
        return [Done(item, 1) for item in claimed]

    async with opened(at) as podium, consuming(podium, one, 100):
        finished = podium.store.bell.listen(journal.CHANNEL)
        for n in range(items):
            turns.submit()
            item = NewItem(QUEUE, {"n": n})
            [enqueued] = await podium.store.write(podium.work.enqueue, [item])
            while not await podium.store.read(podium.work.finished, [enqueued.id]):
                await finished.wait(SAFETY_SECONDS)
            turns.seen()
            await asyncio.sleep(PAUSE_SECONDS)
        finished.close()
    return turns


@asynccontextmanager
async def consuming(podium: Opened, handle: Handle, batch: int) -> AsyncIterator[None]:
    metrics = Metrics()
    consumer = WorkConsumer(
        podium.store,
        podium.work,
        queue=QUEUE,
        holder=HOLDER,
        handle=handle,
        metrics=metrics,
        items_max=batch,
    )
    part = Ticking(consumer, bell=podium.store.bell, rng=random.Random(3), metrics=metrics)
    async with Supervisor([part]):
        yield
