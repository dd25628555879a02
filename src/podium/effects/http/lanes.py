"""So many calls at once to one destination, so that a slow one does not take every connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Lanes:
    def __init__(self, width: int, total: int) -> None:
        self._width = width
        self._total = asyncio.Semaphore(total)
        # Each with the number of those who hold or wait; without any, a lane is forgotten.
        self._lanes: dict[str, tuple[asyncio.Semaphore, int]] = {}

    @asynccontextmanager
    async def enter(self, destination: str) -> AsyncIterator[None]:
        """Wait for a free place. Whoever waits too long is cancelled by his own deadline."""
        fresh = (asyncio.Semaphore(self._width), 0)
        lane, users = self._lanes.get(destination, fresh)
        self._lanes[destination] = lane, users + 1
        try:
            async with lane, self._total:
                yield
        finally:
            lane, users = self._lanes.pop(destination)
            if users > 1:
                self._lanes[destination] = lane, users - 1

    def __len__(self) -> int:
        return len(self._lanes)
