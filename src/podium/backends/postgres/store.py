"""The distributed store: many processes, one PostgreSQL.

A body is awaited on a pooled connection, under READ COMMITTED, and run again when PostgreSQL chose
it to give way (deadlock, serialization) or when the connection was lost before the commit.

The hard case is a connection lost *while* committing: it may have happened. So each write that
changed something inserts a key of its own into `podium_commits`, in the same round trip as COMMIT.
When the answer is lost, the body is run again, and begins by inserting the same key: if the first
commit happened the key is there, and the result of the first run is the answer; if it is still under
way, the insert waits for it; and if it comes later, it finds the key taken. (See the decision record.)
"""

from __future__ import annotations

import asyncio
import random
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeVar

import psycopg
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from podium.backends.postgres.doorbell import PATIENCE, Doorbell
from podium.backends.postgres.tx import (
    RERUN,
    Connection,
    GlanceTx,
    Makers,
    NeedsSnapshot,
    PostgresTx,
)
from podium.kernel.bell import Bell
from podium.kernel.clock import Clock
from podium.kernel.errors import CommitUnknown, SchemaMismatch, Unavailable
from podium.kernel.ids import Ulids
from podium.kernel.queries import Queries
from podium.kernel.store import Body
from podium.kernel.telemetry import Metrics, logger

P = ParamSpec("P")
R = TypeVar("R")

GONE = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    psycopg.errors.IdleInTransactionSessionTimeout,
    psycopg.errors.TransactionTimeout,
    PoolTimeout,
)
PATIENCE_SECONDS = 10.0
"""How long a write looks for a database that is away before it gives up."""
PAUSE_SECONDS_MAX = 1.0
STATEMENT_SECONDS_MAX = 30
LOCK_SECONDS_MAX = 5
IDLE_IN_TRANSACTION_SECONDS_MAX = 30
TRANSACTION_SECONDS_MAX = 60
SCANS = ("enable_seqscan", "enable_bitmapscan", "enable_hashjoin", "enable_mergejoin")
"""Off, but for long reads. The statistics of a queue are always of another moment: a plan made when
the table was empty reads all of it when it is full. Every short query here is a walk along an index."""

# The key is our own, 26 letters and digits: nothing to quote.
INSERT_KEY = "insert into podium_commits (key, try_number) select '{key}', {try_number}"
IF_CHANGED = "where pg_current_xact_id_if_assigned() is not null"
WHICH_TRY = "select try_number from podium_commits where key = %s"
SNAPSHOT = "begin isolation level repeatable read read only"

log = logger(__name__)


class KeyKnown(Exception):
    """This write's key is in the database: the commit of one of its tries did happen."""

    def __init__(self, try_number: int) -> None:
        super().__init__(f"try {try_number} was committed")
        self.try_number = try_number


