"""The floor on PostgreSQL: the least SQL that is still a queue, with nothing around it.

One narrow table, one partial index, no result, no journal, no lease, no fencing. What a queue
costs above this is what its promises cost.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import psycopg
import uvloop

from bench.podium_queue import ENQUEUE
from bench.timing import Burst, Turns

TABLES = b"""
create table item (
    id      bigint generated always as identity primary key,
    state   text not null default 'ready',
    payload text not null
);
create index item_ready on item (id) where state = 'ready';
create table result (id bigint primary key, result text not null);
"""
ENQUEUE_MANY = b"insert into item (payload) select unnest(%s::text[])"
CLAIM = b"""
update item set state = 'running'
 where id = any(array(select id from item where state = 'ready' order by id limit %s
                         for update skip locked))
returning id, payload
"""
DELETE = b"delete from item where id = any(%s)"


def burst(at: str, items: int, batch: int) -> Burst:
    with psycopg.connect(at, autocommit=True) as connection:
        connection.execute(TABLES)
        began = time.perf_counter()
        for start in range(0, items, ENQUEUE):
            part = range(start, min(start + ENQUEUE, items))
            connection.execute(ENQUEUE_MANY, ([f'{{"n":{n}}}' for n in part],))
        filled = time.perf_counter()
        drained = 0
        while drained < items:
            claimed = connection.execute(CLAIM, (batch,)).fetchall()
            assert claimed, f"{items - drained} items are missing"
            connection.execute(DELETE, ([id for id, _ in claimed],))
            drained += len(claimed)
        return Burst(filled - began, time.perf_counter() - filled)


def one_by_one(at: str, items: int) -> Turns:
    return uvloop.run(_one_by_one(at, items))


async def _one_by_one(at: str, items: int) -> Turns:
    """Insert and notify; the worker claims, then stores the result and notifies back."""
    turns = Turns()
    async with (
        await _connect(at) as submitter,
        await _connect(at) as worker,
        await _connect(at) as for_worker,
        await _connect(at) as for_submitter,
    ):
        await submitter.execute(TABLES)
        await for_worker.execute("listen ready")
        await for_submitter.execute("listen done")
        consumer = asyncio.create_task(_consume(worker, for_worker, items, turns))
        results = for_submitter.notifies()
        for n in range(items):
            turns.submit()
            await submitter.execute(
                "with new as (insert into item (payload) values (%s) returning id)"
                " select pg_notify('ready', '') from new",
                (f'{{"n":{n}}}',),
            )
            notice = await anext(results)
            cursor = await submitter.execute(
                "select result from result where id = %s", (int(notice.payload),)
            )
            assert await cursor.fetchone()
            turns.seen()
        await consumer
        await results.aclose()
    return turns


async def _connect(at: str) -> psycopg.AsyncConnection[Any]:
    return await psycopg.AsyncConnection.connect(at, autocommit=True, prepare_threshold=1)


async def _consume(
    worker: psycopg.AsyncConnection[Any],
    bell: psycopg.AsyncConnection[Any],
    items: int,
    turns: Turns,
) -> None:
    notices = bell.notifies()
    for _ in range(items):
        await anext(notices)
        cursor = await worker.execute(CLAIM, (1,))
        [(id, _)] = await cursor.fetchall()
        turns.begun()
        await worker.execute(
            "with gone as (delete from item where id = %s returning id),"
            " kept as (insert into result select id, '1' from gone returning id)"
            " select pg_notify('done', id::text) from kept",
            (id,),
        )
    await notices.aclose()
