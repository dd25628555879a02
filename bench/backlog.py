"""Does a long queue, a long future or a long past make a claim slower?

Two databases, one with a short backlog and one with a long one, take turns on the same loop: claim
and start 100, complete them, enqueue 100 more, so that the level stays. Each turn is compared with
the one right before it, so that what disturbs the machine disturbs both.
"""

from __future__ import annotations

import statistics
import time
from typing import NamedTuple

import uvloop

from bench.copies import copy_row
from bench.podium_queue import HOLDER, QUEUE, Opened, fill, opened
from podium.kernel.work import Done, NewItem

BATCH = 100
DAY_SECONDS = 86_400.0
READY = "ready"
DELAYED = "delayed"
FINISHED = "finished"


class Stretch(NamedTuple):
    claim_seconds: float
    """Of one claim, on average over the stretch: what happens once a second counts, too."""
    cycle_seconds: float
    """Of one claim and its completion."""


class SlowDown(NamedTuple):
    claim: float
    """0.1: a claim takes a tenth longer with the long backlog."""
    cycle: float
    items_per_second: float
    """Claimed and completed per second, with the long backlog."""


def slow_down(
    short: str, long: str, kind: str, level: int, rows: int, stretches: int, seconds: float
) -> SlowDown:
    return uvloop.run(_slow_down(short, long, kind, level, rows, stretches, seconds))


async def _slow_down(
    short: str, long: str, kind: str, level: int, rows: int, stretches: int, seconds: float
) -> SlowDown:
    await _prepare(long, kind, rows)
    async with opened(short) as one, opened(long) as other:
        for podium in (one, other):
            await fill(podium.store, podium.work, level)
            await stretch(podium, seconds / 2)
        pairs = [
            (await stretch(one, seconds), await stretch(other, seconds)) for _ in range(stretches)
        ]
    claim = statistics.median(b.claim_seconds / a.claim_seconds for a, b in pairs)
    cycle = statistics.median(b.cycle_seconds / a.cycle_seconds for a, b in pairs)
    rate = BATCH / statistics.median(b.cycle_seconds for _, b in pairs)
    return SlowDown(claim - 1, cycle - 1, rate)


async def _prepare(at: str, kind: str, rows: int) -> None:
    delay_seconds = DAY_SECONDS if kind == DELAYED else 0.0
    async with opened(at) as (store, work):
        item = NewItem(QUEUE, {"n": 0}, delay_seconds=delay_seconds)
        await store.write(work.enqueue, [item])
        if kind == FINISHED:
            claimed = await store.write(work.claim, queue=QUEUE, holder=HOLDER, start=True)
            await store.write(work.complete, [Done(item) for item in claimed])
    if kind == FINISHED:
        copy_row(at, "work_finished", rows, ())
    else:
        copy_row(at, "work", rows, ("wake_at", "ready_at") if kind == DELAYED else ())


async def stretch(podium: Opened, seconds: float) -> Stretch:
    """Claim, complete and enqueue for a while, one batch after the other."""
    store, work = podium
    claiming = completing = 0.0
    batches = 0
    until = time.perf_counter() + seconds
    while (began := time.perf_counter()) < until or not batches:
        claimed = await store.write(work.claim, queue=QUEUE, holder=HOLDER, n=BATCH, start=True)
        middle = time.perf_counter()
        assert len(claimed) == BATCH, f"only {len(claimed)} were ready"
        verdicts = await store.write(work.complete, [Done(item) for item in claimed])
        ended = time.perf_counter()
        assert set(verdicts) == {"ok"}, verdicts
        claiming += middle - began
        completing += ended - middle
        batches += 1
        await store.write(work.enqueue, [NewItem(QUEUE, {"n": n}) for n in range(BATCH)])
    return Stretch(claiming / batches, (claiming + completing) / batches)
