"""A desk at the queue: each operation of `work` as one call in a transaction of its own.

Production code writes several things in one transaction; a test mostly wants one and its verdict.
"""

from __future__ import annotations

import random
from typing import Any

from podium.kernel import journal
from podium.kernel.store import Row, Store
from podium.kernel.wake import Swept
from podium.kernel.work import (
    Claimed,
    DeadLetter,
    Done,
    Enqueued,
    Failure,
    NewItem,
    Offered,
    Renewal,
    Verdict,
    Work,
    WorkSweep,
)
from podium.kernel.work.model import Leased

Q = "q"


def item(id: str | None = None, **limits: Any) -> NewItem:
    """An item on queue `q`, unless told otherwise."""
    return NewItem(**{"queue": Q, "id": id, **limits})


class Desk:
    def __init__(self, store: Store, work: Work) -> None:
        self.store = store
        self.work = work
        self.sweeper = WorkSweep(work, random.Random(7))

    async def enqueue(self, *items: NewItem) -> list[Enqueued]:
        return await self.store.write(self.work.enqueue, items)

    async def add(self, *ids: str, **limits: Any) -> None:
        await self.enqueue(*(item(id, **limits) for id in ids))

    async def claim(
        self, n: int = 1, *, queue: str = Q, holder: str = "one", start: bool = False
    ) -> list[Claimed]:
        return await self.store.write(self.work.claim, queue=queue, holder=holder, n=n, start=start)

    async def take(self, id: str, *, holder: str = "one", start: bool = False) -> Claimed:
        """The lease on one item, which must be free."""
        (claimed,) = await self.claim_ids(id, holder=holder, start=start)
        return claimed

    async def run(self, id: str, *, holder: str = "one") -> Claimed:
        return await self.take(id, holder=holder, start=True)

    async def claim_ids(self, *ids: str, holder: str = "one", start: bool = False) -> list[Claimed]:
        return await self.store.write(self.work.claim_ids, ids, holder=holder, start=start)

    async def offer(self, n: int = 1, *, holder: str = "one", **how: Any) -> list[Offered]:
        return await self.store.write(self.work.offer, queue=Q, holder=holder, n=n, **how)

    async def start(self, *leases: Leased) -> list[Verdict]:
        return await self.store.write(self.work.start, leases)

    async def renew(self, *leases: Leased, seconds: float | None = None) -> list[Renewal]:
        return await self.store.write(self.work.renew, leases, seconds=seconds)

    async def complete(self, *leases: Leased, result: Any = None) -> list[Verdict]:
        return await self.store.write(self.work.complete, [Done(each, result) for each in leases])

    async def fail(self, *leases: Leased, error: str = "no", **how: Any) -> list[Verdict]:
        failures = [Failure(each, error, **how) for each in leases]
        return await self.store.write(self.work.fail, failures)

    async def release(self, *leases: Leased) -> list[Verdict]:
        return await self.store.write(self.work.release, leases)

    async def cancel(self, *ids: str, reason: str = "not wanted") -> list[Verdict]:
        return await self.store.write(self.work.cancel, ids, reason=reason)

    async def cancel_children(self, parent: str, **how: Any) -> list[str]:
        return await self.store.write(self.work.cancel_children, parent, reason="gone", **how)

    async def replay(self, *ids: str) -> list[bool]:
        return await self.store.write(self.work.replay, ids, actor="operator")

    async def sweep(self, limit: int = 1_000) -> Swept:
        return await self.sweeper.sweep(self.store, limit)

    async def kill(self, *ids: str) -> None:
        """Make dead letters of these, in this order."""
        for id in ids:
            await self.fail(await self.run(id), retryable=False)

    # Looking ---------------------------------------------------------------------------------

    async def live(self, id: str) -> Row:
        (row,) = await self.store.read(self.work.live, [id])
        return row

    async def finished(self, id: str) -> Row:
        (row,) = await self.store.read(self.work.finished, [id])
        return row

    async def state(self, id: str) -> str | None:
        """Whichever table it is in; None if it is in neither."""
        live = await self.store.read(self.work.live, [id])
        finished = await self.store.read(self.work.finished, [id])
        assert len(live) + len(finished) <= 1, f"{id} is both finished and not"
        return next((str(row.state) for row in [*live, *finished]), None)

    async def dead(self, **page: Any) -> list[DeadLetter]:
        return await self.store.read(self.work.dead_letters, queue=Q, **page)

    async def story(self, id: str) -> list[str]:
        """What the journal tells about one item."""
        return [line.event for line in await self.store.read(journal.read, "work", id)]
