"""Why a work item is not running now, and what happens next.

Told from the row itself and from the predicates of the queries: what `work.claim` would not take is
explained by the condition that kept it from being taken.
"""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from podium.kernel.errors import NotFound
from podium.kernel.store import Row, Tx
from podium.kernel.work.machine import State

AHEAD_MAX = 1_000


class Why(NamedTuple):
    state: str
    reason: str
    text: str
    until: datetime | None
    next: str


class Around(NamedTuple):
    """What a waiting item has around it."""

    ahead: int
    holders: int


async def explain(tx: Tx, id: str) -> Why:
    """NotFound if there is no such item, or it was pruned."""
    live = await tx.rows("work.live", ids=[(id,)])
    if live:
        return _live(live[0], await _around(tx, live[0]))
    finished = await tx.rows("work.finished", ids=[(id,)])
    if finished:
        return _finished(finished[0])
    raise NotFound(
        f"there is no work item {id[:64]!r}, or it was finished so long ago that it is forgotten"
    )


async def _around(tx: Tx, row: Row) -> Around:
    if row.state != State.READY:
        return Around(0, 0)
    rows = await tx.rows("work.around", id=row.id, queue=row.queue, at_most=AHEAD_MAX)
    return Around(rows[0].ahead, rows[0].holders)


def _live(row: Row, around: Around) -> Why:
    explained = {
        State.SCHEDULED: _scheduled,
        State.READY: _ready,
        State.OFFERED: _offered,
        State.LEASED: _leased,
        State.RUNNING: _running,
    }
    return explained[State(row.state)](row, around)


def _scheduled(row: Row, around: Around) -> Why:
    if row.attempts:
        text = f"attempt {row.attempts} of {row.attempts_max} failed ({row.error}); it backs off until {_time(row.wake_at)}"
        return Why(row.state, "backoff", text, row.wake_at, "it becomes ready and is tried again")
    text = f"it was put off until {_time(row.wake_at)}"
    return Why(row.state, "delayed", text, row.wake_at, "it becomes ready")


def _ready(row: Row, around: Around) -> Why:
    if row.wake_at <= row.now_at:
        text = "it waited as long as it may; the sweeper is about to bury it"
        return Why(row.state, "waited_too_long", text, row.wake_at, "it becomes a dead letter")
    ahead = f"{around.ahead}{'+' if around.ahead >= AHEAD_MAX else ''}"
    then = f"a worker of queue {row.queue} claims it; if none does until {_time(row.wake_at)}, it becomes a dead letter"
    if around.holders == 0:
        text = f"nobody holds anything of queue {row.queue} now, and {ahead} wait before it: is a worker running for that queue?"
        return Why(row.state, "no_worker_seen", text, row.wake_at, then)
    text = f"{ahead} wait before it in queue {row.queue}; {around.holders} holder(s) work on that queue"
    return Why(row.state, "queued", text, row.wake_at, then)


def _offered(row: Row, around: Around) -> Why:
    text = f"it was shown to {row.holder}, who has not taken it yet; hidden from others until {_time(row.wake_at)}"
    return Why(row.state, "offered", text, row.wake_at, "it is taken, or it becomes ready again")


def _leased(row: Row, around: Around) -> Why:
    if row.wake_at <= row.now_at:
        text = f"{row.holder} took it and never started it; its lease ended at {_time(row.wake_at)}"
        return Why(row.state, "lease_ended", text, row.wake_at, "the sweeper puts it back")
    text = f"{row.holder} holds it and has not started it; the lease ends at {_time(row.wake_at)}"
    return Why(
        row.state, "leased", text, row.wake_at, "it starts, or the lease ends and it becomes ready"
    )


def _running(row: Row, around: Around) -> Why:
    if row.wake_at <= row.now_at:
        text = f"{row.holder} went silent; its lease ended at {_time(row.wake_at)}"
        return Why(
            row.state, "lease_ended", text, row.wake_at, "the sweeper gives it to somebody else"
        )
    text = (
        f"{row.holder} is running attempt {row.attempts} of {row.attempts_max}, since {_time(row.started_at)}; "
        f"its lease ends at {_time(row.wake_at)} unless it renews"
    )
    last = row.attempts >= row.attempts_max
    then = "it becomes a dead letter" if last else "it is tried again"
    return Why(row.state, "running", text, row.wake_at, f"it is done; or the lease ends and {then}")


def _finished(row: Row) -> Why:
    when = _time(row.finished_at)
    if row.state == State.DONE:
        return Why(row.state, "done", f"it was done at {when}, by {row.holder}", None, "nothing")
    if row.state == State.CANCELLED:
        return Why(
            row.state, "cancelled", f"it was cancelled at {when}: {row.reason}", None, "nothing"
        )
    because = f"{row.reason}: {row.error}" if row.error else f"{row.reason}"
    text = f"it died at {when} after {row.attempts} attempt(s), {because}"
    return Why(
        row.state,
        "dead",
        text,
        None,
        "nothing, until somebody replays it: podium deadletter replay",
    )


def _time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
