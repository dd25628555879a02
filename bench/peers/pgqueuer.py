"""pgqueuer on PostgreSQL, over asyncpg, in batches: the fastest settings that it documents."""

from __future__ import annotations

import asyncio
import time

import asyncpg
import uvloop
from pgqueuer import AsyncpgDriver, PgQueuer, Queries
from pgqueuer.models import Job
from pgqueuer.types import QueueExecutionMode

from bench.podium_queue import ENQUEUE, QUEUE
from bench.timing import Burst, Turns

POLL_SECONDS = 0.001


def burst(at: str, items: int, batch: int) -> Burst:
    return uvloop.run(_burst(at, items, batch))


async def _burst(at: str, items: int, batch: int) -> Burst:
    done = 0
    connection = await asyncpg.connect(at)
    try:
        queries = Queries(AsyncpgDriver(connection))
        await queries.install()
        began = time.perf_counter()
        for start in range(0, items, ENQUEUE):
            part = range(start, min(start + ENQUEUE, items))
            payloads: list[bytes | None] = [b'{"n":%d}' % n for n in part]
            await queries.enqueue([QUEUE] * len(part), payloads, [0] * len(part))
        filled = time.perf_counter()
        queue = PgQueuer.from_asyncpg_connection(connection)

        @queue.entrypoint(QUEUE)
        async def nothing(job: Job) -> None:
            nonlocal done
            done += 1

        await queue.qm.run(batch_size=batch, mode=QueueExecutionMode.drain)
        ended = time.perf_counter()
    finally:
        await connection.close()
    assert done == items, f"{items - done} jobs are missing"
    return Burst(filled - began, ended - filled)


def one_by_one(at: str, items: int) -> Turns:
    return uvloop.run(_one_by_one(at, items))


async def _one_by_one(at: str, items: int) -> Turns:
    turns = Turns()
    connection, asking = await asyncpg.connect(at), await asyncpg.connect(at)
    try:
        queries = Queries(AsyncpgDriver(asking))
        await queries.install()
        queue = PgQueuer.from_asyncpg_connection(connection)

        @queue.entrypoint(QUEUE)
        async def one(job: Job) -> None:
            turns.begun()

        worker = asyncio.create_task(queue.qm.run(batch_size=100))
        await asyncio.sleep(0.5)
        for n in range(items):
            turns.submit()
            ids = await queries.enqueue(QUEUE, b'{"n":%d}' % n)
            # Its own CompletionWatcher adds 50 ms by default; asking directly is kinder.
            while [status for _, status in await queries.job_status(ids)] != ["successful"]:  # noqa: ASYNC110
                await asyncio.sleep(POLL_SECONDS)
            turns.seen()
        queue.shutdown.set()
        await worker
    finally:
        await connection.close()
        await asking.close()
    return turns
