"""Owned runs, seen from outside: who may write what, under which epoch, in which order.

| invariant             | what it says                                                              |
|-----------------------|---------------------------------------------------------------------------|
| owner_epoch_grows     | one more with each taking and takeover, never otherwise, never back       |
| owner_is_not_robbed   | nobody takes a run before its owner's time is over, or it is given up     |
| only_the_owner_writes | a run's rows change only by its owner, presenting the current epoch       |
| takeover_raises_epoch | whoever intervenes shuts the owner out first                              |
| steps_in_order        | a step begins when the one before it is done, once                        |
| dispatched_with_work  | a step that says `dispatched` has its work item, in the same transaction  |
| nothing_after_cancel  | once a cancel is committed, no further step is dispatched or begun        |
| runs_end_once         | a run that is over is never written again                                 |
| somebody_looks        | in calm weather, a run that wants an owner has one within a minute        |
| always_a_wake         | every unfinished run says when somebody must look                         |
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from podium.sim.loop import Violation
from podium.sim.store import Change
from podium.sim.world import Transaction, World

OVERDUE_MICROS = 60_000_000
OVER = frozenset({"completed", "cancelled"})


@dataclass(slots=True)
class Run:
    row: Any
    steps: list[str] = field(default_factory=list)
    """The state of each step, in order."""
    is_cancelled: bool = False


class OwnershipChecker:
    def __init__(self, world: World) -> None:
        self._world = world
        self.runs: dict[str, Run] = {}
        self.live_count = 0

    def see(self, transaction: Transaction) -> None:
        seen = {
            "runs": self._run_changed,
            "steps": self._step_changed,
            "commands": self._commanded,
            "work": self._work_changed,
        }
        for change in transaction.changes:
            look = seen.get(change.table)
            if look is not None:
                look(transaction, change)

    def look(self) -> None:
        now = self._world.clock.micros
        for id, run in self.runs.items():
            if run.row.wake_at is not None and run.row.wake_at < now - OVERDUE_MICROS:
                late = (now - run.row.wake_at) / 1e6
                raise self._no("somebody_looks", f"run {id} wants an owner since {late:.0f} s")

    def finish(self) -> None:
        for id, run in self.runs.items():
            if run.row.state not in OVER:
                raise self._no("everything_ends", f"run {id} is still {run.row.state}")

    # Runs ------------------------------------------------------------------------------------

    def _run_changed(self, transaction: Transaction, change: Change) -> None:
        _, old, new = change
        if new is None:
            raise self._no("runs_end_once", f"run {old.id} is gone")
        if (new.wake_at is None) != (new.state in OVER):
            raise self._no("always_a_wake", f"run {new.id} is {new.state}, wake_at {new.wake_at}")
        if old is None:
            self.runs[new.id] = Run(new)
            self.live_count += 1
            return
        if old.state in OVER:
            raise self._no("runs_end_once", f"run {old.id} was {old.state} and is written again")
        if new.epoch == old.epoch + 1:
            self._changed_hands(transaction, old, new)
        elif new.epoch != old.epoch:
            raise self._no(
                "owner_epoch_grows", f"run {old.id} went from epoch {old.epoch} to {new.epoch}"
            )
        else:
            self._written_by_owner(transaction, old, new)
        self.runs[new.id].row = new

    def _changed_hands(self, transaction: Transaction, old: Any, new: Any) -> None:
        if new.owner is None:
            return
        if new.owner != transaction.node.name:
            raise self._no("owner_epoch_grows", f"run {old.id} was given to {new.owner}")
        if old.wake_at > transaction.now:
            rest = (old.wake_at - transaction.now) / 1e6
            raise self._no(
                "owner_is_not_robbed",
                f"{new.owner} took {old.id} from {old.owner}, {rest:.3f} s early",
            )

    def _written_by_owner(self, transaction: Transaction, old: Any, new: Any) -> None:
        if new.owner not in (None, old.owner):
            raise self._no("owner_epoch_grows", f"run {old.id} has a new owner and an old epoch")
        if old.owner != transaction.node.name:
            raise self._no(
                "only_the_owner_writes",
                f"{transaction.node.name} wrote run {old.id} of {old.owner} ({transaction.body})",
            )
        if new.owner is None:
            self._presents(transaction, old.id)
        if new.state in OVER:
            self.live_count -= 1
            run = self.runs[old.id]
            done = run.steps == ["done"] * new.steps_count
            if new.state == "completed" and not done:
                raise self._no("steps_in_order", f"run {old.id} is completed with {run.steps}")
            if new.state == "cancelled" and not run.is_cancelled:
                raise self._no("nothing_after_cancel", f"nobody cancelled run {old.id}")

    # What belongs to a run -------------------------------------------------------------------

    def _step_changed(self, transaction: Transaction, change: Change) -> None:
        _, old, new = change
        run = self.runs[new.run_id]
        self._presents(transaction, new.run_id)
        if old is None:
            if run.is_cancelled:
                raise self._no("nothing_after_cancel", f"step {new.id} was dispatched after it")
            if new.n != len(run.steps) + 1 or any(state != "done" for state in run.steps):
                raise self._no("steps_in_order", f"step {new.id} was dispatched after {run.steps}")
            born = [c.new.id for c in transaction.changes if c.table == "work" and c.old is None]
            if new.id not in born:
                raise self._no("dispatched_with_work", f"step {new.id} has no work item")
            run.steps.append(new.state)
        else:
            if (old.state, new.state) != ("dispatched", "done"):
                raise self._no("steps_in_order", f"step {new.id}: {old.state} to {new.state}")
            run.steps[new.n - 1] = new.state

    def _presents(self, transaction: Transaction, id: str) -> None:
        """The writer owns the run, under the epoch that the row has now."""
        row = self.runs[id].row
        mine = row.owner == transaction.node.name or row.state in OVER
        if not mine or (id, row.epoch) not in transaction.presented:
            shown = sorted(epoch for known, epoch in transaction.presented if known == id)
            raise self._no(
                "only_the_owner_writes",
                f"{transaction.node.name} wrote rows of run {id} presenting epoch {shown}; "
                f"{row.owner} owns it under epoch {row.epoch}",
            )

    def _commanded(self, transaction: Transaction, change: Change) -> None:
        id = change.new.run_id
        raised = any(
            c.table == "runs" and c.new.id == id and c.new.epoch == c.old.epoch + 1
            for c in transaction.changes
        )
        if not raised:
            raise self._no("takeover_raises_epoch", f"run {id} was cancelled under its old epoch")
        self.runs[id].is_cancelled = True

    def _work_changed(self, transaction: Transaction, change: Change) -> None:
        _, old, new = change
        if old is None or new is None or new.state != "running" or old.state == "running":
            return
        run = self.runs.get(new.parent)
        # An attempt after the first repeats a step that was running when the cancel came.
        if run is not None and run.is_cancelled and new.attempts == 1:
            raise self._no("nothing_after_cancel", f"step {new.id} was begun after it")

    def _no(self, invariant: str, message: str) -> Violation:
        return self._world.violate(invariant, message)
