"""The world: a shared store, processes that come and go, and the record of what happened.

The world knows nothing of work or ownership. A scenario says who lives in it (roles), the nemesis
strikes, and the checkers see each transaction at the instant it happens.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from podium.engine import Service, keep_ticking
from podium.kernel.ids import Ulids
from podium.kernel.queries import Queries
from podium.kernel.telemetry import Metrics
from podium.kernel.work import Work
from podium.sim.clocks import VirtualClock
from podium.sim.faults import NONE, Faults
from podium.sim.loop import Node, SimLoop, Violation
from podium.sim.randomness import Randomness
from podium.sim.store import Change, SharedStore, SimStore
from podium.sim.template import Template

SETTLE_SECONDS = 400.0
"""After the last fault: a call that is stuck for five minutes, and a process that starts again."""


class Transaction(NamedTuple):
    """A body that ran, as the checkers see it, before its commit is known to anybody."""

    node: Node
    body: str
    now: int
    """The database's clock, in microseconds."""
    presented: frozenset[tuple[str, int]]
    """The (id, epoch) pairs that the caller named in its arguments."""
    arguments: tuple[Any, ...]
    result: Any
    changes: list[Change]


class Checker(Protocol):
    def see(self, transaction: Transaction) -> None:
        """Raise by `world.violate` what must not be."""

    def look(self) -> None:
        """Now and then, while nothing keeps anybody from their duty: is anything left lying?"""

    def finish(self) -> None:
        """Look at the end state, when all has been healed."""


class Line(NamedTuple):
    at_seconds: float
    node: str
    action: str
    rows: str


class Trace:
    """What happened, in order. Its hash tells two histories apart; its lines are for people."""

    def __init__(self, *, keeps_lines: bool) -> None:
        self.lines: list[Line] = []
        self._keeps_lines = keeps_lines
        self._hash = hashlib.blake2b(digest_size=8)

    def add(self, at_seconds: float, node: str, action: str, changes: list[Change]) -> None:
        rows = ", ".join(map(_row, changes))
        self._hash.update(f"{at_seconds!r} {node} {action} {rows}\n".encode())
        if self._keeps_lines:
            self.lines.append(Line(at_seconds, node, action, rows))

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()


@dataclass(frozen=True, slots=True)
class Role:
    """A kind of process, and how one begins its life."""

    name: str
    start: Callable[[Process], None]
    count: int = 1
    is_mortal: bool = True
    """Killed and started again by the nemesis."""
    is_pausable: bool = True


class Process:
    """What a program has after it started: its own memory, clock and connection."""

    def __init__(self, world: World, role: Role, name: str) -> None:
        self.world = world
        self.role = role
        self.name = name
        self.node = Node(world.loop, name)
        faults = world.faults
        self.clock = VirtualClock(
            world.loop, drift=world.rngs["nemesis"].uniform(-1, 1) * faults.drift_max
        )
        self.rng = random.Random(world.rngs["work"].getrandbits(64))
        self.store = SimStore(
            world.store,
            self.node,
            loop=world.loop,
            observer=world,
            faults=world.current_faults,
            rng=world.rngs["net"],
        )
        self.ids = Ulids(self.clock, self.rng)
        self.work = world.make_work(clock=self.clock, ids=self.ids, rng=self.rng)
        self.store.bell.watch(self.work.marks.on_ring)

    def keep_ticking(self, service: Service) -> None:
        self.spawn(
            keep_ticking(
                service,
                bell=self.store.bell,
                stop=asyncio.Event(),
                rng=self.rng,
                metrics=self.world.metrics,
            )
        )

    def spawn(self, coroutine: Any) -> None:
        self.node.spawn(coroutine).add_done_callback(self._is_over, context=self.world.loop.outside)

    def _is_over(self, task: asyncio.Task[Any]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, Violation):
            self.world.loop.violate("nothing_crashes", f"{self.name} ended with {error!r}")


