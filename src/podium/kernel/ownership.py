"""Ownership: only the owner writes a run's rows, and everybody else goes through it or takes over.

An owner keeps its runs in memory and writes their changes in batches. Each batch begins with the
gate, which locks the runs that are still this owner's *under the epoch it knows* and returns them;
the batch applies to those and to no other. Taking a run, and taking it over, raises the epoch, so
that an owner that was paused and wakes up finds its writes refused: nobody asks it to behave.

    take       new runs, due runs and orphans, by one question: whose wake_at has passed?
    heartbeat  still here; an owner that stops is an orphan's former owner after `orphan_seconds`
    gate       which of these may I still write? (locks them)
    release    nothing moves in it until then: owner null, wake_at set
    takeover   an intruder's first step (cancel, retry): epoch + 1, owner null, wake_at now

Memory is a cache: a batch that failed, or whose outcome is unknown, evicts its runs, which are
taken and loaded again, never repaired. An owner's name must be new at every boot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from podium.kernel.queries import Queries
from podium.kernel.store import Tx
from podium.kernel.wake import SOON_SECONDS
from podium.kernel.work import decide

ORPHAN_SECONDS = 120.0


class Owned(NamedTuple):
    id: str
    epoch: int


@dataclass(frozen=True, slots=True)
class OwnedTable:
    """The names of a table's columns. `wake_at` is called so everywhere."""

    table: str
    id: str = "id"
    owner: str = "owner"
    epoch: str = "epoch"
    heartbeat: str = "heartbeat_at"


class Ownership:
    def __init__(
        self, queries: Queries, table: OwnedTable, *, orphan_seconds: float = ORPHAN_SECONDS
    ) -> None:
        self._name = f"ownership_{table.table}"
        self._orphan_seconds = orphan_seconds
        self.channel = f"owned:{table.table}"
        """The bell that rings when a run wants an owner."""
        queries.instantiate(
            "ownership",
            self._name,
            table=table.table,
            id=table.id,
            owner=table.owner,
            epoch=table.epoch,
            heartbeat=table.heartbeat,
        )

    async def take(self, tx: Tx, *, owner: str, n: int) -> list[Owned]:
        """Become the owner of up to `n` runs that want one."""
        decide.name("owner", owner)
        decide.refuse_count(n)
        rows = await tx.rows(
            f"{self._name}.take", owner=owner, n=n, orphan_seconds=self._orphan_seconds
        )
        return [Owned(row.id, row.epoch) for row in rows]

    async def heartbeat(self, tx: Tx, *, owner: str) -> list[Owned]:
        """Stay the owner of all that is owned; the answer is what that still is."""
        rows = await tx.rows(
            f"{self._name}.heartbeat", owner=owner, orphan_seconds=self._orphan_seconds
        )
        return [Owned(row.id, row.epoch) for row in rows]

    async def gate(self, tx: Tx, runs: Sequence[Owned], *, owner: str) -> set[str]:
        """The ids of those that may still be written, locked until this transaction ends."""
        rows = await tx.rows(f"{self._name}.gate", runs=sorted(runs), owner=owner)
        return {row.id for row in rows}

    async def release(self, tx: Tx, runs: Sequence[tuple[Owned, float]], *, owner: str) -> set[str]:
        """Own these no longer; somebody looks at each again after its number of seconds."""
        for _, wake_seconds in runs:
            decide.seconds("wake_seconds", wake_seconds, zero=True)
        rows = await tx.rows(
            f"{self._name}.release",
            runs=sorted((run.id, run.epoch, wake_seconds) for run, wake_seconds in runs),
            owner=owner,
        )
        if any(wake_seconds <= SOON_SECONDS for _, wake_seconds in runs):
            tx.ring(self.channel)
        return {row.id for row in rows}

    async def next_wake(self, tx: Tx) -> float | None:
        """Seconds until the next run wants somebody; None if none ever will."""
        rows = await tx.rows(f"{self._name}.next_wake")
        return max(0.0, rows[0].in_micros / 1e6) if rows else None

    async def takeover(self, tx: Tx, ids: Sequence[str]) -> list[Owned]:
        """Shut the owner out and call for a new one. Finished runs are not in the answer."""
        rows = await tx.rows(f"{self._name}.takeover", ids=[(id,) for id in ids])
        tx.ring(self.channel)
        return [Owned(row.id, row.epoch) for row in rows]
