"""A loop without a clock and without chance: one seed, one history.

Nothing waits. When nothing can run, virtual time jumps to the next timer; when several things
can, one draw decides which goes first. That draw is the only difference between two seeds, and the
reason why a seed finds the same trouble again.

A `Node` is a process. It travels in a context variable, so everything that its code starts belongs
to it, timers and callbacks too: a killed node's handles are dropped, a paused one's are parked and
come back when it is resumed, exactly as the operating system would do it between two instructions.

What touches the private names of asyncio is here and nowhere else.
"""

from __future__ import annotations

import asyncio
import heapq
import random
from asyncio.base_events import BaseEventLoop
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, Token
from typing import Any, TypeVar

R = TypeVar("R")

STEPS_MAX = 150_000
"""A seed takes some thousand steps. One that takes so many more is going round in circles."""


class Violation(Exception):
    """A promise was broken. `invariant` is its name, the message says by what."""

    def __init__(self, invariant: str, message: str) -> None:
        super().__init__(f"{invariant}: {message}")
        self.invariant = invariant


class Node:
    """A process: it can be killed and paused, and everything that it starts belongs to it."""

    def __init__(self, loop: SimLoop, name: str) -> None:
        self.name = name
        self.is_dead = False
        self.is_paused = False
        self.context = Context()
        self._loop = loop
        self._for_ever = False
        self._parked: list[asyncio.Handle] = []
        self.context.run(_enter, self)

    def spawn(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        return self._loop.create_task(coroutine, context=self.context)

    def kill(self) -> None:
        """kill -9: nothing of it ever runs again, not even a `finally`."""
        self.is_dead = True
        self._parked.clear()

    def pause(self, *, for_ever: bool = False) -> None:
        """SIGSTOP: from the next step on, timers included."""
        self.is_paused = True
        self._for_ever = for_ever

    def resume(self) -> None:
        if self.is_paused and not self._for_ever:
            self.is_paused = False
            self._loop.unpark(self._parked)
            self._parked = []

    def park(self, handle: asyncio.Handle) -> None:
        self._parked.append(handle)


NODE: ContextVar[Node | None] = ContextVar("NODE", default=None)


def _enter(node: Node) -> Token[Node | None]:
    return NODE.set(node)


class SimLoop(BaseEventLoop):
    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]

    def __init__(self, rng: random.Random) -> None:
        super().__init__()
        self.set_debug(False)
        self.steps = 0
        self.violation: Violation | None = None
        self.outside = Context()
        """For what belongs to no process: the network, the broker, the nemesis."""
        self._now = 0.0
        self._draw = rng.random
        # Who nobody waits for would be collected in the middle of the run, and its `finally` run.
        self._tasks: list[asyncio.Task[Any]] = []

    def time(self) -> float:
        return self._now

    def run(self, main: Coroutine[Any, Any, R]) -> R:
        """Run `main` to its end; Violation, at the very step, when a promise is broken."""
        task: asyncio.Task[R] = self.create_task(main, context=self.outside)
        task.add_done_callback(self._main_is_over, context=self.outside)
        self.run_forever()
        if self.violation is not None:
            raise self.violation
        return task.result()

    def violate(self, invariant: str, message: str) -> Violation:
        """Stop the world. The first violation counts; what follows from it is noise."""
        if self.violation is None:
            self.violation = Violation(invariant, f"{message} (at {self._now:.3f} s)")
        self.stop()
        return self.violation

    def later(self, seconds: float, callback: Callable[..., object], *args: Any) -> None:
        """Call back from outside every process."""
        self.call_later(seconds, callback, *args, context=self.outside)

    def unpark(self, handles: list[asyncio.Handle]) -> None:
        self._ready.extend(handles)

    def dispose(self) -> None:
        """End what is left of every task while the loop can still take what their `finally` says."""
        for task in self._tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            if not task.done():
                _close(task)
            elif not task.cancelled():
                task.exception()
        self._tasks.clear()
        self._ready.clear()
        self._scheduled.clear()
        self.close()

    # What asyncio calls ----------------------------------------------------------------------

    def create_task(self, coro: Any, *, name: Any = None, context: Any = None) -> asyncio.Task[Any]:
        task = asyncio.Task(coro, loop=self, name=name, context=context)
        self._tasks.append(task)
        return task

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not isinstance(error, Violation):
            self.violate("nothing_crashes", f"{context.get('message')}: {error!r}")

    def _run_once(self) -> None:
        ready, scheduled = self._ready, self._scheduled
        if not ready:
            while scheduled and scheduled[0].cancelled():
                heapq.heappop(scheduled)._scheduled = False  # type: ignore[attr-defined]
            if not scheduled:
                self.violate("nothing_hangs", "nothing can run and nothing is timed")
                return
            self._now = max(self._now, scheduled[0].when())
        while scheduled and scheduled[0].when() <= self._now:
            timer = heapq.heappop(scheduled)
            timer._scheduled = False  # type: ignore[attr-defined]
            if not timer.cancelled():
                ready.append(timer)
        if not ready:
            return
        handle = self._choose()
        if handle.cancelled():
            return
        node = handle._context.get(NODE)  # type: ignore[attr-defined]
        if node is not None:
            if node.is_dead:
                return
            if node.is_paused:
                node.park(handle)
                return
        self.steps += 1
        if self.steps > STEPS_MAX:
            self.violate("nothing_spins", f"{STEPS_MAX} steps and no end")
        handle._run()

    def _choose(self) -> asyncio.Handle:
        """One of those that could run now, by one draw."""
        ready = self._ready
        place = int(self._draw() * len(ready)) if len(ready) > 1 else 0
        if place == 0:
            return ready.popleft()
        ready.rotate(-place)
        handle = ready.popleft()
        ready.rotate(place)
        return handle

    def _write_to_self(self) -> None:
        """There is no selector to wake."""

    def _process_events(self, event_list: Any) -> None:
        """There are no files to watch."""

    def _main_is_over(self, _: asyncio.Task[Any]) -> None:
        self.stop()


def _close(task: asyncio.Task[Any]) -> None:
    coroutine = task.get_coro()
    try:
        if isinstance(coroutine, Coroutine):
            coroutine.close()
    except RuntimeError:
        # It awaited something in a `finally`: there is nobody left to answer.
        pass
