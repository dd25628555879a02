"""The embedded store: one file, one writer, many bodies per commit.

Bodies are driven inline on the event loop: there is no thread between a caller and the database,
so simulation and production are one path. Writers queue here, in order. A round takes what has
gathered, runs each body in a savepoint, commits them together and answers all of them; a body that
fails is rolled back alone. While the disk syncs, the next round gathers. That is the whole of
group commit: nobody waits for a timer.

    write ─► waiting ─► round: begin, (savepoint, body, release)*, commit ─► answers, bells

If the disk refuses a commit, nothing of the round is acknowledged. After an I/O error nothing is
until a full checkpoint has been written and synced: a page that the kernel once failed to write
may be marked clean, and would never be written again (see the decision record on failed syncs).
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, ParamSpec, TypeVar, cast

import apsw

from podium.backends.sqlite.connection import connect, restart_log
from podium.backends.sqlite.lock import FileLock, SameFile
from podium.backends.sqlite.tx import UNAVAILABLE_ERRORS, SQLiteTx, translated, unavailable
from podium.kernel.bell import Bell
from podium.kernel.clock import Clock
from podium.kernel.errors import PodiumError, Unavailable
from podium.kernel.queries import Queries
from podium.kernel.store import Body
from podium.kernel.telemetry import Metrics, logger

P = ParamSpec("P")
R = TypeVar("R")

MEMORY = ":memory:"
BODIES_PER_COMMIT = 64
ROUND_SECONDS_MAX = 0.002
"""A round that runs longer commits with what it has, so that the first caller is not kept."""
SLOW_COMMIT_SECONDS = 0.002
"""Where the disk takes longer than this, commits move to a thread and the loop stays free."""
BUSY_SECONDS_MAX = 5.0
BUSY_PAUSE_SECONDS = 0.02

log = logger(__name__)


class Write(NamedTuple):
    body: Body[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    answer: asyncio.Future[Any]
    since: float


Ran = list[tuple[Write, Any, BaseException | None]]
"""What a round has run: each write with its result, or with the error of its own body."""


class SQLiteStore:
    def __init__(
        self,
        path: str | Path,
        *,
        clock: Clock,
        queries: Queries,
        metrics: Metrics | None = None,
    ) -> None:
        self.queries = queries
        self.bell = Bell()
        self._path = str(path)
        self._clock = clock
        self._metrics = metrics or Metrics()
        self._lock = FileLock(Path(path)) if self._path != MEMORY else None
        self._writer: apsw.Connection | None = None
        self._reader: apsw.Connection | None = None
        self._waiting: deque[Write] = deque()
        self._round_due = False
        self._file: SameFile | None = None
        self._idle: asyncio.Future[None] | None = None
        self._closing = False
        self._is_in_a_body = False
        self._wounded = False
        self._commit_seconds = 0.0
        self._threads = _threads()
        # Rounds belong to the store, not to the caller that happened to begin one.
        self._context = contextvars.Context()

    async def open(self) -> None:
        if self._lock:
            self._lock.take()
        try:
            self._writer = connect(self._path, self._clock)
            self._write_tx = SQLiteTx(self._writer, self.queries)
            # A database in memory belongs to one connection; its reads run between the rounds.
            self._reader = self._writer if not self._lock else connect(self._path, self._clock)
            self._read_tx = SQLiteTx(self._reader, self.queries)
            self._file = SameFile(Path(self._path), self._clock) if self._lock else None
        except BaseException as error:
            await self.close()
            if isinstance(error, UNAVAILABLE_ERRORS):
                raise unavailable(error) from error
            raise
        self._closing = False

    async def close(self) -> None:
        """Take no more writes, finish those that wait, and let go of the file."""
        self._closing = True
        if self._round_due:
            self._idle = self._idle or asyncio.get_running_loop().create_future()
            await asyncio.shield(self._idle)
            self._idle = None
        self._threads.shutdown(wait=True)
        self._threads = _threads()  # a store that could not be opened may be opened later
        for db in {id(db): db for db in (self._reader, self._writer) if db}.values():
            db.close()
        self._writer = self._reader = None
        if self._lock:
            self._lock.release()

    async def write(self, body: Body[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        if self._writer is None or self._closing:
            raise Unavailable("the store is not open", cause="closed")
        if self._is_in_a_body:
            raise RuntimeError("a body may await only tx: it cannot write in another transaction")
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[R] = loop.create_future()
        self._waiting.append(Write(body, args, kwargs, answer, self._clock.monotonic()))
        if not self._round_due:
            self._round_due = True
            loop.call_soon(self._round, context=self._context)
        return await answer

    async def read(self, body: Body[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        if self._reader is None:
            raise Unavailable("the store is not open", cause="closed")
        return _snapshot(self._reader, self._read_tx, body, args, kwargs)

    async def read_long(self, body: Body[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        if not self._lock:
            return await self.read(body, *args, **kwargs)

        def read() -> R:
            try:
                db = connect(self._path, self._clock, create=False)
            except apsw.Error as error:
                raise translated("read_long", error) from error
            try:
                return _snapshot(db, SQLiteTx(db, self.queries), body, args, kwargs)
            finally:
                db.close()

        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, read)

    # One round -------------------------------------------------------------------------------

    def _round(self) -> None:
        """Begin, run what is waiting, commit; then answer, or go on when the disk has answered."""
        db = self._writer
        assert db is not None, "a round on a closed store"
        try:
            self._begin(db)
        except apsw.BusyError as error:
            self._wait_for_lock(unavailable(error))
            return
        except Exception as error:
            self._give_up(db, self._take_waiting(), error)
            return
        ran: Ran = []
        try:
            self._run_bodies(db, ran)
        except Exception as error:
            self._give_up(db, ran, error)
            return
        except BaseException:
            # The process is told to end, in the middle of a round: nobody may wait for it for ever.
            self._give_up(
                db, ran, Unavailable("interrupted; nothing was stored", cause="interrupt")
            )
            raise
        if not db.in_transaction:
            # SQLite rolled everything back by itself: a full disk, an I/O error, no memory.
            self._end_round(ran, Unavailable("the transaction was lost; nothing was stored"))
        elif self._commit_seconds > SLOW_COMMIT_SECONDS and self._lock:
            self._commit_in_thread(db, ran)
        else:
            self._commit(db, ran)

    def _commit(self, db: apsw.Connection, ran: Ran) -> None:
        began = self._clock.monotonic()
        try:
            db.execute("commit")
        except Exception as error:
            self._give_up(db, ran, error)
        else:
            self._note_commit(self._clock.monotonic() - began)
            self._end_round(ran, None)

    def _begin(self, db: apsw.Connection) -> None:
        if self._file is not None:
            self._file.check()
        if self._wounded:
            restart_log(db)
            self._wounded = False
            log.warning("the disk takes writes again")
        db.execute("begin immediate")

    def _run_bodies(self, db: apsw.Connection, ran: Ran) -> None:
        until = self._clock.monotonic() + ROUND_SECONDS_MAX
        while self._waiting and len(ran) < BODIES_PER_COMMIT:
            write = self._waiting.popleft()
            if write.answer.cancelled():
                continue
            try:
                ran.append(self._run_body(db, write))
            except BaseException:
                # Its savepoint failed, not its body: whoever is in this round must be told.
                ran.append((write, None, None))
                raise
            if not db.in_transaction or self._clock.monotonic() > until:
                break

    def _run_body(
        self, db: apsw.Connection, write: Write
    ) -> tuple[Write, Any, BaseException | None]:
        tx = self._write_tx
        rung = len(tx.rung)
        db.execute("savepoint body")
        tx.refused = None
        tx.is_open = self._is_in_a_body = True
        try:
            result = drive(write.body(tx, *write.args, **write.kwargs))
            if tx.refused is not None:
                raise tx.refused
        except (Exception, asyncio.CancelledError, GeneratorExit) as error:
            del tx.rung[rung:]
            if db.in_transaction:
                db.execute("rollback to body; release body")
            return write, None, error
        finally:
            tx.is_open = self._is_in_a_body = False
        db.execute("release body")
        return write, result, None

    def _commit_in_thread(self, db: apsw.Connection, ran: Ran) -> None:
        def commit() -> float:
            began = self._clock.monotonic()
            db.execute("commit")
            return self._clock.monotonic() - began

        def committed(future: asyncio.Future[float]) -> None:
            error = future.exception()
            if error is None:
                self._note_commit(future.result())
                self._end_round(ran, None)
            else:
                self._give_up(db, ran, error)

        loop = asyncio.get_running_loop()
        future = loop.run_in_executor(self._threads, commit)
        future.add_done_callback(committed, context=self._context)

    def _note_commit(self, seconds: float) -> None:
        self._commit_seconds += (seconds - self._commit_seconds) / 16
        self._metrics.store_commit_seconds.observe(seconds)
        self._metrics.store_commits.inc()

    def _give_up(
        self,
        db: apsw.Connection,
        ran: Ran,
        error: BaseException,
    ) -> None:
        try:
            if db.in_transaction:
                db.execute("rollback")
        except apsw.Error as failed:
            log.error("a round could not be rolled back", trace=failed)
        if isinstance(error, UNAVAILABLE_ERRORS):
            error = self._refusal(error)
        self._end_round(ran, error)

    def _refusal(self, error: apsw.Error) -> Unavailable:
        if isinstance(error, apsw.IOError) and not self._wounded:
            self._wounded = True
            log.error("the disk failed; no write is taken until it syncs again", trace=error)
        refusal = unavailable(error)
        self._metrics.store_unavailable.labels(cause=refusal.details["cause"]).inc()
        return refusal

    def _wait_for_lock(self, error: Unavailable) -> None:
        """Another program has the file. The loop must not wait inside SQLite: try again soon."""
        now = self._clock.monotonic()
        late = [w for w in self._waiting if now - w.since > BUSY_SECONDS_MAX]
        for write in late:
            self._waiting.remove(write)
            _fail(write, error)
        self._rest_or_go_on(BUSY_PAUSE_SECONDS)

    def _take_waiting(self) -> Ran:
        taken = [(write, None, None) for write in self._waiting]
        self._waiting.clear()
        return cast(Ran, taken)

    def _end_round(
        self,
        ran: Ran,
        error: BaseException | None,
    ) -> None:
        rung, self._write_tx.rung = self._write_tx.rung, []
        for write, result, own_error in ran:
            if own_error is not None and (error is None or isinstance(own_error, PodiumError)):
                _fail(write, own_error)
            elif error is not None:
                _fail(write, error)
            elif not write.answer.done():
                write.answer.set_result(result)
        if error is None:
            self._metrics.store_bodies.inc(len(ran))
            self._ring(rung)
        self._rest_or_go_on()

    def _ring(self, rung: list[tuple[str, int | None]]) -> None:
        for channel, hint in rung:
            try:
                self.bell.ring(channel, hint)
            except Exception as error:
                # Whoever watches a bell may fail; the commit happened, and the next round comes.
                log.error("a bell's watcher failed", channel=channel, trace=error)

    def _rest_or_go_on(self, pause_seconds: float = 0.0) -> None:
        self._round_due = bool(self._waiting)
        if self._round_due:
            loop = asyncio.get_running_loop()
            loop.call_later(pause_seconds, self._round, context=self._context)
        elif self._idle and not self._idle.done():
            self._idle.set_result(None)


def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(2, thread_name_prefix="podium-sqlite")


def drive(body: Any) -> Any:
    """Run a body to its end without a loop. It awaits only `tx`, which never gives up control."""
    coroutine = cast(Coroutine[Any, Any, Any], body)
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    coroutine.close()
    raise RuntimeError(f"{coroutine!r} awaited something that is not tx")


def _snapshot(
    db: apsw.Connection,
    tx: SQLiteTx,
    body: Body[P, R],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> R:
    try:
        db.execute("begin")
    except UNAVAILABLE_ERRORS as error:
        raise unavailable(error) from error
    changes = db.total_changes()
    try:
        result = drive(body(tx, *args, **kwargs))
        if db.total_changes() != changes:
            raise PodiumError(f"{body!r} writes, and a read may not")
        return cast(R, result)
    finally:
        tx.rung.clear()
        if db.in_transaction:
            db.execute("rollback")


def _fail(write: Write, error: BaseException) -> None:
    if isinstance(error, StopIteration | asyncio.CancelledError | GeneratorExit):
        # A future cannot carry these, or would mean something else by them.
        error = RuntimeError(f"a body raised {error!r}")
    if not write.answer.done():
        write.answer.set_exception(error)
