"""Many callers with one small write each: what group commit and the coalescer are for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import uvloop

from bench.podium_queue import QUEUE, opened
from podium.kernel.coalesce import Coalescer
from podium.kernel.store import Tx
from podium.kernel.work import Enqueued, NewItem

TABLE = "create table small (caller int not null, n int not null)"


def transactions(at: str, callers: int, calls: int) -> float:
    """Transactions per second: each inserts one row, and returns when it is on the disk."""
    return uvloop.run(_transactions(at, callers, calls))


async def _transactions(at: str, callers: int, calls: int) -> float:
    async with opened(at) as (store, _):
        await store.write(_create)
        rate = await _rate(callers, calls, lambda caller, n: store.write(_put, caller, n))
        assert await store.read(_count) == callers * calls
        return rate


def enqueues(at: str, callers: int, calls: int, coalesced: bool) -> float:
    """Items per second, each enqueued by a caller that waits for it, together or apart."""
    return uvloop.run(_enqueues(at, callers, calls, coalesced))


async def _enqueues(at: str, callers: int, calls: int, coalesced: bool) -> float:
    async with opened(at) as (store, work):

        async def enqueue(items: list[NewItem]) -> list[Enqueued]:
            return await store.write(work.enqueue, items)

        async def alone(item: NewItem) -> Enqueued:
            return (await enqueue([item]))[0]

        together = Coalescer(enqueue) if coalesced else alone
        return await _rate(callers, calls, lambda _, n: together(NewItem(QUEUE, {"n": n})))


async def _rate(callers: int, calls: int, call: Callable[[int, int], Awaitable[object]]) -> float:
    async def caller(number: int) -> None:
        for n in range(calls):
            await call(number, n)

    began = time.perf_counter()
    await asyncio.gather(*(caller(number) for number in range(callers)))
    return callers * calls / (time.perf_counter() - began)


async def _create(tx: Tx) -> None:
    await tx.script(TABLE)


async def _put(tx: Tx, caller: int, n: int) -> None:
    await tx.rows("small.put", caller=caller, n=n)


async def _count(tx: Tx) -> int:
    count: int = (await tx.rows("small.count"))[0].count
    return count
