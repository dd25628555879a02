"""What becomes of an item: pure decisions, made on a row that the caller has locked."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import NamedTuple, Protocol

from podium.kernel import payload
from podium.kernel.errors import Invalid
from podium.kernel.redactor import REDACTOR
from podium.kernel.retry import DEFAULT, RetryPolicy
from podium.kernel.store import ROWS_MAX
from podium.kernel.work.machine import State
from podium.kernel.work.model import Leased, NewItem, Verdict

NAME = re.compile(r"[^\x00-\x1f\x7f\ud800-\udfff]{1,255}")
SECONDS_MAX = 10 * 366 * 86_400.0
ERROR_CHARACTERS_MAX = 4_000


class Held(Protocol):
    """The columns of a locked row that a decision needs."""

    id: str
    epoch: int
    state: str
    attempts: int
    attempts_max: int
    retry: str | None
    started_at: datetime | None
    run_seconds_max: float | None
    expire_at: datetime
    now_at: datetime
    holder: str | None


class PutBack(NamedTuple):
    id: str
    epoch: int
    was: str
    state: str
    delay_seconds: float
    refund: int
    keeps_rank: int
    error: str | None


class Finish(NamedTuple):
    id: str
    epoch: int
    alive: int
    state: str
    reason: str | None
    error: str | None
    result: str | None


class NewRow(NamedTuple):
    id: str
    n: int
    payload: str
    delay_seconds: float | None
    properties: str | None
    parent: str | None
    dedupe_key: str | None


class Terms(NamedTuple):
    """What the items of a list mostly have in common; it travels once."""

    queue: str
    priority: int
    attempts_max: int
    retry: str | None
    lease_seconds: float
    run_seconds_max: float | None
    wait_seconds_max: float | None
    ttl_seconds: float
    patience_seconds: float
    """Until somebody must look at an item that nobody takes."""


def new_row(item: NewItem, id: str, n: int) -> NewRow:
    """The row of a new item; Invalid, naming the field, for what no store should keep."""
    if item.id is not None:
        name("id", id)
    if item.parent is not None:
        name("parent", item.parent)
    if item.dedupe_key is not None:
        name("dedupe_key", item.dedupe_key)
    delay_seconds = item.delay_seconds
    if delay_seconds != 0.0:
        seconds("delay_seconds", delay_seconds)
    properties = item.properties
    if properties is not None and not isinstance(properties, dict):
        raise Invalid("properties is not an object with names", field="properties")
    return NewRow(
        id,
        n,
        payload.dumps(item.payload),
        delay_seconds or None,
        None if properties is None else payload.dumps(properties, field="properties"),
        item.parent,
        item.dedupe_key,
    )


def terms(item: NewItem) -> Terms:
    if item.retry is not None and not isinstance(item.retry, RetryPolicy):
        raise Invalid(f"retry is {shown(item.retry)}, not a RetryPolicy", field="retry")
    try:
        return _terms(
            item.queue,
            item.priority,
            item.attempts_max,
            item.retry,
            item.lease_seconds,
            item.run_seconds_max,
            item.wait_seconds_max,
            item.ttl_seconds,
        )
    except TypeError as error:
        raise Invalid(
            f"an item's terms are plain texts and numbers: {error}", field="item"
        ) from None


@lru_cache(maxsize=256, typed=True)
def _terms(
    queue: str,
    priority: int,
    attempts_max: int,
    retry: RetryPolicy | None,
    lease_seconds: float,
    run_seconds_max: float | None,
    wait_seconds_max: float | None,
    ttl_seconds: float,
) -> Terms:
    """Thousands of items share their terms, so these are checked once."""
    name("queue", queue)
    whole("priority", priority, 0, 10)
    whole("attempts_max", attempts_max, 1, 10_000)
    seconds("ttl_seconds", ttl_seconds)
    seconds("lease_seconds", lease_seconds)
    if run_seconds_max is not None:
        seconds("run_seconds_max", run_seconds_max)
    if wait_seconds_max is not None:
        seconds("wait_seconds_max", wait_seconds_max)
    return Terms(
        queue=queue,
        priority=priority,
        attempts_max=attempts_max,
        retry=None if retry is None else retry.model_dump_json(),
        lease_seconds=lease_seconds,
        run_seconds_max=run_seconds_max,
        wait_seconds_max=wait_seconds_max,
        ttl_seconds=ttl_seconds,
        patience_seconds=ttl_seconds
        if wait_seconds_max is None
        else min(wait_seconds_max, ttl_seconds),
    )


def shown(value: object) -> str:
    """For an error text: short, and whatever it is (a number may have too many digits to print)."""
    try:
        return repr(value)[:80]
    except Exception:
        return f"a {type(value).__name__}"


def whole(field: str, value: object, least: int, most: int) -> None:
    # Not isinstance: True is an int to Python and a boolean to a database.
    if type(value) is not int or not least <= value <= most:
        raise Invalid(f"{field} is {shown(value)}; it goes from {least} to {most}", field=field)


EPOCH_MAX = 2**31 - 1


def lease(lease: Leased) -> None:
    """An id that is no text, or an epoch that is no number, names nothing that was ever granted."""
    if type(lease.id) is not str or type(lease.epoch) is not int or lease.epoch > EPOCH_MAX:
        raise Invalid(
            f"{shown(lease)} is not a lease: its id is a text, its epoch a number", field="lease"
        )


def ids(ids: Sequence[object]) -> None:
    refuse_too_many(ids)
    for id in ids:
        name("id", id)


def refuse_too_many(items: Sequence[object]) -> None:
    if len(items) > ROWS_MAX:
        raise Invalid(
            f"{len(items)} rows in one call; the most is {ROWS_MAX}: send them in chunks",
            field="items",
        )


def refuse_count(n: object) -> None:
    if type(n) is not int or not 1 <= n <= ROWS_MAX:
        raise Invalid(f"n is {shown(n)}; it goes from 1 to {ROWS_MAX}", field="n")


def name(field: str, value: object) -> None:
    if field == "queue" and isinstance(value, str) and value and not value.isprintable():
        # A queue is a bell's name too, and is shown in logs and tables.
        raise Invalid(
            "queue has a character that cannot be seen; use letters, digits and signs", field=field
        )
    if not isinstance(value, str) or not NAME.fullmatch(value):
        raise Invalid(
            f"{field} must be 1 to 255 characters without control characters", field=field
        )


def seconds(field: str, value: object, *, zero: bool = False) -> None:
    number = type(value) in (int, float)
    if not number or not (0 < value <= SECONDS_MAX or (zero and value == 0)):  # type: ignore[operator]
        least = "0 or more" if zero else "more than 0"
        raise Invalid(
            f"{field} is {shown(value)}; it must be {least}, and at most ten years", field=field
        )


def after_failure(
    row: Held,
    *,
    error: str,
    retryable: bool,
    delay_seconds: float | None,
    reason: str,
    rng: random.Random,
) -> PutBack | Finish:
    """An attempt that ended badly: once more after a while, or a dead letter.

    A holder that gives up before it starts has used an attempt too; else it could do so for ever.
    """
    unstarted = int(row.state == State.LEASED)
    attempts = row.attempts + unstarted
    if not retryable:
        return bury(row, reason=f"{reason}_not_retryable", error=error)
    if attempts >= row.attempts_max:
        return bury(row, reason=f"{reason}_attempts_exhausted", error=error)
    if delay_seconds is None:
        try:
            delay_seconds = _policy(row).delay_seconds(attempts, rng)
        except ValueError as unreadable:
            # Nobody knows when to try again; a person must look, and nobody else waits for that.
            return bury(row, reason="unreadable", error=str(unreadable))
    return PutBack(
        id=row.id,
        epoch=row.epoch,
        was=row.state,
        state=State.SCHEDULED if delay_seconds > 0 else State.READY,
        delay_seconds=delay_seconds,
        refund=-unstarted,
        keeps_rank=0,
        error=clipped(error),
    )


def after_release(row: Held) -> PutBack:
    """Given back by its holder: nothing happened, so it keeps its place and its attempts."""
    return PutBack(
        id=row.id,
        epoch=row.epoch,
        was=row.state,
        state=State.READY,
        delay_seconds=0.0,
        refund=1 if row.state == State.RUNNING else 0,
        keeps_rank=1,
        error=None,
    )


def when_due(row: Held, rng: random.Random) -> PutBack | Finish:
    """`wake_at` has passed and nobody did anything about it."""
    if row.state == State.READY:
        expired = row.expire_at <= row.now_at
        return bury(row, reason="expired" if expired else "waited_too_long", error=None)
    if row.state == State.LEASED:
        return after_release(row)
    assert row.state == State.RUNNING, f"{row.id} is {row.state} and due"
    over = ran_too_long(row)
    return after_failure(
        row,
        error="ran longer than it may" if over else "its holder went silent",
        retryable=True,
        delay_seconds=None,
        reason="run_timeout" if over else "lease_expired",
        rng=rng,
    )


def ran_too_long(row: Held) -> bool:
    if row.run_seconds_max is None or row.started_at is None:
        return False
    return row.started_at + timedelta(seconds=row.run_seconds_max) <= row.now_at


def bury(row: Held, *, reason: str, error: str | None) -> Finish:
    return Finish(row.id, row.epoch, 0, State.DEAD, reason, clipped(error), None)


class Refused(Protocol):
    """What the tables say about a lease whose write changed nothing."""

    asked: int
    state: str | None
    epoch: int | None
    is_current: bool | None
    finished: str | None


def why_refused(row: Refused) -> Verdict:
    """What to tell its holder."""
    if row.finished is not None:
        return Verdict(row.finished)
    if row.state is None:
        return Verdict.UNKNOWN
    if row.epoch != row.asked:
        return Verdict.SUPERSEDED
    if row.state not in (State.LEASED, State.RUNNING):
        return Verdict.NOT_HELD
    if not row.is_current:
        return Verdict.EXPIRED
    return Verdict.STARTED if row.state == State.RUNNING else Verdict.NOT_HELD


def clipped(error: str | None) -> str | None:
    """An error text that any store can keep, without secrets, cut where nobody reads on."""
    if error is None:
        return None
    if not isinstance(error, str):
        raise Invalid(f"an error or reason is a text, not {shown(error)}", field="error")
    text = error.replace("\0", "\N{SYMBOL FOR NULL}").encode("utf-8", "replace").decode()
    text = REDACTOR.mask(text)
    return text if len(text) <= ERROR_CHARACTERS_MAX else text[: ERROR_CHARACTERS_MAX - 1] + "…"


def _policy(row: Held) -> RetryPolicy:
    return DEFAULT if row.retry is None else RetryPolicy.model_validate_json(row.retry)
