"""Settling what is due: items put off, offers not taken, holders gone silent, waits too long."""

from __future__ import annotations

import random
from collections.abc import Sequence

from podium.kernel import journal
from podium.kernel.errors import Unavailable
from podium.kernel.store import Store, Tx
from podium.kernel.telemetry import logger
from podium.kernel.wake import Swept
from podium.kernel.work import decide
from podium.kernel.work.decide import Held
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
        try:
            settled = await store.write(self.promote, limit) + await store.write(self.settle, limit)
        except Unavailable:
            raise
        except Exception as error:
            log.error("a due item cannot be settled", trace=error)
            settled = await self._one_by_one(store, limit)
        # Nothing: what is due is locked by somebody who is settling it. Look again, but not at once.
        return Swept(settled, 0.0 if settled else LOCKED_PAUSE_SECONDS)

    async def promote(self, tx: Tx, limit: int) -> int:
        """What was put off until now, or offered and not taken, becomes ready."""
        rows = await tx.rows("work.promote", n=limit)
        self._work.announce(tx, [(row.queue, row.rank) for row in rows])
        return len(rows)

    async def settle(self, tx: Tx, limit: int) -> int:
        """Decide what becomes of the items whose time is up."""
        return await self._settle(tx, await tx.rows("work.due", n=limit))

    async def _settle(self, tx: Tx, rows: Sequence[Held]) -> int:
        decisions = [(row, decide.when_due(row, self._rng)) for row in rows]
        return len(await self._work.settle(tx, decisions))

    async def _one_by_one(self, store: Store, limit: int) -> int:
        """One of many is poisonous: the others are settled all the same, and it is set apart."""
        settled = 0
        for id in await store.read(due_ids, limit):
            try:
                settled += await store.write(self.settle_one, id)
            except Unavailable:
                raise
            except Exception as error:
                await self._set_apart(store, id, error)
        return settled

    async def settle_one(self, tx: Tx, id: str) -> int:
        rows = await tx.rows("work.promote_one", id=id)
        self._work.announce(tx, [(row.queue, row.rank) for row in rows])
        return len(rows) + await self._settle(tx, await tx.rows("work.due_one", id=id))

    async def _set_apart(self, store: Store, id: str, error: Exception) -> None:
        log.error("item set apart", id=id, error=str(error))
        try:
            await store.write(quarantine, id, str(error))
        except Unavailable:
            raise
        except Exception as refusal:
            log.error("item cannot even be set apart", id=id, error=str(refusal))


async def due_ids(tx: Tx, limit: int) -> list[str]:
    return [row.id for row in await tx.rows("work.due_ids", n=limit)]


async def quarantine(tx: Tx, id: str, reason: str) -> None:
    """Left for a person: nobody holds it, and it is looked at again in an hour."""
    for row in await tx.rows("work.quarantine", id=id):
        event = journal.Event(
            "work", id, "quarantined", epoch=row.epoch, reason=decide.clipped(reason)
        )
        await journal.append(tx, [event])


async def next_wake(tx: Tx) -> float | None:
    """Seconds until the next item is due; None if there is none."""
    rows = await tx.rows("work.next_wake")
    return max(0.0, rows[0].in_micros / 1e6) if rows else None
