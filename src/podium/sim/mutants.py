"""Planted bugs. Each is a fault that queues have shipped with; each must be found, or the gate fails.

A mutant changes a few words of a named query or one small piece of code, and forces on the faults
under which it hurts. `finds` are the invariants that may name it: being caught by another one by
accident does not count. The same seeds and faults must pass with the real code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from podium.engine import BusConsumer
from podium.kernel.bus import Delivery
from podium.kernel.errors import Unavailable
from podium.kernel.migrate import SQL
from podium.kernel.queries import HEADING, Queries
from podium.kernel.store import Row, Store, Tx
from podium.kernel.wake import Swept
from podium.kernel.work import Verdict, Work, WorkSweep, decide
from podium.kernel.work.model import Leased
from podium.sim.faults import Faults
from podium.sim.parts import REAL, Parts
from podium.sim.template import load_queries

SEEDS_MAX = 50


class Edit(NamedTuple):
    """`old` becomes `new` in the text of a query, wherever it stands."""

    query: str
    old: str
    new: str = "true"


@dataclass(frozen=True, slots=True)
class Mutant:
    name: str
    story: str
    scenario: str
    finds: tuple[str, ...]
    faults: Faults
    parts: Parts = REAL
    edits: tuple[Edit, ...] = ()

    def queries(self) -> Queries | None:
        return edited(self.edits) if self.edits else None


def edited(edits: Sequence[Edit]) -> Queries:
    """The real queries but for these words; an error if a query does not have them any more."""
    queries = load_queries()
    sources: dict[str, str] = {}
    for query, old, new in edits:
        source = sources.get(query) or source_of(query)
        if old not in source:
            raise LookupError(f"{query} has no {old!r} any more: this mutant needs a new edit")
        sources[query] = source.replace(old, new)
        queries.add(query, sources[query])
    return queries


def source_of(query: str) -> str:
    """The text of a kernel query before it is put into a dialect."""
    file, _, name = query.partition(".")
    _, *parts = HEADING.split((SQL / f"{file}.sql").read_text(encoding="utf-8"))
    return dict(zip(parts[::2], parts[1::2], strict=True))[name]


# --- the pieces that are broken on purpose ---------------------------------------------------------


class NoStartCheck(Work):
    """Begins whatever it once claimed, without asking whether it is still current."""

    async def start(self, tx: Tx, leases: Sequence[Leased]) -> list[Verdict]:
        await super().start(tx, leases)
        return [Verdict.OK] * len(leases)


class RescueById(WorkSweep):
    """Reads what is due in one transaction and settles it in another, by id."""

    async def sweep(self, store: Store, limit: int) -> Swept:
        promoted = await store.write(self.promote, limit)
        rows = await store.read(self._due, limit)
        settled = await store.write(self._rescue, tuple(rows)) if rows else 0
        return Swept(promoted + settled, None)

    async def _due(self, tx: Tx, limit: int) -> list[Row]:
        return await tx.rows("work.due", n=limit)

    async def _rescue(self, tx: Tx, rows: tuple[Row, ...]) -> int:
        decisions = [(row, decide.when_due(row, self._rng)) for row in rows]
        return len(await self._work.settle(tx, decisions))


class NoPromotion(WorkSweep):
    """Forgets those that were put off."""

    async def promote(self, tx: Tx, limit: int) -> int:
        return 0


class AckFirst(BusConsumer):
    """Acknowledges, then records: two transactions, and a world between them."""

    async def _consume(self, delivery: Delivery) -> str:
        try:
            [verdict] = await self._store.write(self._bus.ack, [delivery])
            if verdict is Verdict.OK:
                await self._store.write(self._handle, delivery)
        except (Unavailable, ValueError):
            return "failed"
        return "done"


# --- the mutants -----------------------------------------------------------------------------------

MUTANTS = (
    Mutant(
        "no_fencing",
        "a completion and a renewal do not present the epoch",
        "work",
        ("fenced",),
        Faults(stall=0.4, stall_at=("Work.complete",), pause_every_seconds=60),
        edits=(
            Edit("work.finish", "w.epoch = i.epoch"),
            Edit("work.renew", "w.epoch = i.lease_epoch"),
            Edit("work.held", "w.epoch = i.epoch"),
        ),
    ),
    Mutant(
        "late_writes",
        "a holder may write after its lease is over",
        "work",
        ("fenced",),
        Faults(stall=0.4, stall_at=("Work.complete", "WorkSweep.settle")),
        edits=(
            Edit("work.finish", "w.wake_at > podium_now()"),
            Edit("work.renew", "w.wake_at > podium_now()"),
        ),
    ),
    Mutant(
        "rescue_by_id_only",
        "the sweeper settles what it read before, by id",
        "work",
        ("one_holder", "moves_are_allowed"),
        Faults(
            stall=0.5,
            stall_at=("RescueById._rescue",),
            pause_every_seconds=40,
            lost_before=0.05,
            ring_lost=0.2,
        ),
        parts=Parts(sweep=RescueById),
        edits=(
            Edit("work.put_back", "w.epoch = i.item_epoch and w.state = i.was"),
            Edit("work.finish", "w.epoch = i.epoch"),
        ),
    ),
    Mutant(
        "no_start_check",
        "a worker begins what it claimed although it lost it meanwhile",
        "work",
        ("superseded_never_starts",),
        Faults(stall=0.2, stall_at=("Work.start", "NoStartCheck.start")),
        parts=Parts(work=NoStartCheck),
    ),
    Mutant(
        "no_promotion",
        "the sweeper does not move what was put off",
        "work",
        ("somebody_looks",),
        Faults(ring_lost=0.2),
        parts=Parts(sweep=NoPromotion),
    ),
    Mutant(
        "ttl_ignored",
        "an item is handed out however long it waited",
        "work",
        ("nothing_stale",),
        Faults(kill_every_seconds=30, stall=0.1, stall_at=("Work.claim",)),
        edits=(
            Edit("work.claim", "wake_at > podium_now()"),
            Edit("work.offer", "wake_at > podium_now()"),
            Edit("work.due", "'ready', ", ""),
        ),
    ),
    Mutant(
        "gate_without_epoch",
        "a batch of an earlier ownership is let in, because the owner's name is the same",
        "ownership",
        ("only_the_owner_writes", "steps_in_order", "nothing_after_cancel"),
        Faults(stuck=0.4, stuck_at=("Owner._apply",)),
        edits=(Edit("ownership.gate", "t.{epoch} = i.epoch"),),
    ),
    Mutant(
        "cancel_without_epoch",
        "a cancel leaves its command and does not shut the owner out",
        "ownership",
        ("takeover_raises_epoch", "only_the_owner_writes", "nothing_after_cancel"),
        Faults(stall=0.2, stall_at=("Owner._apply",), stuck=0.2, stuck_at=("Owner._apply",)),
        edits=(
            Edit(
                "ownership.takeover",
                "{owner} = null, {epoch} = {epoch} + 1, {heartbeat} = null, wake_at",
                "wake_at",
            ),
        ),
    ),
    Mutant(
        "ack_before_commit",
        "a message is acknowledged before what it told is recorded",
        "bus",
        ("recorded_once",),
        Faults(kill_every_seconds=30, lost_before=0.05),
        parts=Parts(bus_consumer=AckFirst),
    ),
    Mutant(
        "mark_sent_first",
        "the relay says that a message is sent before it sends it",
        "bus",
        ("arrives_and_applies",),
        Faults(kill_every_seconds=30, message_lost=0.1),
        parts=Parts(relay_marks_first=True),
    ),
)
