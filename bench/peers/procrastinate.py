"""Procrastinate on PostgreSQL: lists of jobs in; a worker that fetches and finishes them one by one."""

from __future__ import annotations

import asyncio
import time

import procrastinate
import psycopg
import uvloop
from procrastinate.jobs import Status
from procrastinate.types import JSONDict

from bench.podium_queue import ENQUEUE, QUEUE
from bench.timing import Burst, Turns

CONCURRENCY = 5
"""Beyond this its drain gets no faster here."""
POLL_SECONDS = 0.001
"""A client of Procrastinate learns of the end of a job only by asking for its status."""


def burst(at: str, items: int, batch: int) -> Burst:
    return uvloop.run(_burst(at, items))


async def _burst(at: str, items: int) -> Burst:
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=at))
    done = 0

    @app.task(name="nothing", queue=QUEUE)
    async def nothing(n: int) -> None:
        nonlocal done
        done += 1

    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        began = time.perf_counter()
        for start in range(0, items, ENQUEUE):
            part = range(start, min(start + ENQUEUE, items))
            arguments: list[JSONDict] = [{"n": n} for n in part]
            await nothing.batch_defer_async(*arguments)
        filled = time.perf_counter()
        await _analyze(at)
        began_drain = time.perf_counter()
        await app.run_worker_async(
            queues=[QUEUE], concurrency=CONCURRENCY, wait=False, install_signal_handlers=False
        )
        ended = time.perf_counter()
    assert done == items, f"{items - done} jobs are missing"
    return Burst(filled - began, ended - began_drain)


async def _analyze(at: str) -> None:
    """What autovacuum would do a minute later: without it PostgreSQL picks a plan that crawls."""
    async with await psycopg.AsyncConnection.connect(at, autocommit=True) as connection:
        await connection.execute("analyze")


def one_by_one(at: str, items: int) -> Turns:
    return uvloop.run(_one_by_one(at, items))


async def _one_by_one(at: str, items: int) -> Turns:
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=at))
    turns = Turns()

    @app.task(name="one", queue=QUEUE)
    async def one(n: int) -> int:
        turns.begun()
        return 1

    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        worker = asyncio.create_task(
            app.run_worker_async(queues=[QUEUE], install_signal_handlers=False)
        )
        await asyncio.sleep(0.5)
        for n in range(items):
            turns.submit()
            id = await one.defer_async(n=n)
            while await app.job_manager.get_job_status_async(id) != Status.SUCCEEDED:  # noqa: ASYNC110
                await asyncio.sleep(POLL_SECONDS)
            turns.seen()
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)
    return turns
