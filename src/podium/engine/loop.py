"""The one loop every background service runs in.

A service that has nothing to do sleeps until its bell rings, or until the moment it named itself,
or for its longest pause, whichever comes first. Nobody polls because it is idle.
"""

from __future__ import annotations

import asyncio
import random
from typing import Protocol

from podium.kernel.bell import Bell, Listener
from podium.kernel.errors import Unavailable
from podium.kernel.telemetry import Metrics, logger

PAUSE_SECONDS_MIN = 0.001
PAUSE_AFTER_FAILURE_SECONDS = 0.1
PAUSE_AFTER_FAILURE_SECONDS_MAX = 5.0

log = logger(__name__)


class Service(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def channels(self) -> tuple[str, ...]:
        """The bells that call it."""

    @property
    def pause_seconds_max(self) -> float:
        """How long it may sleep when nobody calls: the safety net."""

    async def tick(self) -> float | None:
        """Do one round. Safe to run again after a crash at any line.

        Returns in how many seconds the next round is wanted at the latest: 0 when more is waiting,
        None when only a bell or the safety net need call.
        """


async def keep_ticking(
    service: Service, *, bell: Bell, stop: asyncio.Event, rng: random.Random, metrics: Metrics
) -> None:
    listener = bell.listen(*service.channels)
    stopping = asyncio.create_task(_wake_on(stop, listener))
    ticks = metrics.service_ticks.labels(service=service.name)
    failures = 0
    try:
        while not stop.is_set():
            try:
                wanted = await service.tick()
                failures = 0
            except (Exception, asyncio.CancelledError) as error:
                if isinstance(error, asyncio.CancelledError) and is_being_cancelled():
                    raise
                # One bad round must not end the service: the next one starts from the store.
                failures += 1
                _tell(service, error, failures, metrics)
                # No bell cuts this short: a busy one would make a hot loop of a failing service.
                await _wait_for(stop, _pause_after(failures))
                continue
            finally:
                ticks.inc()
            if wanted is not None and wanted <= 0:
                await asyncio.sleep(0)
                continue
            await listener.wait(_pause(service, wanted, rng))
    finally:
        stopping.cancel()
        listener.close()


def _pause(service: Service, wanted: float | None, rng: random.Random) -> float:
    # Services started together would otherwise keep hitting the store together.
    longest = service.pause_seconds_max * rng.uniform(0.75, 1.0)
    return longest if wanted is None else max(PAUSE_SECONDS_MIN, min(wanted, longest))


def _pause_after(failures: int) -> float:
    return min(
        PAUSE_AFTER_FAILURE_SECONDS * 2.0 ** min(failures, 10), PAUSE_AFTER_FAILURE_SECONDS_MAX
    )


def _tell(service: Service, error: BaseException, failures: int, metrics: Metrics) -> None:
    metrics.service_failures.labels(service=service.name).inc()
    facts = {"service": service.name, "failures": failures, "error": str(error)}
    if isinstance(error, Unavailable):
        log.warning("a round failed: the store is away", **facts)
    else:
        log.error("a round failed", **facts, trace=error)


def is_being_cancelled() -> bool:
    """False when something inside the round was cancelled, and not the service."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _wait_for(stop: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        pass


async def _wake_on(stop: asyncio.Event, listener: Listener) -> None:
    await stop.wait()
    listener.wake()
