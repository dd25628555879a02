"""Two sessions, interleaved exactly: one body stops before a named query while the other runs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import psycopg

from podium.kernel.store import Row, Store, Tx
from podium.testing.desk import Desk
from tests.worlds import PostgresWorld

DEADLINE_SECONDS = 10.0
END = "the end, before the commit"

WAITING = """
select count(*) from pg_stat_activity
 where datname = current_database() and wait_event_type = 'Lock'
"""


class Pause:
    """Stops a body before `query`, or at its END, until `go`."""

    def __init__(self, query: str = END) -> None:
        self._query = query
        self._reached = asyncio.Event()
        self._go = asyncio.Event()

    def of(self, body: Callable[..., Awaitable[Any]]) -> Callable[..., Coroutine[Any, Any, Any]]:
        async def paused(tx: Tx, *args: Any, **kwargs: Any) -> Any:
            result = await body(PausedTx(tx, self), *args, **kwargs)
            await self.stop(END)
            return result

        return paused

    async def stop(self, query: str) -> None:
        if query == self._query:
            self._reached.set()
            await self._go.wait()

    async def reached(self) -> None:
        await asyncio.wait_for(self._reached.wait(), DEADLINE_SECONDS)

    def go(self) -> None:
        self._go.set()


class PausedTx:
    def __init__(self, tx: Tx, pause: Pause) -> None:
        self._tx = tx
        self._pause = pause

    async def rows(self, query: str, /, **params: Any) -> list[Row]:
        await self._pause.stop(query)
        return await self._tx.rows(query, **params)

    async def script(self, text: str) -> None:
        await self._tx.script(text)

    def ring(self, channel: str, hint: int | None = None) -> None:
        self._tx.ring(channel, hint)


class Sessions:
    """Two desks on one database, each with a store of its own, and an eye on the locks."""

    def __init__(self, world: PostgresWorld, other: Store) -> None:
        self.world = world
        self.here = world.desk()
        self.there: Desk = world.desk(other)

    async def one_waits(self) -> None:
        """Until one session waits for a lock that another one holds."""
        deadline = asyncio.get_running_loop().time() + DEADLINE_SECONDS
        async with await psycopg.AsyncConnection.connect(self.world.url, autocommit=True) as eye:
            while True:
                row = await (await eye.execute(WAITING)).fetchone()
                if row and row[0] >= 1:
                    return
                if asyncio.get_running_loop().time() > deadline:
                    raise AssertionError("nobody waits for a lock")

    async def hold(
        self, body: Callable[..., Awaitable[Any]], *args: Any, before: str = END, **kwargs: Any
    ) -> tuple[Pause, asyncio.Task[Any]]:
        """Begin `body` here and stop it there; the caller lets it go on."""
        pause = Pause(before)
        task = asyncio.create_task(self.here.store.write(pause.of(body), *args, **kwargs))
        arrived = asyncio.create_task(pause.reached())
        await asyncio.wait([task, arrived], return_when=asyncio.FIRST_COMPLETED)
        assert arrived.done(), f"the body ended before {before}: {task}"
        await arrived
        return pause, task

    async def after(self, pause: Pause, held: asyncio.Task[Any], call: Awaitable[Any]) -> Any:
        """`call` waits for the held body; then both end. What `call` says."""
        waiting = asyncio.ensure_future(call)
        await self.one_waits()
        assert not waiting.done()
        pause.go()
        await asyncio.wait([held])
        return await asyncio.wait_for(waiting, DEADLINE_SECONDS)
