"""Work items on the wire: hand in, take, hold, report, look.

Lists in, lists out: who has a hundred things to say says them in one call. An item is named by its
id; a grant of it by id and epoch, and whoever presents an old epoch is refused.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from podium.contracts import words

ITEMS_MAX = 1_000
Id = Annotated[str, Field(min_length=1, max_length=255)]
Queue = Annotated[str, Field(min_length=1, max_length=255)]
Seconds = Annotated[float, Field(gt=0, le=366 * 86_400, allow_inf_nan=False)]


class Words(words.Words):
    model_config = ConfigDict(strict=True)


class NewWork(Words):
    queue: Queue
    payload: Any = None
    id: Id | None = None
    """Known, live or finished within 30 days: it is not enqueued again."""
    priority: Annotated[int, Field(ge=0, le=10)] = 0
    delay_seconds: Annotated[float, Field(ge=0, le=366 * 86_400, allow_inf_nan=False)] = 0.0
    ttl_seconds: Seconds | None = None
    dedupe_key: Id | None = None
    attempts_max: Annotated[int, Field(ge=1, le=1_000)] = 3
    """How many starts, whatever ended them."""
    lease_seconds: Annotated[float, Field(ge=1, le=86_400, allow_inf_nan=False)] = 60.0
    """How long a holder may go without renewing."""
    run_seconds_max: Seconds | None = None
    wait_seconds_max: Seconds | None = None


class Enqueue(Words):
    items: Annotated[list[NewWork], Field(min_length=1, max_length=ITEMS_MAX)]


class EnqueuedItem(Words):
    id: str
    created: bool
    """False: it was known before."""


class Enqueued(Words):
    items: list[EnqueuedItem]


class Claim(Words):
    queues: Annotated[list[Queue], Field(min_length=1, max_length=100)]
    holder: Id
    """A name of the caller's own, new at each of its starts."""
    n: Annotated[int, Field(ge=1, le=ITEMS_MAX)] = 1
    wait_seconds: Annotated[float, Field(ge=0, le=30, allow_inf_nan=False)] = 0.0
    """How long to wait if there is nothing yet."""
    start: bool = True
    """Begin at once. False: call start when it really begins; only that counts as an attempt."""


class ClaimedWork(Words):
    id: str
    epoch: int
    queue: str
    payload: Any
    attempts: int
    attempts_max: int
    priority: int
    lease_seconds: float
    expires_at: datetime


class Claimed(Words):
    items: list[ClaimedWork]


class Grant(Words):
    id: Id
    epoch: Annotated[int, Field(ge=0, le=2**62)]


class Grants(Words):
    grants: Annotated[list[Grant], Field(min_length=1, max_length=ITEMS_MAX)]


class Success(Grant):
    result: Any = None


class Failure(Grant):
    error: Annotated[str, Field(max_length=10_000)]
    retryable: bool = True
    delay_seconds: Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)] | None = None


class Report(Words):
    done: Annotated[list[Success], Field(max_length=ITEMS_MAX)] = Field(default_factory=list)
    failed: Annotated[list[Failure], Field(max_length=ITEMS_MAX)] = Field(default_factory=list)


class Verdict(Words):
    id: str
    epoch: int
    verdict: str
    """`ok`, or why not: expired, superseded, started, not_held, done, dead, cancelled, unknown."""
    expires_at: datetime | None = None


class Verdicts(Words):
    verdicts: list[Verdict]


class Cancel(Words):
    ids: Annotated[list[Id], Field(min_length=1, max_length=ITEMS_MAX)]
    reason: Annotated[str, Field(min_length=1, max_length=1_000)] = "cancelled"


class WorkShown(Words):
    id: str
    queue: str
    state: str
    epoch: int
    attempts: int
    attempts_max: int | None = None
    priority: int | None = None
    holder: str | None = None
    reason: str | None = None
    error: str | None = None
    result: Any = None
    enqueued_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    wake_at: datetime | None = None


class QueueShown(Words):
    queue: str
    counts: dict[str, int]


class Queues(Words):
    queues: list[QueueShown]


class DeadLetter(Words):
    id: str
    queue: str
    reason: str | None
    error: str | None
    attempts: int
    payload: Any
    enqueued_at: datetime
    finished_at: datetime


class DeadLetters(Words):
    items: list[DeadLetter]
    next_cursor: str | None = None


class Replay(Words):
    ids: Annotated[list[Id], Field(min_length=1, max_length=ITEMS_MAX)]


class Replayed(Words):
    ids: list[str]
    """Those that were dead and are ready again."""
    unknown: list[str]


class Explanation(Words):
    """Why a thing is where it is, and what happens next."""

    kind: str
    id: str
    state: str
    reason: str
    """One word per cause, for programs."""
    text: str
    """The same for people."""
    until: datetime | None = None
    """When it changes by itself if nobody does anything."""
    next: str


class JournalLine(Words):
    seq: int
    position: str
    """Where to go on reading: `Last-Event-ID`, or `after`."""
    at: datetime
    kind: str
    id: str
    event: str
    actor: str | None
    epoch: int | None
    reason: str | None
    data: Any


class Journal(Words):
    lines: list[JournalLine]
