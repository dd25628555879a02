"""A migrated database, kept as bytes: a seed begins by copying it, which is cheap."""

from __future__ import annotations

import random
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from typing import Any

from podium.backends.sqlite import SQLiteStore
from podium.kernel.migrate import KERNEL, SQL, Room, migrate
from podium.kernel.queries import SQLITE, Queries
from podium.kernel.store import Tx
from podium.sim.clocks import VirtualClock
from podium.sim.loop import SimLoop

HERE = Path(__file__).parent
SIM = Room("sim", HERE / "migrations")
FOLDERS = [SQL, HERE / "sql"]
WATCHED = ("work", "work_finished", "journal", "runs", "steps", "commands", "orders", "received")


class Template:
    def __init__(self) -> None:
        self.image = b""
        self.makers: dict[str, Callable[[tuple[Any, ...]], Any]] = {}
        self.shapes: dict[str, Any] = {}
        loop = SimLoop(random.Random(0))
        try:
            loop.run(self._build(loop))
        finally:
            loop.dispose()

    async def _build(self, loop: SimLoop) -> None:
        store = SQLiteStore(":memory:", clock=VirtualClock(loop), queries=load_queries())
        await store.open()
        await migrate(store, [KERNEL, SIM])
        for table in WATCHED:
            columns = await store.read(_columns, table)
            self.makers[table] = getattr(namedtuple(table, columns), "_make")  # noqa: B009
        assert store._writer is not None
        self.image = store._writer.serialize("main")
        await store.close()


def load_queries() -> Queries:
    return Queries(SQLITE, FOLDERS)


async def _columns(tx: Tx, table: str) -> list[str]:
    return [row.name for row in await tx.rows("sim.columns", table=table)]
