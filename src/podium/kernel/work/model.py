"""The words of the queue."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from podium.kernel import payload
from podium.kernel.retry import RetryPolicy

LEASE_SECONDS = 60.0
TTL_SECONDS = 14 * 86_400.0
ATTEMPTS_MAX = 3


@dataclass(frozen=True, slots=True)
class NewItem:
    """What to do, and within which limits.

    `id` makes the enqueueing idempotent: an id that is known, live or finished (for 30 days), is not
    enqueued again.
    `dedupe_key` only keeps two *unfinished* items of one queue with one key from existing
    side by side.
    """

    queue: str
    payload: Any = None
    id: str | None = None
    priority: int = 0
    """0 to 10; ten goes first. An old item of low priority still gets its turn (ageing)."""
    delay_seconds: float = 0.0
    ttl_seconds: float = TTL_SECONDS
    """How long after it became due it may still be delivered; after that it is a dead letter."""
    dedupe_key: str | None = None
    parent: str | None = None
    properties: dict[str, Any] | None = None
    attempts_max: int = ATTEMPTS_MAX
    """How many starts, whatever ended them. 1 means never started twice."""
    retry: RetryPolicy | None = None
    lease_seconds: float = LEASE_SECONDS
    """The limit of silence: how long a holder may go without renewing."""
    run_seconds_max: float | None = None
    """The limit of one run, counted from its start. Renewing does not stretch it."""
    wait_seconds_max: float | None = None
    """The limit of one wait in the queue. It never counts as run time."""


class Leased(Protocol):
    """Anything that names a grant: who presents this epoch may write."""

    @property
    def id(self) -> str: ...

    @property
    def epoch(self) -> int: ...


class Lease(NamedTuple):
    id: str
    epoch: int


class Claimed(NamedTuple):
    """One grant. `epoch` is its fencing token: pass it on to whatever acts for the holder."""

    id: str
    epoch: int
    queue: str
    expires_at: datetime
    attempts: int
    attempts_max: int
    priority: int
    payload: str
    properties: str | None
    parent: str | None
    lease_seconds: float
    rank: int

    @property
    def body(self) -> Any:
        return payload.loads(self.payload)

    @property
    def lease(self) -> Lease:
        return Lease(self.id, self.epoch)


class Offered(NamedTuple):
    """Shown, not granted: claim it by its id."""

    id: str
    queue: str
    priority: int
    payload: str
    properties: str | None
    parent: str | None
    attempts: int
    attempts_max: int
    enqueued_at: datetime
    rank: int


class Done(NamedTuple):
    lease: Leased
    result: Any = None


class Failure(NamedTuple):
    lease: Leased
    error: str
    retryable: bool = True
    delay_seconds: float | None = None
    """Instead of the policy's backoff."""
    reason: str = "failed"


class Enqueued(NamedTuple):
    id: str
    created: bool
    """False: the id was known before, or `id` is the unfinished item that has the dedupe key."""


class Verdict(StrEnum):
    """What became of one row of a list. Only OK changed anything."""

    OK = "ok"
    EXPIRED = "expired"
    """The lease was over before the call came."""
    SUPERSEDED = "superseded"
    """Someone else was granted it since."""
    STARTED = "started"
    """This very grant was started before: by the caller itself, if it asks twice."""
    NOT_HELD = "not_held"
    """It is back in the queue, or it is not in the state this call needs."""
    DONE = "done"
    DEAD = "dead"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"
    """No such item, or finished so long ago that it was pruned."""


class Renewal(NamedTuple):
    verdict: Verdict
    expires_at: datetime | None


class DeadLetter(NamedTuple):
    id: str
    queue: str
    priority: int
    epoch: int
    attempts: int
    reason: str | None
    error: str | None
    payload: str
    properties: str | None
    parent: str | None
    enqueued_at: datetime
    finished_at: datetime

    @property
    def cursor(self) -> tuple[datetime, str]:
        """Where the next page begins."""
        return self.finished_at, self.id
