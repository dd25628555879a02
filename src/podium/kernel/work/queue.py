"""The operations on the queue, each a transaction body that takes and returns lists."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import Any

from podium.kernel import journal, payload
from podium.kernel.clock import Clock
from podium.kernel.ids import Ulids
from podium.kernel.store import ROWS_MAX, Row, Tx
from podium.kernel.wake import SOON_SECONDS, SWEEP
from podium.kernel.work import decide
from podium.kernel.work.decide import Finish, Held, PutBack
from podium.kernel.work.looking import Looking
from podium.kernel.work.machine import State
from podium.kernel.work.marks import Marks
from podium.kernel.work.model import (
    Claimed,
    Done,
    Enqueued,
    Failure,
    Lease,
    Leased,
    NewItem,
    Offered,
    Renewal,
    Verdict,
)

Decision = PutBack | Finish
DONE = State.DONE.value
READY = State.READY.value

AGEING_SECONDS = 60.0
"""How much sooner one step of priority goes: an item of priority 0 overtakes one of priority 10
that came ten minutes later."""

OFFER_SECONDS = 5.0


class Work(Looking):
    def __init__(
        self,
        *,
        clock: Clock,
        ids: Ulids,
        rng: random.Random,
        ageing_seconds: float = AGEING_SECONDS,
    ) -> None:
        self._ids = ids
        self._rng = rng
        self._ageing_seconds = ageing_seconds
        self.marks = Marks(clock)

    # Putting in ------------------------------------------------------------------------------

    async def enqueue(self, tx: Tx, items: Sequence[NewItem]) -> list[Enqueued]:
        """Add items. One whose id or dedupe key is known is not added again, and says so."""
        decide.refuse_too_many(items)
        ids = self._ids.many(len(items))
        rows = [
            decide.new_row(item, ids[n] if item.id is None else item.id, n)
            for n, item in enumerate(items)
        ]
        groups: dict[decide.Terms, list[decide.NewRow]] = {}
        for item, row in zip(items, rows, strict=True):
            groups.setdefault(decide.terms(item), []).append(row)
        # Ids that we made ourselves are new: looking for them would cost a third of the insert.
        may_be_known = any(item.id is not None or item.dedupe_key is not None for item in items)
        query = "work.enqueue_known" if may_be_known else "work.enqueue"
        new: set[str] = set()
        for terms, group in groups.items():
            new |= await self._insert(tx, query, terms, group)
        if any(row.delay_seconds and row.delay_seconds <= SOON_SECONDS for row in rows):
            tx.ring(SWEEP)
        new -= await self._withdraw_finished(tx, [item.id for item in items if item.id in new])
        if len(new) == len(rows):
            return [Enqueued(row.id, True) for row in rows]
        return await self._name_duplicates(tx, items, _first_places(rows, new))

    async def _insert(
        self, tx: Tx, query: str, terms: decide.Terms, rows: Sequence[decide.NewRow]
    ) -> set[str]:
        created = await tx.rows(
            query,
            items=rows,
            head_start_seconds=terms.priority * self._ageing_seconds,
            **terms._asdict(),
        )
        self.announce(tx, [(terms.queue, row.rank) for row in created if row.state == READY])
        return {row.id for row in created}

    async def _withdraw_finished(self, tx: Tx, ids: Sequence[str | None]) -> set[str]:
        """Of ids that the caller chose, those that were finished while they were enqueued."""
        if not ids:
            return set()
        return {
            row.id for row in await tx.rows("work.withdraw_finished", ids=[(id,) for id in ids])
        }

    async def _name_duplicates(
        self, tx: Tx, items: Sequence[NewItem], answers: list[Enqueued]
    ) -> list[Enqueued]:
        """Where the dedupe key was taken, name the item that has it."""
        keys = [
            (item.queue, item.dedupe_key)
            for item, answer in zip(items, answers, strict=True)
            if item.dedupe_key is not None and not answer.created
        ]
        if not keys:
            return answers
        known = await tx.rows("work.known_by_dedupe_key", keys=keys)
        holders = {(row.queue, row.dedupe_key): row.id for row in known}
        return [
            answer
            if answer.created
            else Enqueued(holders.get((item.queue, item.dedupe_key), answer.id), False)
            for item, answer in zip(items, answers, strict=True)
        ]

    # Taking out ------------------------------------------------------------------------------

    async def claim(
        self, tx: Tx, *, queue: str, holder: str, n: int = 1, start: bool = False
    ) -> list[Claimed]:
        """Lease up to `n` items, the most urgent first; `start` also begins them."""
        decide.name("holder", holder)
        decide.refuse_count(n)
        low = self.marks.low(queue)
        with self.marks.looking(queue, low):
            rows = await tx.rows(
                "work.claim",
                queue=queue,
                holder=holder,
                n=n,
                low=low,
                state=State.RUNNING if start else State.LEASED,
                starts=int(start),
            )
        claimed = sorted((Claimed(*row) for row in rows), key=_by_rank)
        self.marks.claimed(queue, claimed[-1].rank if claimed else None)
        return claimed

    async def claim_ids(
        self, tx: Tx, ids: Sequence[str], *, holder: str, start: bool = False
    ) -> list[Claimed]:
        """Lease these items, as far as nobody holds them. What is missing in the answer was lost."""
        decide.name("holder", holder)
        decide.ids(ids)
        rows = await tx.rows(
            "work.claim_ids",
            ids=[(id,) for id in ids],
            holder=holder,
            state=State.RUNNING if start else State.LEASED,
            starts=int(start),
        )
        return sorted((Claimed(*row) for row in rows), key=_by_rank)

    async def offer(
        self,
        tx: Tx,
        *,
        queue: str,
        holder: str,
        n: int = 1,
        hide_seconds: float = OFFER_SECONDS,
        priority_min: int = 0,
    ) -> list[Offered]:
        """Show items to one poller and hide them from the others for a moment. Grants nothing."""
        decide.name("holder", holder)
        decide.seconds("hide_seconds", hide_seconds)
        decide.refuse_count(n)
        rows = await tx.rows(
            "work.offer",
            queue=queue,
            holder=holder,
            n=n,
            hide_seconds=hide_seconds,
            priority_min=priority_min,
        )
        if rows:
            tx.ring(SWEEP)
        return sorted((Offered(*row) for row in rows), key=_by_rank)

    # Holding ---------------------------------------------------------------------------------

    async def start(self, tx: Tx, leases: Sequence[Leased]) -> list[Verdict]:
        """Begin what is still current. Whoever does not get OK must not begin."""
        rows = await tx.rows("work.start", leases=_leases(leases))
        return await self._verdicts(tx, leases, rows)

    async def renew(
        self, tx: Tx, leases: Sequence[Leased], *, seconds: float | None = None
    ) -> list[Renewal]:
        """Stay the holder for another `seconds` (by default the item's own lease)."""
        if seconds is not None:
            decide.seconds("seconds", seconds)
        asked = [(id, epoch, seconds) for id, epoch in _leases(leases)]
        rows = await tx.rows("work.renew", leases=asked)
        renewed = {Lease(row.id, row.epoch): row.expires_at for row in rows}
        verdicts = await self._verdicts(tx, leases, rows)
        return [
            Renewal(verdict, renewed.get(Lease(lease.id, lease.epoch)))
            for lease, verdict in zip(leases, verdicts, strict=True)
        ]

    async def complete(self, tx: Tx, done: Sequence[Done]) -> list[Verdict]:
        """Success. Only the current holder of a running item, in time, gets OK."""
        decide.refuse_too_many(done)
        for lease, _ in done:
            decide.lease(lease)
        ends = [
            (
                lease.id,
                lease.epoch,
                1,
                DONE,
                None,
                None,
                None if result is None else payload.dumps(result, field="result"),
            )
            for lease, result in done
        ]
        rows = await _finish(tx, ends)
        leases = [lease for lease, _ in done]
        return await self._verdicts(tx, leases, rows, are_results=True)

    async def fail(self, tx: Tx, failures: Sequence[Failure]) -> list[Verdict]:
        """A start that ended badly: it is tried again after its backoff, or becomes a dead letter."""
        for failure in failures:
            if failure.delay_seconds is not None:
                decide.seconds("delay_seconds", failure.delay_seconds, zero=True)
        by_lease = {(f.lease.id, f.lease.epoch): f for f in failures}
        leases = [failure.lease for failure in failures]

        def decision(row: Held) -> Decision:
            failure = by_lease[row.id, row.epoch]
            return decide.after_failure(
                row,
                error=failure.error,
                retryable=failure.retryable,
                delay_seconds=failure.delay_seconds,
                reason=decide.clipped(failure.reason) or "failed",
                rng=self._rng,
            )

        return await self._settle_held(tx, leases, decision, are_results=True)

    async def release(self, tx: Tx, leases: Sequence[Leased]) -> list[Verdict]:
        """Give items back as if nothing had happened: same place in the line, attempt refunded."""
        return await self._settle_held(tx, leases, decide.after_release)

    async def _settle_held(
        self,
        tx: Tx,
        leases: Sequence[Leased],
        decision: Callable[[Held], Decision],
        *,
        are_results: bool = False,
    ) -> list[Verdict]:
        rows = await tx.rows("work.held", leases=_leases(leases))
        settled = await self.settle(tx, [(row, decision(row)) for row in rows])
        return await self._verdicts(tx, leases, settled, are_results=are_results)

    async def settle(self, tx: Tx, decisions: Sequence[tuple[Held, Decision]]) -> list[Row]:
        """Write decisions about locked rows, journal the attempts that ended, and say which held."""
        finished = await _finish(tx, [d for _, d in decisions if isinstance(d, Finish)])
        put_back = await self._put_back(tx, [d for _, d in decisions if isinstance(d, PutBack)])
        await journal.append(tx, _attempts_ended(decisions, _pairs(put_back)))
        return finished + put_back

    async def _put_back(self, tx: Tx, backs: Sequence[PutBack]) -> list[Row]:
        if not backs:
            return []
        rows = await tx.rows(
            "work.put_back", items=_once_each(backs), ageing_seconds=self._ageing_seconds
        )
        ready = {back.id for back in backs if back.state == State.READY}
        self.announce(tx, [(row.queue, row.rank) for row in rows if row.id in ready])
        if any(0 < back.delay_seconds <= SOON_SECONDS for back in backs):
            tx.ring(SWEEP)
        return rows

    # Withdrawing -----------------------------------------------------------------------------

    async def cancel(self, tx: Tx, ids: Sequence[str], *, reason: str) -> list[Verdict]:
        """End items whatever they are doing. A running holder is told when it next renews."""
        decide.ids(ids)
        rows = await tx.rows("work.lock_ids", ids=[(id,) for id in ids])
        gone = {row.id for row in await self._cancel(tx, rows, reason)}
        missing = [Lease(id, 0) for id in ids if id not in gone]
        why = dict(zip(missing, await self._verdicts(tx, missing, []), strict=True))
        return [Verdict.OK if id in gone else why[Lease(id, 0)] for id in ids]

    async def cancel_children(
        self, tx: Tx, parent: str, *, reason: str, unstarted_only: bool = False
    ) -> list[str]:
        """End what belongs to `parent`, at most ROWS_MAX at a time; ask again until none is left."""
        rows = await tx.rows(
            "work.lock_children", parent=parent, unstarted=int(unstarted_only), n=ROWS_MAX
        )
        return sorted(row.id for row in await self._cancel(tx, rows, reason))

    async def _cancel(self, tx: Tx, rows: Iterable[Row], reason: str) -> list[Row]:
        why = decide.clipped(reason)
        return await _finish(
            tx,
            [Finish(row.id, row.epoch, 0, State.CANCELLED, why, None, None) for row in rows],
        )

    # Dead letters ----------------------------------------------------------------------------

    async def replay(self, tx: Tx, ids: Sequence[str], *, actor: str) -> list[bool]:
        """Put dead letters back into their queues. True for each that was dead and now is ready."""
        decide.ids(ids)
        rows = await tx.rows(
            "work.replay",
            ids=[(id,) for id in sorted(set(ids))],
            ageing_seconds=self._ageing_seconds,
        )
        back = {row.id for row in rows}
        self.announce(tx, [(row.queue, 0) for row in rows])
        events = [journal.Event("work", id, "replayed", actor=actor) for id in sorted(back)]
        await journal.append(tx, events)
        return [id in back for id in ids]

    # -----------------------------------------------------------------------------------------

    async def _verdicts(
        self,
        tx: Tx,
        leases: Sequence[Leased],
        settled: Sequence[Row],
        *,
        are_results: bool = False,
    ) -> list[Verdict]:
        """OK for what was settled; for the rest, why not. A refused result leaves a trace."""
        if len(settled) == len(leases):
            return [Verdict.OK] * len(leases)
        pairs = _pairs(settled)
        refused = [(it.id, it.epoch) for it in leases if (it.id, it.epoch) not in pairs]
        if not refused:
            return [Verdict.OK] * len(leases)
        rows = await tx.rows("work.explain", leases=refused)
        why = {(row.id, row.asked): decide.why_refused(row) for row in rows}
        if are_results:
            await journal.append(tx, _refusals(rows))
        return [
            Verdict.OK
            if (it.id, it.epoch) in pairs
            else why.get((it.id, it.epoch), Verdict.UNKNOWN)
            for it in leases
        ]

    def announce(self, tx: Tx, ready: Iterable[tuple[str, int]]) -> None:
        """Wake who waits for these queues, telling the lowest rank that became ready in each."""
        lowest: dict[str, int] = {}
        for queue, rank in ready:
            lowest[queue] = min(rank, lowest.get(queue, rank))
        for queue, rank in lowest.items():
            self.marks.lower(queue, rank)
            tx.ring(channel(queue), rank)


def channel(queue: str) -> str:
    """The bell that rings when something became ready in `queue`."""
    return f"work:{queue}"


async def _finish(tx: Tx, ends: Sequence[tuple[Any, ...]]) -> list[Row]:
    """`ends` in the order of `decide.Finish`; completions come as plain tuples, which are cheaper."""
    if not ends:
        return []
    tx.ring(journal.CHANNEL)
    return await tx.rows("work.finish", items=_once_each(ends))


def _refusals(rows: Sequence[Row]) -> list[journal.Event]:
    """A result that came too late changes nothing, but it did come. The same result twice is none."""
    return [
        journal.Event("work", row.id, "refused", epoch=row.asked, reason=decide.why_refused(row))
        for row in rows
        if (row.state or row.finished) and row.finished_epoch != row.asked
    ]


def _leases(leases: Sequence[Leased]) -> list[tuple[str, int]]:
    decide.refuse_too_many(leases)
    for lease in leases:
        decide.lease(lease)
    return sorted({(lease.id, lease.epoch) for lease in leases})


def _once_each(rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """In the order of ids, so that two lists never lock each other's rows crosswise."""
    return sorted({(row[0], row[1]): row for row in rows}.values(), key=itemgetter(0))


def _pairs(rows: Iterable[Row]) -> set[Lease]:
    return {Lease(row.id, row.epoch) for row in rows}


def _by_rank(item: Claimed | Offered) -> int:
    return item.rank


def _first_places(rows: list[decide.NewRow], new: set[str]) -> list[Enqueued]:
    """A list may name one id twice; only its first place is the one that was created."""
    answers = []
    for row in rows:
        answers.append(Enqueued(row.id, row.id in new))
        new.discard(row.id)
    return answers


def _attempts_ended(
    decisions: Sequence[tuple[Held, Decision]], put_back: set[Lease]
) -> list[journal.Event]:
    """What failed goes to the end of the line; what was given back keeps its place and its attempt."""
    return [
        journal.Event(
            "work", back.id, "retried", actor=row.holder, epoch=back.epoch, reason=back.error
        )
        for row, back in decisions
        if isinstance(back, PutBack) and (back.id, back.epoch) in put_back and not back.keeps_rank
    ]
