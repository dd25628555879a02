"""Who must look, and when: the registry of due-queries.

Every row that is not finished says when somebody must look at it if nothing else happens
(`wake_at`). Whoever owns such rows registers here how to find and settle those that are due. The
sweeper asks each of them; there is no second home for timers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from podium.kernel.store import Store

SWEEP = "sweep"
"""The bell of the sweeper: ring it when something is due sooner than its next look."""

SOON_SECONDS = 5.0
"""The sweeper looks at least this often, so only what is due sooner needs to ring."""


class Swept(NamedTuple):
    settled: int
    next_seconds: float | None
    """Until the next one is due; None if nothing waits."""


class Due(Protocol):
    name: str

    async def sweep(self, store: Store, limit: int) -> Swept:
        """Settle up to `limit` rows that are due. Safe to run again after a crash at any line, and
        beside another sweeper: a row that changed since it was read is left alone."""


class DueRegistry:
    def __init__(self) -> None:
        self._dues: dict[str, Due] = {}

    def register(self, due: Due) -> None:
        if due.name in self._dues:
            raise ValueError(f"{due.name} has a due-query already")
        self._dues[due.name] = due

    def __iter__(self) -> Iterator[Due]:
        return iter(self._dues.values())
