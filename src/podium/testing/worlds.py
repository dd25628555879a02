"""The world a suite runs in: a store on a database of its own, whose clock the test moves.

A backend takes a suite on by subclassing it and giving it a `world` fixture:

    class TestWork(WorkSuite):
        @pytest.fixture
        async def world(self, tmp_path): ...

What differs between backends stands here as words of the world (how a time column is declared, how
a row is made poisonous), so that no suite ever asks which backend it is talking to.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from typing import Any

from podium.kernel.bus import SqlBus
from podium.kernel.clock import ManualClock
from podium.kernel.ids import Ulids
from podium.kernel.store import Row, Store, Tx
from podium.kernel.work import Work
from podium.testing.desk import Desk


class World(ABC):
    types: dict[str, str]
    """How a column of type {time} or {bigint} is declared here."""

    def __init__(self, store: Store, clock: ManualClock) -> None:
        self.store = store
        self.clock = clock
        self.rng = random.Random(20_260_101)

    @abstractmethod
    async def advance(self, seconds: float) -> None:
        """Move the database's clock, and this process's with it."""

    @abstractmethod
    def refusal(self, table: str, operation: str, id: str) -> str:
        """A trigger that refuses every `operation` on the row `id` of `table`."""

    async def refuse(self, table: str, operation: str, id: str) -> None:
        await self.store.write(run_script, self.refusal(table, operation, id))

    async def script(self, text: str) -> None:
        await self.store.write(run_script, text.format(**self.types))

    async def query(self, source: str, **params: Any) -> list[Row]:
        """Run a query that only this test knows, in a transaction of its own."""
        name = self.know(source)
        return await self.store.write(run_query, name, **params)

    def know(self, source: str) -> str:
        """Teach the store a query, and get its name."""
        name = f"test.{abs(hash(source))}"
        self.store.queries.add(name, source)
        return name

    def ids(self) -> Ulids:
        return Ulids(self.clock, random.Random(self.rng.random()))

    def work(self, store: Store | None = None, *, ageing_seconds: float = 60.0) -> Work:
        work = Work(
            clock=self.clock,
            ids=self.ids(),
            rng=random.Random(self.rng.random()),
            ageing_seconds=ageing_seconds,
        )
        (store or self.store).bell.watch(work.marks.on_ring)
        return work

    def desk(self, store: Store | None = None, *, ageing_seconds: float = 60.0) -> Desk:
        """A queue and the store it is in, ready to be used."""
        store = store or self.store
        return Desk(store, self.work(store, ageing_seconds=ageing_seconds))

    def bus(self, work: Work | None = None) -> SqlBus:
        """What carries messages here, on a queue of its own or on the one given."""
        return SqlBus(work or self.work(), self.ids())

    hear_seconds = 0.0
    """How long to listen before it is sure that nothing comes."""

    async def relay_once(self) -> None:
        """Let everything that is ready to be told reach whoever tells it. Nobody does, on SQL."""
        return


class SharedWorld(World):
    """A world where several processes may open one database."""

    @abstractmethod
    async def another_store(self) -> Store:
        """A second store on the same database, closed with the world."""


async def run_script(tx: Tx, text: str) -> None:
    await tx.script(text)


async def run_query(tx: Tx, name: str, /, **params: Any) -> list[Row]:
    return await tx.rows(name, **params)
