"""The sweeper: settles what is due, for everybody who registered a due-query."""

from __future__ import annotations

from podium.kernel.errors import Unavailable
from podium.kernel.store import Store
from podium.kernel.telemetry import Metrics, logger
from podium.kernel.wake import SOON_SECONDS, SWEEP, Due, DueRegistry

ROWS_PER_SWEEP = 500

log = logger(__name__)


class Sweeper:
    """Sleeps until the next row is due. Two of them side by side only share the work."""

    name = "sweeper"
    channels = (SWEEP,)
    pause_seconds_max = SOON_SECONDS

    def __init__(self, store: Store, dues: DueRegistry, metrics: Metrics) -> None:
        self._store = store
        self._dues = dues
        self._metrics = metrics

    async def tick(self) -> float | None:
        nexts: list[float] = []
        failure: Exception | None = None
        for due in self._dues:
            try:
                next_seconds = await self._sweep(due)
            except Unavailable:
                raise
            except Exception as error:
                # One domain's mistake must not keep the others waiting.
                log.error("a due-query failed", due=due.name, trace=error)
                failure = failure or error
            else:
                nexts += [] if next_seconds is None else [next_seconds]
        if failure is not None:
            raise failure
        return min(nexts, default=None)

    async def _sweep(self, due: Due) -> float | None:
        swept = await due.sweep(self._store, ROWS_PER_SWEEP)
        if swept.settled:
            self._metrics.swept.labels(due=due.name).inc(swept.settled)
            log.debug("swept", due=due.name, settled=swept.settled)
        return swept.next_seconds
