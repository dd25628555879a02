"""The hub: one follower of the journal per process, however many streams are open, none if none is.

A stream begins by reading the store itself, page by page, until it has come to where the hub is;
from there on the hub hands it each line. A stream that cannot keep up is not waited for: its buffer
is bounded, and when that runs over it is closed. It comes back with `Last-Event-ID` and misses nothing.
"""

from __future__ import annotations

import asyncio
from collections import deque

from podium.kernel import journal
from podium.kernel.journal import Line, Position
from podium.kernel.store import Store
from podium.kernel.telemetry import logger

LINES_MAX = 1_000
PAUSE_AFTER_FAILURE_SECONDS = 1.0

log = logger(__name__)


class Overflow(Exception):
    """The reader was too slow."""


class Stream:
    """One reader's place in the journal, and what came since it was last asked."""

    def __init__(self, hub: Hub, after: Position) -> None:
        self.position = after
        self._hub = hub
        self._is_attached = False
        self._is_over = False
        self._lines: deque[Line] = deque()
        self._filled = asyncio.Event()

    def put(self, line: Line) -> None:
        if line.position <= self.position or self._is_over:
            return
        self._is_over = len(self._lines) >= LINES_MAX
        if not self._is_over:
            self._lines.append(line)
        self._filled.set()

    async def next(self, wait_seconds: float) -> list[Line]:
        """The next lines, in order, or none after `wait_seconds`. Overflow when too many waited."""
        if not self._is_attached:
            lines = await self._hub.page(self.position)
            if lines:
                self.position = lines[-1].position
                return lines
            self._is_attached = self._hub.attach(self)
            if not self._is_attached:
                return []
        try:
            async with asyncio.timeout(wait_seconds):
                await self._filled.wait()
        except TimeoutError:
            return []
        return self._take()

    def _take(self) -> list[Line]:
        if self._is_over and not self._lines:
            raise Overflow
        lines, self._lines = list(self._lines), deque()
        if not self._is_over:
            self._filled.clear()
        self.position = lines[-1].position
        return lines

    def close(self) -> None:
        self._hub.detach(self)


class Hub:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._streams: list[Stream] = []
        self._follower: asyncio.Task[None] | None = None
        self._end = journal.START

    async def open(self, after: Position | None) -> Stream:
        """From `after` on, or from now on."""
        return Stream(self, await self._store.read(journal.end) if after is None else after)

    async def page(self, after: Position) -> list[Line]:
        return await self._store.read(journal.tail, after=after, n=LINES_MAX)

    def attach(self, stream: Stream) -> bool:
        """False if the hub is ahead of the stream, which then must read on by itself."""
        if self._follower is None:
            self._end = stream.position
            self._follower = asyncio.create_task(self._follow(), name="event hub")
        elif self._end > stream.position:
            return False
        self._streams.append(stream)
        return True

    def detach(self, stream: Stream) -> None:
        if stream in self._streams:
            self._streams.remove(stream)
        if not self._streams and self._follower is not None:
            self._follower.cancel()
            self._follower = None

    async def _follow(self) -> None:
        # Only the one that is in charge: two would tell everything twice.
        while self._follower is asyncio.current_task():
            try:
                async for line in journal.follow(self._store, after=self._end):
                    self._end = line.position
                    for stream in self._streams:
                        stream.put(line)
            except Exception as error:
                # The store is away: the streams stay open and go on when it is back.
                log.warning("the journal cannot be followed", error=str(error))
                await asyncio.sleep(PAUSE_AFTER_FAILURE_SECONDS)