class World:
    def __init__(
        self,
        randomness: Randomness,
        faults: Faults,
        template: Template,
        queries: Queries,
        metrics: Metrics,
        *,
        make_work: Callable[..., Work] = Work,
        keeps_lines: bool = False,
    ) -> None:
        self.rngs = {
            label: randomness.fork(label) for label in ("sched", "net", "disk", "work", "nemesis")
        }
        self.loop = SimLoop(self.rngs["sched"])
        self.faults = faults
        self.metrics = metrics
        self.make_work = make_work
        self.trace = Trace(keeps_lines=keeps_lines)
        self.checkers: list[Checker] = []
        self.processes: list[Process] = []
        self.has_faults = False
        """Between the beginning and the healing."""
        self.clock = VirtualClock(self.loop)
        """The database's."""
        self.store = SharedStore(
            template,
            clock=self.clock,
            queries=queries,
            metrics=metrics,
            is_full=self._disk_is_full,
        )
        self.store.bell.watch(self._ring)
        self._boots = 0
        self._healed_at = math.inf

    def current_faults(self) -> Faults:
        return self.faults if self.has_faults else NONE

    def violate(self, invariant: str, message: str) -> Violation:
        return self.loop.violate(invariant, message)

    # Processes -------------------------------------------------------------------------------

    def boot(self, role: Role) -> Process:
        """A new process. Its name is new at every boot."""
        self._boots += 1
        process = Process(self, role, f"{role.name}-{self._boots}")
        self.processes.append(process)
        self.tell(process.node, "starts")
        role.start(process)
        return process

    def kill(self, process: Process) -> None:
        self.tell(process.node, "is killed")
        process.node.kill()
        self.processes.remove(process)

    def heal(self, broken: Process | None = None) -> None:
        """No more faults; who was stopped goes on, but for the one that is broken for ever."""
        self.has_faults = False
        self._healed_at = self.loop.time()
        for process in self.processes:
            process.node.resume()
        if broken is not None:
            self.tell(broken.node, "is stopped for ever")
            broken.node.pause(for_ever=True)

    @property
    def is_calm(self) -> bool:
        """Nobody is stopped, cut off or late: because nothing does that today, or not any more."""
        return not self.faults.unsettle or self.loop.time() > self._healed_at + SETTLE_SECONDS

    # What happens ----------------------------------------------------------------------------

    def tell(self, node: Node | None, what: str) -> None:
        self.trace.add(self.loop.time(), node.name if node else "world", what, [])

    def observe(
        self, node: Node, body: str, args: tuple[Any, ...], result: Any, changes: list[Change]
    ) -> None:
        """Called inside each body, after its last line."""
        presented = presented_in(args)
        if not changes and not presented:
            return
        if changes:
            self.trace.add(self.loop.time(), node.name, body, changes)
        transaction = Transaction(node, body, self.clock.micros, presented, args, result, changes)
        for checker in self.checkers:
            checker.see(transaction)

    def _disk_is_full(self) -> bool:
        chance = self.current_faults().disk_full
        return chance > 0 and self.rngs["disk"].random() < chance

    def _ring(self, channel: str, hint: int | None) -> None:
        for process in self.processes:
            process.store.hear(channel, hint)


def presented_in(args: tuple[Any, ...]) -> frozenset[tuple[str, int]]:
    """Every (id, epoch) that a call presents, however it is wrapped."""
    found: set[tuple[str, int]] = set()
    for arg in args:
        for thing in arg if type(arg) is list else (arg,):
            lease: Any = getattr(thing, "lease", thing)
            if hasattr(lease, "epoch"):
                found.add((lease.id, lease.epoch))
    return frozenset(found)


def _row(change: Change) -> str:
    table, old, new = change
    row = new if new is not None else old
    facts = [
        f"{field}={getattr(row, field)}"
        for field in ("state", "event", "owner", "holder", "epoch", "attempts")
        if getattr(row, field, None) is not None
    ]
    sign = "+" if old is None else "-" if new is None else "~"
    return f"{sign}{table} {row[0]} {' '.join(facts)}".rstrip()
