"""Work items over HTTP: hand in, take, hold, report, look. The same calls serve a child over its socket."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Annotated, Any

from fastapi import Header, Path, Query
from starlette.requests import Request

from podium.contracts import work as words
from podium.contracts.scopes import Scope
from podium.http.guard import Declared, caller_of, changed_nothing, get, post
from podium.http.house import House
from podium.http.load import load_of
from podium.http.pages import decode_cursor, encode_cursor
from podium.kernel import idempotency, journal, payload
from podium.kernel.clock import EPOCH
from podium.kernel.errors import Conflict, KeyReused, NotFound
from podium.kernel.store import Row, Tx
from podium.kernel.work import (
    Claimed,
    DeadLetter,
    Done,
    Failure,
    Lease,
    NewItem,
    Verdict,
)
from podium.kernel.work.queue import channel
from podium.kernel.work.why import explain

PAGE = Annotated[int, Query(ge=1, le=500)]
Key = Annotated[str | None, Header(alias="Idempotency-Key", min_length=1, max_length=200)]
ItemId = Annotated[str, Path(min_length=1, max_length=255)]
QueueFilter = Annotated[str | None, Query(min_length=1, max_length=255)]
Cursor = Annotated[str | None, Query(max_length=2_000)]

LOOK_SECONDS = 2.0
"""How often a waiting claim looks even if nobody rang: a ring may be lost between processes."""


class WorkApi:
    def __init__(self, house: House) -> None:
        self._house = house
        self._store = house.store
        self._work = house.work

    def routes(self) -> list[Declared]:
        return [
            post("/api/work", self.submit, needs=Scope.SUBMIT, status=201),
            post("/api/work/claim", self.claim, needs=Scope.WORKER),
            post("/api/work/start", self.start, needs=Scope.WORKER),
            post("/api/work/renew", self.renew, needs=Scope.WORKER),
            post("/api/work/release", self.release, needs=Scope.WORKER),
            post("/api/work/report", self.report, needs=Scope.WORKER),
            post("/api/work/cancel", self.cancel, needs=Scope.SUBMIT),
            get("/api/work/{id:path}", self.show, needs=Scope.READ),
            get("/api/queues", self.queues, needs=Scope.READ),
            get("/api/deadletters", self.dead_letters, needs=Scope.READ),
            post("/api/deadletters/replay", self.replay, needs=Scope.SUBMIT),
            get("/api/why/work/{id:path}", self.why, needs=Scope.READ),
            get("/api/journal/{kind}/{id:path}", self.journal, needs=Scope.READ),
        ]

    # Handing in ------------------------------------------------------------------------------

    async def submit(
        self, body: words.Enqueue, request: Request, key: Key = None
    ) -> words.Enqueued:
        """Enqueue items. With `Idempotency-Key` the same call gets the same answer for 30 days."""
        if key is None:
            return await self.enqueue(body)
        digest = hashlib.sha256(await request.body()).digest()
        try:
            answer = await self._store.write(
                self._enqueue_once, f"work:{caller_of(request).line}:{key}", digest, body
            )
        except KeyReused:
            raise Conflict(
                "this Idempotency-Key was used before with another body; use a new key",
                field="Idempotency-Key",
            ) from None
        return words.Enqueued.model_validate(answer)

    async def enqueue(self, body: words.Enqueue) -> words.Enqueued:
        items = [_new_item(item) for item in body.items]
        return _enqueued(await self._store.write(self._work.enqueue, items))

    async def _enqueue_once(self, tx: Tx, key: str, digest: bytes, body: words.Enqueue) -> Any:
        async def do() -> Any:
            items = [_new_item(item) for item in body.items]
            return _enqueued(await self._work.enqueue(tx, items)).model_dump()

        return await idempotency.once(tx, key=key, body=digest, do=do)

    async def cancel(self, body: words.Cancel) -> words.Verdicts:
        """End items whatever they are doing. A running holder is told when it next renews."""
        verdicts = await self._store.write(self._work.cancel, body.ids, reason=body.reason)
        return _verdicts([Lease(id, 0) for id in body.ids], verdicts)

    # Taking and holding ----------------------------------------------------------------------

    async def claim(self, body: words.Claim, request: Request) -> words.Claimed:
        """Lease items of these queues, the most urgent first. Waits up to `wait_seconds` for some."""
        claimed = await self.take(
            body, waiting=load_of(request).waiting, is_gone=request.is_disconnected
        )
        if not claimed.items:
            changed_nothing(request)
        return claimed

    async def take(
        self,
        body: words.Claim,
        *,
        waiting: Callable[[], AbstractContextManager[None]] = nullcontext,
        is_gone: Callable[[], Awaitable[bool]] | None = None,
    ) -> words.Claimed:
        """As `claim`, for whoever asks. What is spent in `waiting` is no work; who `is_gone` gets nothing."""
        listener = self._store.bell.listen(*(channel(queue) for queue in body.queues))
        deadline = self._house.clock.monotonic() + body.wait_seconds
        queues = body.queues
        try:
            while True:
                items = await self._claim(body, queues)
                left = deadline - self._house.clock.monotonic()
                if items or left <= 0 or self._house.readiness.is_stopping:
                    return words.Claimed(items=[_claimed(item) for item in items])
                with waiting():
                    await listener.wait(min(left, LOOK_SECONDS))
                # Many wait, and nearly always in vain: they look before they write.
                queues = await self._store.read(self._work.waiting, body.queues)
                if is_gone is not None and await is_gone():
                    # An item that is given to nobody is lost for the time of a lease.
                    return words.Claimed(items=[])
        finally:
            listener.close()

    async def _claim(self, body: words.Claim, queues: Sequence[str]) -> list[Claimed]:
        items: list[Claimed] = []
        for queue in queues:
            if len(items) < body.n:
                items += await self._store.write(
                    self._work.claim,
                    queue=queue,
                    holder=body.holder,
                    n=body.n - len(items),
                    start=body.start,
                )
        return items

    async def start(self, body: words.Grants) -> words.Verdicts:
        """Begin what was claimed without starting. Whoever does not get `ok` must not begin."""
        leases = _leases(body.grants)
        return _verdicts(leases, await self._store.write(self._work.start, leases))

    async def renew(self, body: words.Grants) -> words.Verdicts:
        """Stay the holder. Anything but `ok`: stop, it is not yours any more."""
        leases = _leases(body.grants)
        renewals = await self._store.write(self._work.renew, leases)
        return words.Verdicts(
            verdicts=[
                words.Verdict(
                    id=lease.id, epoch=lease.epoch, verdict=verdict, expires_at=expires_at
                )
                for lease, (verdict, expires_at) in zip(leases, renewals, strict=True)
            ]
        )

    async def release(self, body: words.Grants) -> words.Verdicts:
        """Give items back as if nothing had happened."""
        leases = _leases(body.grants)
        return _verdicts(leases, await self._store.write(self._work.release, leases))

    async def report(self, body: words.Report) -> words.Verdicts:
        """How it went. `done` first, then `failed`, answered in that order."""
        done = [Done(Lease(it.id, it.epoch), it.result) for it in body.done]
        failed = [
            Failure(Lease(it.id, it.epoch), it.error, it.retryable, it.delay_seconds)
            for it in body.failed
        ]
        verdicts = await self._store.write(self._report, done, failed)
        leases = _leases([*body.done, *body.failed])
        return _verdicts(leases, verdicts)

    async def _report(
        self, tx: Tx, done: Sequence[Done], failed: Sequence[Failure]
    ) -> list[Verdict]:
        verdicts = await self._work.complete(tx, done) if done else []
        return verdicts + (await self._work.fail(tx, failed) if failed else [])

    # Looking ---------------------------------------------------------------------------------

    async def show(self, id: ItemId) -> words.WorkShown:
        """One item, live or finished."""
        row, is_live = await self._store.read(_find, self._work, id)
        return _shown(row, is_live)

    async def queues(self) -> words.Queues:
        """Items by queue and state; `dead` are dead letters."""
        counts = await self._store.read_long(self._work.counts)
        by_queue: dict[str, dict[str, int]] = {}
        for (queue, state), count in sorted(counts.items()):
            by_queue.setdefault(queue, {})[state] = count
        return words.Queues(
            queues=[words.QueueShown(queue=q, counts=counts) for q, counts in by_queue.items()]
        )

    async def dead_letters(
        self, queue: QueueFilter = None, cursor: Cursor = None, limit: PAGE = 100
    ) -> words.DeadLetters:
        """Dead letters, queue by queue, the oldest first."""
        return await self._store.read_long(self._dead_letters, queue, cursor, limit)

    async def _dead_letters(
        self, tx: Tx, queue: str | None, cursor: str | None, limit: int
    ) -> words.DeadLetters:
        at_queue, at, at_id = decode_cursor(cursor) if cursor else ("", EPOCH, "")
        rows = await tx.rows("work.dead_letter_counts")
        queues = [row.queue for row in rows if row.queue >= at_queue]
        found: list[DeadLetter] = []
        for each in queues if queue is None else [queue]:
            after = (at, at_id) if each == at_queue else (EPOCH, "")
            found += await self._work.dead_letters(
                tx, queue=each, n=limit - len(found), after=after
            )
            if len(found) == limit:
                last = found[-1]
                more = encode_cursor(last.queue, *last.cursor)
                return words.DeadLetters(items=[_dead(it) for it in found], next_cursor=more)
        return words.DeadLetters(items=[_dead(it) for it in found])

    async def replay(self, body: words.Replay, request: Request) -> words.Replayed:
        """Put dead letters back into their queues, with a fresh count of attempts."""
        back = await self._store.write(self._work.replay, body.ids, actor=caller_of(request).actor)
        return words.Replayed(
            ids=[id for id, is_back in zip(body.ids, back, strict=True) if is_back],
            unknown=[id for id, is_back in zip(body.ids, back, strict=True) if not is_back],
        )

    async def why(self, id: ItemId) -> words.Explanation:
        """Why the item is where it is, and what happens next."""
        why = await self._store.read_long(explain, id)
        return words.Explanation(kind="work", id=id, **why._asdict())

    async def journal(
        self,
        kind: Annotated[str, Path(min_length=1, max_length=50)],
        id: ItemId,
        after: Annotated[int, Query(ge=0, le=2**62)] = 0,
        limit: PAGE = 100,
    ) -> words.Journal:
        """What happened to one thing, in order."""
        lines = await self._store.read(
            journal.read, kind, id, after=journal.Position(0, after), n=limit
        )
        return words.Journal(lines=[journal_line(line) for line in lines])


def journal_line(line: journal.Line) -> words.JournalLine:
    return words.JournalLine(
        seq=line.seq,
        position=f"{line.tx}-{line.seq}",
        at=line.happened_at,
        kind=line.kind,
        id=line.aggregate_id,
        event=line.event,
        actor=line.actor,
        epoch=line.epoch,
        reason=line.reason,
        data=None if line.data is None else payload.loads(line.data),
    )


async def _find(tx: Tx, work: Any, id: str) -> tuple[Row, bool]:
    for look, is_live in ((work.live, True), (work.finished, False)):
        rows = await look(tx, [id])
        if rows:
            return rows[0], is_live
    raise NotFound(f"there is no work item {id[:64]!r}")


def _new_item(item: words.NewWork) -> NewItem:
    given = {
        name: getattr(item, name)
        for name in item.model_fields_set
        if getattr(item, name) is not None
    }
    return NewItem(**given)


def _enqueued(answers: Sequence[Any]) -> words.Enqueued:
    return words.Enqueued(
        items=[words.EnqueuedItem(id=it.id, created=it.created) for it in answers]
    )


def _claimed(item: Claimed) -> words.ClaimedWork:
    return words.ClaimedWork(
        id=item.id,
        epoch=item.epoch,
        queue=item.queue,
        payload=item.body,
        attempts=item.attempts,
        attempts_max=item.attempts_max,
        priority=item.priority,
        lease_seconds=item.lease_seconds,
        expires_at=item.expires_at,
    )


def _leases(grants: Sequence[words.Grant]) -> list[Lease]:
    return [Lease(grant.id, grant.epoch) for grant in grants]


def _verdicts(leases: Sequence[Lease], verdicts: Sequence[Verdict]) -> words.Verdicts:
    return words.Verdicts(
        verdicts=[
            words.Verdict(id=lease.id, epoch=lease.epoch, verdict=verdict)
            for lease, verdict in zip(leases, verdicts, strict=True)
        ]
    )


def _shown(row: Row, is_live: bool) -> words.WorkShown:
    shared = {
        name: getattr(row, name)
        for name in (
            "id",
            "queue",
            "state",
            "epoch",
            "attempts",
            "holder",
            "error",
            "enqueued_at",
            "started_at",
        )
    }
    if is_live:
        return words.WorkShown(
            **shared,
            attempts_max=row.attempts_max,
            priority=row.priority,
            wake_at=row.wake_at,
        )
    result = None if row.result is None else payload.loads(row.result)
    return words.WorkShown(**shared, reason=row.reason, result=result, finished_at=row.finished_at)


def _dead(letter: DeadLetter) -> words.DeadLetter:
    return words.DeadLetter(
        id=letter.id,
        queue=letter.queue,
        reason=letter.reason,
        error=letter.error,
        attempts=letter.attempts,
        payload=payload.loads(letter.payload),
        enqueued_at=letter.enqueued_at,
        finished_at=letter.finished_at,
    )
