"""The janitor: forgets what nobody needs any more, a bounded piece at a time.

Retention is there from the first day: a queue that keeps everything is slow on its thousandth.

The kernel's tables are its own business. Whoever keeps something beside them, as blobs keep objects in a
bucket, hands in a duty: a function that removes up to so many and says how many it removed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

from podium.kernel import idempotency, journal
from podium.kernel.store import Store, Tx
from podium.kernel.telemetry import Metrics, logger

DAY_SECONDS = 86_400.0
ROWS_PER_PIECE = 2_000
PIECES_PER_TICK = 20
THINGS_PER_PIECE = 100
"""Of a duty: what lies outside the database goes one by one, over a network."""

Prune = Callable[[Tx], Awaitable[int]]
Duty = Callable[[int], Awaitable[int]]
"""Removes up to so many things, in transactions of its own; fewer than asked means that this was all."""
NO_DUTIES: Mapping[str, Duty] = MappingProxyType({})

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class Retention:
    done_seconds: float = 30 * DAY_SECONDS
    """Finished work, and with it the promise that its id is not run again."""
    dead_seconds: float = 90 * DAY_SECONDS
    """Dead letters: long enough that somebody comes back from holiday."""
    journal_seconds: float = 90 * DAY_SECONDS


class Janitor:
    name = "janitor"
    channels: tuple[str, ...] = ()
    pause_seconds_max = 60.0

    def __init__(
        self,
        store: Store,
        metrics: Metrics,
        *,
        retention: Retention | None = None,
        duties: Mapping[str, Duty] = NO_DUTIES,
    ) -> None:
        self._store = store
        self._metrics = metrics
        self._retention = retention or Retention()
        self._duties = dict(duties)

    async def tick(self) -> float | None:
        full = False
        for what, prune in self._tables().items():
            full |= await self._in_pieces(what, partial(self._store.write, prune), ROWS_PER_PIECE)
        failure: Exception | None = None
        for what, duty in self._duties.items():
            try:
                full |= await self._in_pieces(
                    what, partial(duty, THINGS_PER_PIECE), THINGS_PER_PIECE
                )
            except Exception as error:
                # A bucket that does not answer must not keep the other duties waiting.
                log.error("a duty failed", duty=what, error=str(error))
                failure = failure or error
        if failure is not None:
            raise failure
        # Much was left: go on soon, but let others write in between.
        return 1.0 if full else None

    async def _in_pieces(self, what: str, remove: Callable[[], Awaitable[int]], piece: int) -> bool:
        """True when there may be more."""
        for _ in range(PIECES_PER_TICK):
            count = await remove()
            self._metrics.pruned.labels(what=what).inc(count)
            if count < piece:
                return False
        return True

    def _tables(self) -> dict[str, Prune]:
        return {
            "work": self._prune_work,
            "idempotency": self._prune_idempotency,
            "commits": self._prune_commits,
            # Last: it gives up while somebody else, a backup for instance, reads the journal.
            "journal": self._prune_journal,
        }

    async def _prune_work(self, tx: Tx) -> int:
        rows = await tx.rows(
            "work.prune_finished",
            n=ROWS_PER_PIECE,
            done_seconds=self._retention.done_seconds,
            dead_seconds=self._retention.dead_seconds,
        )
        return len(rows)

    async def _prune_journal(self, tx: Tx) -> int:
        return await journal.prune(
            tx, keep_seconds=self._retention.journal_seconds, n=ROWS_PER_PIECE
        )

    async def _prune_idempotency(self, tx: Tx) -> int:
        return await idempotency.prune(tx, n=ROWS_PER_PIECE)

    async def _prune_commits(self, tx: Tx) -> int:
        return len(await tx.rows("store.prune_commits", n=ROWS_PER_PIECE))
