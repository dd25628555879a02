"""The audit log: who called what, from where, and what came of it.

A line is on the disk before the caller gets its answer. Many callers at once share one write.
"""

from __future__ import annotations

from podium.domains.access import repository
from podium.domains.access.model import Entry, LoggedEntry
from podium.kernel.coalesce import Coalescer
from podium.kernel.store import Store, Tx

NEWEST = 2**62


class Audit:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._write: Coalescer[Entry, None] = Coalescer(self._write_all)

    async def record(self, entry: Entry) -> None:
        await self._write(entry)

    async def _write_all(self, entries: list[Entry]) -> list[None]:
        return await self._store.write(repository.record, entries)

    async def read(
        self, tx: Tx, *, before: int = NEWEST, actor: str | None = None, n: int = 100
    ) -> list[LoggedEntry]:
        """The newest first; `before` is the `seq` of the last one seen."""
        return await repository.log(tx, before=before, actor=actor, n=n)


async def prune(tx: Tx, *, keep_seconds: float, n: int = 2_000) -> int:
    return len(await tx.rows("access.prune_log", keep_seconds=keep_seconds, n=n))
