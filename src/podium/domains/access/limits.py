"""Rate limits, counted in the store for all servers together.

A limit is so many per period, from one fixed start of a period to the next. A process takes its
share in blocks of a twentieth and answers from the block, so that a busy caller costs a write per
block and not per request; what is given out in all never exceeds the limit.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import NamedTuple

from podium.domains.access import repository
from podium.kernel.clock import Clock
from podium.kernel.store import Store, Tx

MINUTE_SECONDS = 60.0
BUCKETS_MAX = 10_000
BLOCKS_PER_PERIOD = 20
BLOCK_MAX = 500


class Allowance(NamedTuple):
    is_granted: bool
    limit: int
    remaining: int
    reset_seconds: float
    """Until the next period begins."""


@dataclass(slots=True)
class _Share:
    """What this process has of one bucket's current period."""

    left: int = 0
    used: int = 0
    until: float = 0.0
    is_spent: bool = False
    taking: asyncio.Lock = field(default_factory=asyncio.Lock)


class Limits:
    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._shares: OrderedDict[str, _Share] = OrderedDict()

    async def take(
        self, bucket: str, *, limit: int, period_seconds: float = MINUTE_SECONDS, block: int = 0
    ) -> Allowance:
        """One more for `bucket`, if there is one left. `block` 1 counts each one in the store at once."""
        share = self._share(bucket)
        now = self._clock.monotonic()
        if now >= share.until or not (share.left or share.is_spent):
            async with share.taking:
                # While we waited, somebody else may have fetched the next block.
                if self._clock.monotonic() >= share.until or not (share.left or share.is_spent):
                    await self._fetch(share, bucket, limit, period_seconds, block)
        granted = share.left > 0
        share.left -= int(granted)
        return self._allowance(share, limit, granted)

    def is_spent(self, bucket: str) -> Allowance | None:
        """What this process already knows without asking: the refusal, if it is one."""
        share = self._shares.get(bucket)
        if share is None or not share.is_spent or self._clock.monotonic() >= share.until:
            return None
        return self._allowance(share, 0, False)

    async def _fetch(
        self, share: _Share, bucket: str, limit: int, period_seconds: float, block: int
    ) -> None:
        wanted = block or max(1, min(limit // BLOCKS_PER_PERIOD, BLOCK_MAX))
        taken = await self._store.write(
            repository.take, bucket, period_seconds=period_seconds, wanted=wanted
        )
        before = taken.used - wanted
        share.left = max(0, min(wanted, limit - before))
        share.used = min(taken.used, limit)
        share.is_spent = share.left == 0
        share.until = self._clock.monotonic() + taken.seconds_left

    def _allowance(self, share: _Share, limit: int, granted: bool) -> Allowance:
        remaining = max(0, limit - share.used + share.left)
        reset_seconds = max(0.0, share.until - self._clock.monotonic())
        return Allowance(granted, limit, remaining, reset_seconds)

    def _share(self, bucket: str) -> _Share:
        share = self._shares.get(bucket)
        if share is None:
            share = self._shares[bucket] = _Share()
            if len(self._shares) > BUCKETS_MAX:
                self._shares.popitem(last=False)
        else:
            self._shares.move_to_end(bucket)
        return share


async def prune(tx: Tx, n: int = 2_000) -> int:
    return len(await tx.rows("access.prune_limits", n=n))
