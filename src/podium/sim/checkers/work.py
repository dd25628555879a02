"""The queue, seen from outside: who may hold what, until when, and what may become of it.

| invariant              | what it says                                                             |
|------------------------|--------------------------------------------------------------------------|
| moves_are_allowed      | a row goes only from one state to another that the list below names      |
| ends_once              | what is over stays over; only a dead letter lives again                  |
| never_both             | nothing is finished and not finished                                     |
| nothing_vanishes       | no row disappears without an end                                         |
| epoch_grows_by_grant   | one more with each grant, and never otherwise                            |
| one_holder             | who holds a lease keeps it until it ends, is given up, or is cancelled   |
| fenced                 | a holder's write is taken only under the current epoch and in time       |
| superseded_never_starts| who is told to begin holds the item at that instant                      |
| verdicts_are_true      | OK means that it happened, anything else that it did not                 |
| attempts_are_counted   | one more per start, never more than allowed                              |
| nothing_early          | what was put off is not taken before its time                            |
| nothing_stale          | what has waited too long is not handed out                               |
| always_a_wake          | every unfinished row says when somebody must look, and soon enough       |
| somebody_looks         | in calm weather, what is due is settled within a minute                  |
| one_line_per_end       | each end of an attempt leaves exactly one line in the journal            |
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from podium.kernel.work import Renewal, Verdict
from podium.sim.loop import Violation
from podium.sim.store import Change
from podium.sim.world import Transaction, World

HELD = frozenset({"leased", "running"})
GRANTS = frozenset(
    {("ready", "leased"), ("offered", "leased"), ("ready", "running"), ("offered", "running")}
)
PROMOTIONS = frozenset({("scheduled", "ready"), ("offered", "ready")})
RETURNS = frozenset(
    {
        ("leased", "ready"),
        ("leased", "scheduled"),
        ("running", "ready"),
        ("running", "scheduled"),
    }
)
RENEWALS = frozenset({("leased", "leased"), ("running", "running")})
ENDS = {
    "scheduled": {"cancelled"},
    "ready": {"cancelled", "dead"},
    "offered": {"cancelled"},
    "leased": {"cancelled", "dead"},
    "running": {"cancelled", "dead", "done"},
}
ROUNDING_MICROS = 10
OVERDUE_MICROS = 60_000_000


@dataclass(slots=True)
class Item:
    """What the checker knows of one item."""

    live: Any = None
    finished: Any = None
    starts: int = 0
    replays: int = 0


class Sight:
    """What one transaction did, gathered while its changes are read."""

    def __init__(self, transaction: Transaction) -> None:
        self.transaction = transaction
        self.accepted: set[tuple[str, int]] = set()
        self.ending: dict[str, Any] = {}
        self.reviving: dict[str, Any] = {}
        self.lines: Counter[tuple[str, str, int | None]] = Counter()
        self.lines_due: Counter[tuple[str, str, int | None]] = Counter()


class WorkChecker:
    def __init__(self, world: World) -> None:
        self._world = world
        self.items: dict[str, Item] = {}
        self.live_count = 0

    def see(self, transaction: Transaction) -> None:
        sight = Sight(transaction)
        for change in transaction.changes:
            if change.table == "work":
                self._work_changed(sight, change)
            elif change.table == "work_finished":
                self._finished_changed(sight, change)
            elif change.table == "journal" and change.new.kind == "work":
                line = change.new
                if line.event != "refused":  # somebody came too late: that ends nothing
                    sight.lines[line.aggregate_id, line.event, line.epoch] += 1
        self._after(sight)

    def look(self) -> None:
        now = self._world.clock.micros
        for id, item in self.items.items():
            if item.live is not None and item.live.wake_at < now - OVERDUE_MICROS:
                late = (now - item.live.wake_at) / 1e6
                raise self._no("somebody_looks", f"{id} is {item.live.state}, due {late:.0f} s ago")

    def finish(self) -> None:
        for id, item in self.items.items():
            if item.live is not None:
                raise self._no("everything_ends", f"{id} is still {item.live.state}")

    # One change ------------------------------------------------------------------------------

    def _work_changed(self, sight: Sight, change: Change) -> None:
        _, old, new = change
        if old is None:
            self._inserted(sight, new)
        elif new is None:
            self._deleted(sight, old)
        else:
            self._updated(sight, old, new)
            self.items[new.id].live = new

    def _inserted(self, sight: Sight, new: Any) -> None:
        item = self.items.setdefault(new.id, Item())
        if item.finished is not None:
            before = item.finished
            if before.state != "dead":
                raise self._no("ends_once", f"{new.id} was {before.state} and lives again")
            sight.reviving[new.id] = before
            sight.lines_due[new.id, "replayed", None] += 1
            item.replays += 1
        epoch = 0 if item.finished is None else item.finished.epoch
        if new.epoch != epoch:
            raise self._no("epoch_grows_by_grant", f"{new.id} begins with epoch {new.epoch}")
        if new.state not in ("ready", "scheduled") or new.attempts != 0:
            raise self._no("moves_are_allowed", f"{new.id} is born {new.state}")
        self._has_wake(sight, new)
        item.live = new
        self.live_count += 1

    def _deleted(self, sight: Sight, old: Any) -> None:
        end = sight.ending.pop(old.id, None)
        if end is None:
            raise self._no("nothing_vanishes", f"{old.id} was {old.state} and is gone")
        item = self.items[old.id]
        item.live = None
        item.finished = end
        self.live_count -= 1
        self._ended(sight, old, end)

    def _finished_changed(self, sight: Sight, change: Change) -> None:
        _, old, new = change
        if old is None:
            sight.ending[new.id] = new
        elif new is None:
            if sight.reviving.pop(old.id, None) is None:
                raise self._no("nothing_vanishes", f"{old.id}, {old.state}, is forgotten")
            self.items[old.id].finished = None
        else:
            raise self._no("ends_once", f"{old.id} was {old.state} and is written again")

    def _updated(self, sight: Sight, old: Any, new: Any) -> None:
        move = (old.state, new.state)
        granted = move in GRANTS
        if new.epoch != old.epoch + granted:
            text = f"{old.id} went from {old.state} to {new.state}"
            raise self._no("epoch_grows_by_grant", f"{text}, epoch {old.epoch} to {new.epoch}")
        if granted:
            self._granted(sight, old, new)
        elif move in PROMOTIONS:
            if old.wake_at > sight.transaction.now:
                raise self._no("nothing_early", f"{old.id} was {old.state} and is ready too soon")
        elif move in RETURNS:
            self._returned(sight, old, new)
        elif move == ("leased", "running") or move in RENEWALS:
            self._by_holder(sight, old, f"{old.state} to {new.state}")
        elif move != ("ready", "offered"):
            raise self._no("moves_are_allowed", f"{old.id} went from {old.state} to {new.state}")
        self._counted(old, new)
        self._has_wake(sight, new)

    def _granted(self, sight: Sight, old: Any, new: Any) -> None:
        if new.holder != sight.transaction.node.name:
            raise self._no("one_holder", f"{old.id} was granted to {new.holder}, who did not ask")
        if old.state == "ready" and old.wake_at <= sight.transaction.now:
            raise self._no("nothing_stale", f"{old.id} waited too long and was handed out")
        if new.state == "running":
            self.items[old.id].starts += 1

    def _returned(self, sight: Sight, old: Any, new: Any) -> None:
        """Given back or failed by its holder; or, when its lease is over, put back for it."""
        self._by_holder_or_late(sight, old, new.state)
        given_up = old.state == "leased" and new.attempts == old.attempts + 1
        if given_up or (old.state == "running" and new.attempts == old.attempts):
            sight.lines_due[old.id, "retried", old.epoch] += 1

    def _ended(self, sight: Sight, old: Any, end: Any) -> None:
        if end.state not in ENDS[old.state]:
            raise self._no("moves_are_allowed", f"{old.id} went from {old.state} to {end.state}")
        if end.epoch != old.epoch or end.attempts != old.attempts:
            raise self._no("epoch_grows_by_grant", f"{old.id} ended under another epoch")
        sight.lines_due[old.id, end.state, old.epoch] += 1
        if end.state == "done":
            self._by_holder(sight, old, "running to done")
        elif end.state == "dead" and old.state in HELD:
            self._by_holder_or_late(sight, old, "dead")
        elif end.state == "dead" and old.wake_at > sight.transaction.now:
            raise self._no("nothing_early", f"{old.id} was buried before its time was up")

    # The rules of holding --------------------------------------------------------------------

    def _by_holder(self, sight: Sight, old: Any, what: str) -> None:
        """Only the holder, presenting the current epoch, before the lease is over."""
        transaction = sight.transaction
        text = f"{old.id} from {what} by {transaction.node.name}"
        if (old.id, old.epoch) not in transaction.presented:
            shown = sorted(epoch for id, epoch in transaction.presented if id == old.id)
            raise self._no("fenced", f"{text}: epoch {old.epoch} is current, presented {shown}")
        if old.holder != transaction.node.name:
            raise self._no("fenced", f"{text}: it is held by {old.holder}")
        if old.wake_at <= transaction.now:
            late = (transaction.now - old.wake_at) / 1e6
            raise self._no("fenced", f"{text}: the lease was over for {late:.3f} s")
        sight.accepted.add((old.id, old.epoch))

    def _by_holder_or_late(self, sight: Sight, old: Any, target: str) -> None:
        transaction = sight.transaction
        if any(id == old.id for id, _ in transaction.presented):
            self._by_holder(sight, old, f"{old.state} to {target}")
        elif old.wake_at > transaction.now:
            rest = (old.wake_at - transaction.now) / 1e6
            raise self._no(
                "one_holder",
                f"{old.id} was taken from {old.holder} by {transaction.node.name} "
                f"({transaction.body}), {rest:.3f} s before its lease was over",
            )

    def _counted(self, old: Any, new: Any) -> None:
        starts = old.state != "running" and new.state == "running"
        returns = old.state == "running" and new.state == "ready"
        gives_up = old.state == "leased" and new.state in ("ready", "scheduled")
        may = (1,) if starts else (0, -1) if returns else (0, 1) if gives_up else (0,)
        if new.attempts - old.attempts not in may:
            text = f"{old.id} went from {old.state} to {new.state}"
            raise self._no(
                "attempts_are_counted", f"{text}, attempts {old.attempts} to {new.attempts}"
            )
        if not 0 <= new.attempts <= new.attempts_max:
            raise self._no("attempts_are_counted", f"{new.id} has attempt number {new.attempts}")
        if starts and old.state == "leased":
            self.items[old.id].starts += 1

    def _has_wake(self, sight: Sight, new: Any) -> None:
        if new.wake_at is None:
            raise self._no("always_a_wake", f"{new.id} is {new.state} and nobody will look")
        if new.state in HELD:
            until = sight.transaction.now + new.lease_seconds * 1e6
            if new.run_seconds_max is not None and new.state == "running":
                until = min(until, new.started_at + new.run_seconds_max * 1e6)
            if new.wake_at > until + ROUNDING_MICROS:
                raise self._no("always_a_wake", f"{new.id} is held for longer than it may be")

    # The whole transaction -------------------------------------------------------------------

    def _after(self, sight: Sight) -> None:
        for both in (sight.ending, sight.reviving):
            for id in both:
                raise self._no("never_both", f"{id} is finished and not finished")
        if sight.lines != sight.lines_due:
            missing = dict(sight.lines_due - sight.lines)
            extra = dict(sight.lines - sight.lines_due)
            raise self._no("one_line_per_end", f"missing {missing}, too many {extra}")
        if sight.transaction.presented:
            self._verdicts(sight)

    def _verdicts(self, sight: Sight) -> None:
        transaction = sight.transaction
        verdicts = transaction.result
        if not isinstance(verdicts, list) or not verdicts:
            return
        if not all(isinstance(verdict, Verdict | Renewal) for verdict in verdicts):
            return
        leases = [getattr(lease, "lease", lease) for lease in transaction.arguments[0]]
        for lease, verdict in zip(leases, verdicts, strict=True):
            said = verdict.verdict if isinstance(verdict, Renewal) else verdict
            happened = (lease.id, lease.epoch) in sight.accepted
            if (said is Verdict.OK) == happened:
                continue
            starting = transaction.body.endswith(".start")
            raise self._no(
                "superseded_never_starts" if starting and not happened else "verdicts_are_true",
                f"{transaction.body} of {lease.id} under epoch {lease.epoch} was told {said}",
            )

    def _no(self, invariant: str, message: str) -> Violation:
        return self._world.violate(invariant, message)
