"""The store as the virtual world has it: one that is real, and many bad connections to it.

`SharedStore` is the SQLite store, in memory, born with the schema, and it tells every row that
changes. `SimStore` is what one process holds: a call takes time to arrive, may be lost on the way
there or on the way back, may arrive minutes late or after its sender is dead; and the bells of the
others reach it late, twice, or not at all.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any, NamedTuple, ParamSpec, Protocol, TypeVar

import apsw

from podium.backends.sqlite import SQLiteStore
from podium.kernel.bell import Bell
from podium.kernel.clock import Clock
from podium.kernel.errors import CommitUnknown, Unavailable
from podium.kernel.queries import Queries
from podium.kernel.store import Body, Tx
from podium.kernel.telemetry import Metrics
from podium.sim.faults import Faults
from podium.sim.loop import Node, SimLoop

P = ParamSpec("P")
R = TypeVar("R")

TRAVEL_SECONDS = 0.004
SLOW_CHANCE = 0.02
SLOW_SECONDS_MAX = 3.0
STALLS_SECONDS = (60.0, 150.0, 300.0)
RING_SECONDS = 0.002
RING_LATE_SECONDS_MAX = 8.0


class Change(NamedTuple):
    """One row of a table, before and after; None where there was none."""

    table: str
    old: Any
    new: Any


class Template(Protocol):
    """A database with its schema, as bytes, and how to read its rows."""

    image: bytes
    makers: dict[str, Callable[[tuple[Any, ...]], Any]]
    """Per watched table, its row as a named tuple."""
    shapes: dict[str, Any]


class SharedStore(SQLiteStore):
    def __init__(
        self,
        template: Template,
        *,
        clock: Clock,
        queries: Queries,
        metrics: Metrics,
        is_full: Callable[[], bool],
    ) -> None:
        super().__init__(":memory:", clock=clock, queries=queries, metrics=metrics)
        self._template = template
        self._is_full = is_full
        self.changes: list[Change] = []
        """Of the body that is running now."""

    async def open(self) -> None:
        await super().open()
        assert self._writer is not None
        self._writer.deserialize("main", self._template.image)
        self._writer.preupdate_hook(self._changed)
        # What a row looks like is the same in every seed, and dear to find out.
        self._write_tx._shapes = self._read_tx._shapes = self._template.shapes

    def _begin(self, db: apsw.Connection) -> None:
        if self._is_full():
            raise apsw.FullError("no space left on the virtual disk")
        super()._begin(db)

    def _changed(self, change: apsw.PreUpdate) -> None:
        make = self._template.makers.get(change.table_name)
        if make is not None:
            old, new = change.old, change.new
            self.changes.append(
                Change(
                    change.table_name,
                    None if old is None else make(old),
                    None if new is None else make(new),
                )
            )


class Observer(Protocol):
    """Sees every transaction at the instant it happens, before anybody can act on it."""

    def observe(
        self, node: Node, body: str, args: tuple[Any, ...], result: Any, changes: list[Change]
    ) -> None: ...

    def tell(self, node: Node, what: str) -> None: ...


class NodeBell(Bell):
    def wants(self, channel: str) -> bool:
        return channel in self._listeners or (bool(self._watchers) and channel.startswith("work:"))


class SimStore:
    """One process's connection. It keeps the Store protocol, and none of the peace."""

    def __init__(
        self,
        shared: SharedStore,
        node: Node,
        *,
        loop: SimLoop,
        observer: Observer,
        faults: Callable[[], Faults],
        rng: random.Random,
    ) -> None:
        self.queries = shared.queries
        self._bell = NodeBell()
        self.bell: Bell = self._bell
        self._shared = shared
        self._node = node
        self._loop = loop
        self._observer = observer
        self._faults = faults
        self._rng = rng

    async def open(self) -> None:
        """The shared store is open already."""

    async def close(self) -> None:
        """The others still use it."""

    async def write(self, body: Body[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        faults, name = self._faults(), name_of(body)
        if faults.stall and self._strikes(faults.stall, faults.stall_at, name):
            await self._stall(name)
        answer: asyncio.Future[R] = self._loop.create_future()
        delay = self._travel()
        if faults.stuck and self._strikes(faults.stuck, faults.stuck_at, name):
            delay += self._rng.choice(STALLS_SECONDS)
            self._observer.tell(self._node, f"{name} is stuck for {delay:.0f} s")
        self._loop.later(delay, self._arrive, answer, self._observed(body, name), args, kwargs)
        return await answer

    async def read(self, body: Body[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        answer: asyncio.Future[R] = self._loop.create_future()
        self._loop.later(self._travel(), self._arrive_read, answer, body, args, kwargs)
        return await answer

    async def read_long(self, body: Body[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await self.read(body, *args, **kwargs)

    def hear(self, channel: str, hint: int | None) -> None:
        """A bell rang somewhere. Whether it is heard here is another matter."""
        if self._node.is_dead or not self._bell.wants(channel):
            return
        faults, rng = self._faults(), self._rng
        if faults.ring_lost and rng.random() < faults.ring_lost:
            return
        times = 2 if faults.ring_doubled and rng.random() < faults.ring_doubled else 1
        for _ in range(times):
            delay = rng.random() * RING_SECONDS
            if faults.ring_late and rng.random() < faults.ring_late:
                delay = rng.random() * RING_LATE_SECONDS_MAX
            # In the process's own name: a paused one hears it when it is resumed.
            self._loop.call_later(delay, self.bell.ring, channel, hint, context=self._node.context)

    # Underway --------------------------------------------------------------------------------

    async def _stall(self, name: str) -> None:
        seconds = self._rng.choice(STALLS_SECONDS)
        self._observer.tell(self._node, f"stopped for {seconds:.0f} s in front of {name}")
        self._node.pause()
        self._loop.later(seconds, self._node.resume)
        await asyncio.sleep(0)

    def _arrive(
        self,
        answer: asyncio.Future[Any],
        body: Body[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        """At the store, whatever its sender is doing now, dead or alive."""
        lost = self._faults().lost_before
        if lost and self._rng.random() < lost:
            self._answer_later(answer, None, Unavailable("the connection was lost before"))
        else:
            self._loop.create_task(
                self._perform(answer, body, args, kwargs), context=self._loop.outside
            )

    async def _perform(
        self,
        answer: asyncio.Future[Any],
        body: Body[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        try:
            result = await self._shared.write(body, *args, **kwargs)
        except Exception as error:
            self._answer_later(answer, None, error)
            return
        lost = self._faults().lost_after
        if lost and self._rng.random() < lost:
            self._observer.tell(self._node, "does not learn of the commit")
            unknown = CommitUnknown("the connection was lost while committing")
            self._answer_later(answer, None, unknown)
        else:
            self._answer_later(answer, result, None)

    def _arrive_read(
        self,
        answer: asyncio.Future[Any],
        body: Body[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        lost = self._faults().lost_before
        if lost and self._rng.random() < lost:
            self._answer_later(answer, None, Unavailable("the connection was lost"))
            return
        try:
            # In memory a read never gives up control: one step is all of it.
            self._shared.read(body, *args, **kwargs).send(None)
        except StopIteration as end:
            self._answer_later(answer, end.value, None)
        except Exception as error:
            self._answer_later(answer, None, error)

    def _answer_later(
        self, answer: asyncio.Future[Any], result: Any, error: Exception | None
    ) -> None:
        self._loop.later(self._travel(), _settle, answer, result, error)

    def _observed(self, body: Body[P, R], name: str) -> Body[P, R]:
        changes, node, observer = self._shared.changes, self._node, self._observer

        async def observed(tx: Tx, /, *args: P.args, **kwargs: P.kwargs) -> R:
            changes.clear()
            result = await body(tx, *args, **kwargs)
            observer.observe(node, name, args, result, changes)
            return result

        return observed

    def _strikes(self, chance: float, names: tuple[str, ...], name: str) -> bool:
        return (not names or name in names) and self._rng.random() < chance

    def _travel(self) -> float:
        rng = self._rng
        if rng.random() < SLOW_CHANCE:
            return rng.random() * SLOW_SECONDS_MAX
        return rng.random() * TRAVEL_SECONDS


def name_of(body: Callable[..., Any]) -> str:
    return str(getattr(body, "__qualname__", body)).replace(".<locals>", "")


def _settle(answer: asyncio.Future[Any], result: Any, error: Exception | None) -> None:
    if answer.done():
        return
    if error is None:
        answer.set_result(result)
    else:
        answer.set_exception(error)
