"""Settling what is due: items put off, offers not taken, holders gone silent, waits too long."""

from __future__ import annotations

import random

from podium.kernel.errors import PodiumError, Unavailable
from podium.kernel.store import Store, Tx
from podium.kernel.telemetry import logger
from podium.kernel.wake import Swept
from podium.kernel.work import decide
from podium.kernel.work.queue import Work

LOCKED_PAUSE_SECONDS = 0.1

log = logger(__name__)


class WorkSweep:
    """The queue's entry in the registry of due-queries (`kernel.wake`)."""

    name = "work"

    def __init__(self, work: Work, rng: random.Random) -> None:
        self._work = work
        self._rng = rng

    async def sweep(self, store: Store, limit: int) -> Swept:
        next_seconds = await store.read(next_wake)
        if next_seconds is None or next_seconds > 0:
            return Swept(0, next_seconds)
        promoted = await store.write(self.promote, limit)
        settled = await self._settle(store, limit)
        if promoted + settled == 0:
            # What is due is locked by somebody who is settling it: look again, but not at once.
            return Swept(0, LOCKED_PAUSE_SECONDS)
        return Swept(promoted + settled, 0.0)

    async def promote(self, tx: Tx, limit: int) -> int:
        """What was put off until now, or offered and not taken, becomes ready."""
        rows = await tx.rows("work.promote", n=limit)
        self._work.announce(tx, [(row.queue, row.rank) for row in rows])
        return len(rows)

    async def settle(self, tx: Tx, limit: int) -> int:
        """Decide what becomes of the items whose time is up."""
        rows = await tx.rows("work.due", n=limit)
        return len(
            await self._work.settle(tx, [(row, decide.when_due(row, self._rng)) for row in rows])
        )

    async def _settle(self, store: Store, limit: int) -> int:
        """All at once; if the database refuses one of them, one by one, and that one is set apart."""
        try:
            return await store.write(self.settle, limit)
        except Unavailable:
            raise
        except PodiumError as error:
            log.error("a due item is refused by the store", error=str(error))
        settled = 0
        for id in await store.read(due_ids, limit):
            try:
                settled += await store.write(self.settle_one, id)
            except Unavailable:
                raise
            except PodiumError as error:
                log.error("item set apart", id=id, error=str(error))
                await self._set_apart(store, id)
        return settled

    async def _set_apart(self, store: Store, id: str) -> None:
        try:
            await store.write(quarantine, id)
        except Unavailable:
            raise
        except PodiumError as error:
            log.error("item cannot even be set apart", id=id, error=str(error))

    async def settle_one(self, tx: Tx, id: str) -> int:
        rows = await tx.rows("work.due_one", id=id)
        return len(
            await self._work.settle(tx, [(row, decide.when_due(row, self._rng)) for row in rows])
        )


async def due_ids(tx: Tx, limit: int) -> list[str]:
    return [row.id for row in await tx.rows("work.due_ids", n=limit)]


async def quarantine(tx: Tx, id: str) -> None:
    await tx.rows("work.quarantine", id=id)


async def next_wake(tx: Tx) -> float | None:
    """Seconds until the next item is due; None if there is none."""
    rows = await tx.rows("work.next_wake")
    return max(0.0, rows[0].in_micros / 1e6) if rows else None
