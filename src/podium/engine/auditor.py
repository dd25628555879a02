"""The auditor: counts what must not exist, and says so in a metric that must read 0.

It asks the tables, not the code that writes them: overdue rows that nobody looked at, things that
are finished and not finished, owners that are gone. A number above zero is a bug or a process that
should be running and is not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from podium.kernel.store import Store, Tx
from podium.kernel.telemetry import Metrics, logger

GRACE_SECONDS = 60.0

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class Check:
    """A named query that returns one row with a `count`."""

    name: str
    query: str
    params: dict[str, Any] = field(default_factory=dict)


WORK_CHECKS = (
    Check("work_overdue", "work.audit_overdue", {"grace_seconds": GRACE_SECONDS}),
    Check("work_finished_twice", "work.audit_twice"),
)


class Auditor:
    name = "auditor"
    channels: tuple[str, ...] = ()
    pause_seconds_max = 60.0

    def __init__(
        self, store: Store, metrics: Metrics, checks: tuple[Check, ...] = WORK_CHECKS
    ) -> None:
        self._store = store
        self._metrics = metrics
        self._checks = checks

    async def tick(self) -> float | None:
        await self.audit()
        return None

    async def audit(self) -> dict[str, int]:
        """The violations found, by check."""
        counts = await self._store.read_long(self._count)
        for check, count in counts.items():
            self._metrics.audit_violations.labels(check=check).set(count)
            if count:
                log.error("audit violation", check=check, count=count)
        return counts

    async def _count(self, tx: Tx) -> dict[str, int]:
        return {
            check.name: (await tx.rows(check.query, **check.params))[0].count
            for check in self._checks
        }