class PostgresStore:
    def __init__(
        self,
        url: str,
        *,
        clock: Clock,
        queries: Queries,
        rng: random.Random,
        metrics: Metrics | None = None,
        connections_max: int = 10,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self.queries = queries
        self.bell = Bell()
        self.clock_offset_seconds = 0.0
        """Added to the database's clock for this store's transactions. Only tests set it."""
        self._clock = clock
        self._rng = rng
        self._keys = Ulids(clock, rng)
        self._metrics = metrics or Metrics()
        self._patience_seconds = patience_seconds
        self._need_snapshots: set[str] = set()
        """The bodies that were seen to look more than once."""
        self._url = url
        self._connections_max = connections_max
        self._pool = self._new_pool()
        self._makers: Makers = {}
        self._is_open = False
        self._is_in_a_body = ContextVar("is_in_a_body", default=False)
        self._doorbell = Doorbell(url, self.bell, self._keys.new())

    def _new_pool(self) -> AsyncConnectionPool[Any]:
        return AsyncConnectionPool(
            self._url,
            min_size=1,
            max_size=self._connections_max,
            open=False,
            kwargs={"autocommit": True, "application_name": "podium", **PATIENCE},
            configure=_configure,
            reset=_reset,
            timeout=self._patience_seconds,
            reconnect_timeout=self._patience_seconds,
            name="podium",
        )

    async def open(self) -> None:
        if self._pool.closed:
            # A pool is opened once in its life; a store may be opened again.
            self._pool = self._new_pool()
        try:
            await self._pool.open(wait=True, timeout=self._patience_seconds)
        except GONE as error:
            await self._pool.close()
            why = await self._why_no_connection() or error
            raise Unavailable(f"PostgreSQL does not answer: {why}", cause="connect") from error
        try:
            async with asyncio.timeout(self._patience_seconds):
                await self._doorbell.open()
        except TimeoutError as error:
            await self.close()
            raise Unavailable("PostgreSQL takes no further connection", cause="listen") from error
        self._is_open = True

    async def _why_no_connection(self) -> str:
        """The pool only says that it waited in vain."""
        try:
            connection = await psycopg.AsyncConnection.connect(self._url, **PATIENCE)
        except psycopg.Error as error:
            return str(error).partition("\n")[0]
        await connection.close()
        return ""

    def _refuse_when_closed(self) -> None:
        if not self._is_open:
            raise Unavailable("the store is not open", cause="closed")

    async def close(self) -> None:
        self._is_open = False
        await self._doorbell.close()
        await self._pool.close()

    async def write(self, body: Body[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        self._refuse_when_closed()
        if self._is_in_a_body.get():
            raise RuntimeError("a body may await only tx: it cannot write in another transaction")
        attempt = Attempt(self._keys.new(), self._clock.monotonic())
        while True:
            try:
                result, rung = await self._run(attempt, body, args, kwargs)
            except KeyKnown as known:
                result, rung = attempt.results[known.try_number]
            except RERUN as error:
                await self._pause(attempt, error)
                continue
            except GONE as error:
                await self._pause(attempt, error)
                continue
            self._metrics.store_bodies.inc()
            self._doorbell.ring(rung)
            attempt.heed_cancellation()
            return result

    async def read(self, body: Body[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        self._refuse_when_closed()
        name = getattr(body, "__qualname__", type(body).__qualname__)
        if name not in self._need_snapshots and not self.clock_offset_seconds:
            try:
                return await self._glance(body, args, kwargs)
            except NeedsSnapshot:
                self._need_snapshots.add(name)
        return await self._read(self._begin(SNAPSHOT), body, args, kwargs)

    async def read_long(self, body: Body[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        self._refuse_when_closed()
        scans = "; ".join(f"set local {scan} = on" for scan in SCANS)
        return await self._read(f"{self._begin(SNAPSHOT)}; {scans}", body, args, kwargs)

    async def _glance(self, body: Body[P, R], args: Any, kwargs: Any) -> R:
        attempt = Attempt("", self._clock.monotonic())
        while True:
            try:
                async with self._pool.connection() as connection:
                    tx = GlanceTx(connection, self.queries, self._makers)
                    result = await body(tx, *args, **kwargs)
                    if tx.needs_snapshot:
                        raise NeedsSnapshot
                    attempt.heed_cancellation()
                    return result
            except GONE as error:
                await self._pause(attempt, error)

    async def _read(self, begin: str, body: Body[P, R], args: Any, kwargs: Any) -> R:
        attempt = Attempt("", self._clock.monotonic())
        while True:
            try:
                async with self._pool.connection() as connection:
                    await connection.execute(begin.encode())
                    tx = PostgresTx(connection, self.queries, self._makers)
                    result = await body(tx, *args, **kwargs)
                    await connection.execute("commit")
                    attempt.heed_cancellation()
                    return result
            except (*RERUN, *GONE) as error:
                await self._pause(attempt, error)

    async def _run(
        self,
        attempt: Attempt,
        body: Body[P, R],
        args: Any,
        kwargs: Any,
    ) -> tuple[R, list[tuple[str, int | None]]]:
        async with self._pool.connection() as connection:
            await self._begin_write(connection, attempt)
            tx = PostgresTx(connection, self.queries, self._makers)
            inside = self._is_in_a_body.set(True)
            try:
                result = await body(tx, *args, **kwargs)
            finally:
                self._is_in_a_body.reset(inside)
                tx.is_open = False
            if tx.refused is not None:
                raise tx.refused
            attempt.results[attempt.tries] = (result, tx.rung)
            began = self._clock.monotonic()
            await self._commit(connection, attempt, tx)
            self._metrics.store_commit_seconds.observe(self._clock.monotonic() - began)
            self._metrics.store_commits.inc()
            return result, tx.rung

    async def _begin_write(self, connection: Connection, attempt: Attempt) -> None:
        begin = self._begin("begin")
        if not attempt.committing:
            await connection.execute(begin.encode())
            return
        try:
            insert = INSERT_KEY.format(key=attempt.key, try_number=attempt.tries)
            await connection.execute(f"{begin}; {insert}".encode())
        except psycopg.errors.UniqueViolation:
            await connection.rollback()
            cursor = await connection.execute(WHICH_TRY, (attempt.key,))
            [(try_number,)] = await cursor.fetchall()
            raise KeyKnown(try_number) from None

    async def _commit(self, connection: Connection, attempt: Attempt, tx: PostgresTx) -> None:
        """One round trip, key included. A body that changed nothing has nothing to protect, and a
        migration records itself."""
        if attempt.committing or tx.is_migration:
            await connection.execute("commit")
            return
        attempt.committing = True
        insert = INSERT_KEY.format(key=attempt.key, try_number=attempt.tries)
        try:
            await connection.execute(f"{insert} {IF_CHANGED}; commit".encode())
        except psycopg.errors.UndefinedTable as error:
            raise SchemaMismatch("the database has no schema yet; run: podium migrate") from error

    def _begin(self, begin: str) -> str:
        if not self.clock_offset_seconds:
            return begin
        return f"{begin}; set local podium.clock_offset = '{self.clock_offset_seconds:f} seconds'"

    async def _pause(self, attempt: Attempt, error: Exception) -> None:
        """Wait before the next try, or give up: then say honestly whether it may have happened."""
        attempt.heed_cancellation()
        attempt.tries += 1
        self._metrics.store_reruns.labels(cause=type(error).__name__).inc()
        waited = self._clock.monotonic() - attempt.since
        if waited > self._patience_seconds:
            self._metrics.store_unavailable.labels(cause=type(error).__name__).inc()
            if attempt.committing:
                raise CommitUnknown(
                    "the connection was lost while committing and PostgreSQL did not come back",
                    cause=type(error).__name__,
                ) from error
            raise Unavailable(
                f"PostgreSQL does not answer: {error}", cause=type(error).__name__
            ) from error
        longest = min(PAUSE_SECONDS_MAX, 0.01 * 2 ** min(attempt.tries, 10))
        await asyncio.sleep(longest * self._rng.uniform(0.5, 1.0))


class Attempt:
    """One write and what is known of it, over all its tries."""

    def __init__(self, key: str, since: float) -> None:
        self.key = key
        self.since = since
        self.tries = 0
        self.committing = False
        """A commit under this key was sent: from now on it may have happened."""
        self.results: dict[int, Any] = {}
        """Of each try whose body came to its end: its result, and the bells it rang."""
        self._cancellations = _cancellations()

    def heed_cancellation(self) -> None:
        """A task that is cancelled while it borrows a connection may get its answer all the same,
        and would go on as if nothing had been asked of it: Python 3.11 loses some cancellations."""
        if _cancellations() > self._cancellations:
            raise asyncio.CancelledError


def _cancellations() -> int:
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


async def _configure(connection: Connection) -> None:
    """Nothing of ours may hang: not a statement, not a lock, not a forgotten transaction."""
    settings = {
        "statement_timeout": f"{STATEMENT_SECONDS_MAX}s",
        "lock_timeout": f"{LOCK_SECONDS_MAX}s",
        "idle_in_transaction_session_timeout": f"{IDLE_IN_TRANSACTION_SECONDS_MAX}s",
        "timezone": "UTC",
        "jit": "off",
        **dict.fromkeys(SCANS, "off"),
    }
    if connection.info.server_version >= 170_000:
        settings["transaction_timeout"] = f"{TRANSACTION_SECONDS_MAX}s"
    for name, value in settings.items():
        await connection.execute("select set_config(%s, %s, false)", (name, value))


async def _reset(connection: Connection) -> None:
    """A body that raised leaves its transaction open; the next borrower gets a clean connection."""
    if connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
        await connection.rollback()
