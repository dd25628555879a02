"""Children: processes of our own for code that is not, started again when they die.

User code never shares the engine's process. A child gets one end of a socket pair and works through
it; nothing else of ours reaches it, least of all our settings with their secrets. It leads a session
of its own, so that it can be ended with everything it has started, and it dies with us, even by
kill -9 (`podium.runners.tether` is its side of that).
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from podium.app.channel import Call, Calls, serve_channel
from podium.app.processes import Process
from podium.app.voices import pass_on
from podium.kernel.errors import Unavailable
from podium.kernel.telemetry import logger
from podium.sdk.channel import FD_VARIABLE, HELLO, PARENT_VARIABLE, Heard, Hello

START_SECONDS_MAX = 30.0
PAUSE_SECONDS = 0.5
PAUSE_SECONDS_MAX = 30.0
STEADY_SECONDS = 60.0
"""A child that lived so long is taken for healthy: its next death begins the pauses anew."""
KILL_SECONDS_MAX = 5.0
OUR_VARIABLES = "PODIUM_"
PASSED_ON = {"PODIUM_LOG_LEVEL", "PODIUM_STOP_SECONDS"}

log = logger(__name__)


def podium(*arguments: str) -> list[str]:
    """The command line of this very Podium."""
    return [sys.executable, "-m", "podium", *arguments]


class Child:
    """A part of the supervisor: ready when the child has said hello."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        calls: Calls,
        *,
        environment: Mapping[str, str] | None = None,
        start_seconds_max: float = START_SECONDS_MAX,
        pause_seconds: float = PAUSE_SECONDS,
    ) -> None:
        self.name = name
        self.starts = 0
        """How many lives it has had."""
        self._process: Process | None = None
        self._command = list(command)
        self._calls = {**calls, HELLO: Call(Hello, self._on_hello)}
        self._environment = dict(environment or {})
        self._start_seconds_max = start_seconds_max
        self._pause_seconds = pause_seconds
        self._stopping = asyncio.Event()
        self._greeted = asyncio.Event()
        """Ever."""
        self._greeting = asyncio.Event()
        """By the one that runs now."""
        self._keeper: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        """Of the one that runs now."""
        return None if self._process is None else self._process.pid

    def begin(self) -> None:
        """Start the process and do not wait: it loads its modules while we load ours."""
        if self._keeper is None:
            self._keeper = asyncio.create_task(self._keep(), name=self.name)

    async def start(self) -> None:
        """Unavailable if the first child does not come up: what is wrong with it is in the log."""
        self.begin()
        assert self._keeper is not None
        greeted = asyncio.create_task(self._greeted.wait())
        try:
            await asyncio.wait(
                [greeted, self._keeper],
                timeout=self._start_seconds_max,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if not self._greeted.is_set():
                raise Unavailable(
                    f"the {self.name} did not start; its last words are in the log above"
                )
        except BaseException:
            await self.stop(0.0)
            raise
        finally:
            greeted.cancel()

    def ask_to_stop(self) -> None:
        self._stopping.set()
        if self._process is not None:
            self._process.signal(signal.SIGTERM)

    async def stop(self, grace_seconds: float) -> None:
        if self._keeper is None:
            return
        if not self._stopping.is_set():
            self.ask_to_stop()
        done, _ = await asyncio.wait([self._keeper], timeout=grace_seconds)
        if not done:
            log.warning("killed: it did not stop in time", child=self.name, pid=self.pid)
            if self._process is not None:
                self._process.signal(signal.SIGKILL)
            await asyncio.wait([self._keeper], timeout=KILL_SECONDS_MAX)
        self._keeper.cancel()
        await asyncio.gather(self._keeper, return_exceptions=True)

    # Keeping it running ----------------------------------------------------------------------

    async def _keep(self) -> None:
        loop = asyncio.get_running_loop()
        pause_seconds = self._pause_seconds
        while not self._stopping.is_set():
            began_at = loop.time()
            how = await self._live()
            if self._stopping.is_set():
                return
            log.error("a child died", child=self.name, how=how)
            if not self._greeted.is_set():
                return
            if loop.time() - began_at >= STEADY_SECONDS:
                pause_seconds = self._pause_seconds
            await self._rest(pause_seconds)
            pause_seconds = min(2 * pause_seconds, PAUSE_SECONDS_MAX)

    async def _rest(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            pass

    async def _live(self) -> str:
        """One life, from its start to how it ended."""
        ours, theirs = socket.socketpair()
        try:
            fd = theirs.fileno()
            process = Process(self._command, self._child_environment(fd), [fd])
        except OSError as error:
            ours.close()
            return f"it could not be started: {error}"
        finally:
            theirs.close()
        self._process = process
        self.starts += 1
        self._greeting.clear()
        log.info("a child was started", child=self.name, pid=process.pid)
        tasks = [asyncio.create_task(serve_channel(ours, self._calls))]
        try:
            tasks += [
                asyncio.create_task(pass_on(each, self.name)) for each in await process.streams()
            ]
            ends: list[asyncio.Future[Any]] = [tasks[0], process.exited]
            await self._until_greeted(process, ends)
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            return _how(await self._until_gone(process))
        finally:
            process.signal(signal.SIGKILL)
            self._process = None
            await self._collect(tasks)

    async def _until_greeted(self, process: Process, ends: Sequence[asyncio.Future[Any]]) -> None:
        """In every life: one that hangs before its hello would never be noticed."""
        greeting = asyncio.create_task(self._greeting.wait())
        await asyncio.wait(
            [greeting, *ends],
            timeout=self._start_seconds_max,
            return_when=asyncio.FIRST_COMPLETED,
        )
        greeting.cancel()
        if not self._greeting.is_set() and not process.exited.done():
            log.error("killed: it did not say hello in time", child=self.name, pid=process.pid)
            process.signal(signal.SIGKILL)

    async def _until_gone(self, process: Process) -> int:
        """A child that closed its channel is ending; one that lingers without it is ended."""
        await asyncio.wait([process.exited], timeout=KILL_SECONDS_MAX)
        if not process.exited.done():
            log.error("killed: it closed its channel and lived on", child=self.name)
            process.signal(signal.SIGKILL)
        return await process.exited

    async def _collect(self, tasks: Sequence[asyncio.Task[None]]) -> None:
        # The pipes are empty soon after everybody who could write to them is gone.
        await asyncio.wait(tasks, timeout=KILL_SECONDS_MAX)
        for task in tasks:
            task.cancel()
        for found in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(found, Exception):
                log.error("a child was not served to its end", child=self.name, trace=found)

    def _child_environment(self, channel_fd: int) -> dict[str, str]:
        inherited = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(OUR_VARIABLES) or key in PASSED_ON
        }
        return {
            **inherited,
            "PYTHONUNBUFFERED": "1",
            **self._environment,
            FD_VARIABLE: str(channel_fd),
            PARENT_VARIABLE: str(os.getpid()),
        }

    async def _on_hello(self, hello: Hello) -> Heard:
        self._greeted.set()
        self._greeting.set()
        return Heard()


def _how(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"killed by {signal.Signals(-code).name}"


class HeadStart:
    """The first part of a process: children begin before everything that they need is there. Their own
    parts come last, and wait for them."""

    name = "children"

    def __init__(self, children: Sequence[Child]) -> None:
        self._children = children

    async def start(self) -> None:
        for child in self._children:
            child.begin()

    def ask_to_stop(self) -> None:
        pass

    async def stop(self, grace_seconds: float) -> None:
        for child in self._children:
            await child.stop(grace_seconds)
