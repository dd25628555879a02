"""Messages, seen from outside.

| invariant           | what it says                                                                |
|---------------------|-----------------------------------------------------------------------------|
| told_with_the_row   | a row and its messages commit together, to each subscription that wants it  |
| recorded_once       | each subscription records a message exactly once, or it is a dead letter    |
| arrives_and_applies | what goes through the broker arrives, and is applied once                   |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from podium.sim.loop import Violation
from podium.sim.world import Transaction, World


class BusChecker:
    """`wants(kind)` names the subscriptions that an order of that kind goes to."""

    def __init__(self, world: World, topic: str, wants: Callable[[str], list[str]]) -> None:
        self._world = world
        self._topic = topic
        self._wants = wants
        self.orders: dict[str, str] = {}
        self.received: Counter[tuple[str, str]] = Counter()

    def see(self, transaction: Transaction) -> None:
        for change in transaction.changes:
            if change.table == "orders":
                self.orders[change.new.id] = change.new.kind
                self._told(transaction, change.new.id, change.new.kind)
            elif change.table == "received":
                self._recorded(change.new.subscription, change.new.message_id)

    def _told(self, transaction: Transaction, id: str, kind: str) -> None:
        due = {f"{self._topic}/{name}//{id}" for name in self._wants(kind)}
        sent = {c.new.id for c in transaction.changes if c.table == "work" and c.old is None}
        if due != sent:
            raise self._no(
                "told_with_the_row", f"order {id} told {sorted(sent)}, not {sorted(due)}"
            )

    def _recorded(self, subscription: str, id: str) -> None:
        self.received[subscription, id] += 1
        if self.received[subscription, id] > 1:
            raise self._no("recorded_once", f"{subscription} recorded {id} twice")

    def look(self) -> None:
        """A message is a work item: the queue's checker looks."""

    def finish(self) -> None:
        """Dead letters are for the scenario to judge: it knows who was poisoned."""

    def _no(self, invariant: str, message: str) -> Violation:
        return self._world.violate(invariant, message)
