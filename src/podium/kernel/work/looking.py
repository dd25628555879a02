"""Looking at the queue without touching it: what is over, what is not, how much waits, what died."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from podium.kernel.clock import EPOCH
from podium.kernel.store import Row, Tx
from podium.kernel.work import decide
from podium.kernel.work.machine import State
from podium.kernel.work.model import DeadLetter


class Looking:
    async def finished(self, tx: Tx, ids: Sequence[str]) -> list[Row]:
        """What is over of these: state, result, reason, error, attempts."""
        return await tx.rows("work.finished", ids=[(id,) for id in ids])

    async def live(self, tx: Tx, ids: Sequence[str]) -> list[Row]:
        """What is not over of these, with all that explains why it is where it is."""
        return await tx.rows("work.live", ids=[(id,) for id in ids])

    async def counts(self, tx: Tx) -> dict[tuple[str, str], int]:
        """Items by queue and state, dead letters included. Reads the table: a `read_long`."""
        live = {(row.queue, row.state): row.count for row in await tx.rows("work.counts")}
        dead = await tx.rows("work.dead_letter_counts")
        return live | {(row.queue, str(State.DEAD)): row.count for row in dead}

    async def depth(self, tx: Tx, *, queue: str, at_most: int = 1_000) -> int:
        """How many are ready, counted no further than `at_most`."""
        count: int = (await tx.rows("work.depth", queue=queue, at_most=at_most))[0].count
        return count

    async def waiting(self, tx: Tx, queues: Sequence[str]) -> list[str]:
        """Those of these queues in which something is ready: one step into the index for each."""
        rows = await tx.rows("work.waiting", queues=[(queue,) for queue in queues])
        return [row.queue for row in rows]

    async def dead_letters(
        self, tx: Tx, *, queue: str, n: int = 100, after: tuple[datetime, str] = (EPOCH, "")
    ) -> list[DeadLetter]:
        """A page of dead letters, oldest first; `after` is the cursor of the last one seen."""
        decide.refuse_count(n)
        rows = await tx.rows(
            "work.dead_letters", queue=queue, n=n, after_at=after[0], after_id=after[1]
        )
        return [DeadLetter(*row) for row in rows]
