"""The supervisor: starts parts in order, stops them in the opposite one, within a time.

A part that cannot start stops those before it, and says why. Stopping asks all of them first, at
once: while one ends its round, the others take nothing new. Whoever is not done after the grace
time, which is one for all, is cancelled, because a process that does not end is ended from
outside, with less care.
"""

from __future__ import annotations

import asyncio
import random
from types import TracebackType
from typing import Protocol, Self

from podium.engine.loop import Service, is_being_cancelled, keep_ticking
from podium.kernel.bell import Bell
from podium.kernel.telemetry import Metrics, logger

GRACE_SECONDS = 30.0
CANCEL_SECONDS_MAX = 5.0

log = logger(__name__)


class Part(Protocol):
    name: str

    async def start(self) -> None:
        """Return when ready."""

    def ask_to_stop(self) -> None:
        """Begin nothing new; `stop` will come. Returns at once."""

    async def stop(self, grace_seconds: float) -> None:
        """Return when gone, after `grace_seconds` at the latest. Safe to call twice."""


class Ticking:
    """A service in the one loop, as a part."""

    def __init__(
        self, service: Service, *, bell: Bell, rng: random.Random, metrics: Metrics
    ) -> None:
        self.name = service.name
        self._service = service
        self._bell = bell
        self._rng = rng
        self._metrics = metrics
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._task = asyncio.create_task(
            keep_ticking(
                self._service,
                bell=self._bell,
                stop=self._stop,
                rng=self._rng,
                metrics=self._metrics,
            ),
            name=self.name,
        )

    def ask_to_stop(self) -> None:
        self._stop.set()

    async def stop(self, grace_seconds: float) -> None:
        if self._task is None:
            return
        self.ask_to_stop()
        try:
            async with asyncio.timeout(grace_seconds):
                await asyncio.shield(self._task)
        except TimeoutError:
            log.warning("cancelled: it did not stop in time", part=self.name)
            self._task.cancel()
            # A task that will not even be cancelled must not keep the process from ending.
            try:
                async with asyncio.timeout(CANCEL_SECONDS_MAX):
                    await asyncio.gather(asyncio.shield(self._task), return_exceptions=True)
            except TimeoutError:
                log.error("left behind: it cannot be cancelled", part=self.name)


class Supervisor:
    def __init__(self, parts: list[Part], *, grace_seconds: float = GRACE_SECONDS) -> None:
        self._parts = parts
        self._grace_seconds = grace_seconds
        self._started: list[Part] = []

    async def start(self) -> None:
        for part in self._parts:
            try:
                await part.start()
            except BaseException:
                log.error("a part did not start", part=part.name)
                await self.stop()
                raise
            self._started.append(part)

    async def stop(self) -> None:
        """Stop everything that was started. One part's failure does not keep the others running."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self._grace_seconds
        for part in reversed(self._started):
            try:
                part.ask_to_stop()
            except Exception as error:
                log.error("a part cannot be asked to stop", part=part.name, trace=error)
        while self._started:
            part = self._started.pop()
            try:
                grace_seconds = max(0.0, until - loop.time())
                async with asyncio.timeout(grace_seconds + 2 * CANCEL_SECONDS_MAX):
                    await part.stop(grace_seconds)
            except (Exception, asyncio.CancelledError) as error:
                if isinstance(error, asyncio.CancelledError) and is_being_cancelled():
                    raise
                log.error("a part failed to stop", part=part.name, trace=error)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()
