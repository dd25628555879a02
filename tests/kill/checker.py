"""What must be true after any number of kills, pauses, cuts and jumps, whoever caused them.

It compares three witnesses that do not know each other: what the askers were told (history), what
was done outside the database (executions), and what the tables hold (facts). It imports nothing of
the code that it judges.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tests.kill.history import Operation, Outcome

SHOWN_MAX = 3
"""Violations of one kind beyond this are only counted."""


class Execution(NamedTuple):
    """A line of the outside file: a handler began an item under an epoch."""

    key: str
    item: str
    epoch: int
    holder: str
    at: float
    fails: bool
    """On purpose, at its first try: the next one is a retry and no takeover."""


class Effect(NamedTuple):
    key: str
    item: str
    epoch: int
    holder: str


class Finished(NamedTuple):
    state: str
    epoch: int
    attempts: int


class Live(NamedTuple):
    state: str
    epoch: int
    holder: str | None


@dataclass(frozen=True, slots=True)
class Facts:
    live: dict[str, Live]
    finished: dict[str, Finished]
    ends_journalled: Counter[str]
    """How often the journal says that an item ended."""
    effects: list[Effect]
    told: Counter[str]
    ticks: Counter[str]
    integrity: str


class Violation(NamedTuple):
    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


class Report(NamedTuple):
    violations: list[Violation]
    acknowledged_count: int
    unknown_count: int
    takeover_count: int
    """Executions that were never finished, so that somebody else had to begin again."""

    @property
    def lost_count(self) -> int:
        return sum(violation.kind == "lost" for violation in self.violations)

    def __str__(self) -> str:
        counts = Counter(violation.kind for violation in self.violations)
        lines = [
            f"acknowledged {self.acknowledged_count}, unknown {self.unknown_count}, "
            f"takeovers {self.takeover_count}, violations {dict(counts) or 0}"
        ]
        shown: Counter[str] = Counter()
        for violation in self.violations:
            shown[violation.kind] += 1
            if shown[violation.kind] <= SHOWN_MAX:
                lines.append(f"  {violation}")
        return "\n".join(lines)


def check(operations: Iterable[Operation], executions: Iterable[Execution], facts: Facts) -> Report:
    """Everything, after all work has drained."""
    asked = list(operations)
    began = list(executions)
    found = [
        *_present(asked, facts),
        *_acknowledged_are_done(asked, facts),
        *_one_item_per_key(asked, facts),
        *_ended_once(facts),
        *_effects_once(facts),
        *_fenced(began, facts),
        *_not_early(asked, began),
        *_ticked_once(asked, facts),
        *_at_rest(facts),
    ]
    return _report(found, asked, began)


def check_present(operations: Iterable[Operation], facts: Facts) -> Report:
    """Only that nothing acknowledged is missing, right after a crash: nothing has drained yet."""
    asked = list(operations)
    found = [*_present(asked, facts), *_ticked_once(asked, facts), *_whole(facts)]
    return _report(found, asked, [])


def _report(found: list[Violation], asked: list[Operation], began: list[Execution]) -> Report:
    outcomes = Counter(operation.outcome for operation in asked)
    return Report(found, outcomes[Outcome.OK], outcomes[Outcome.UNKNOWN], _takeovers(began))


def _takeovers(began: list[Execution]) -> int:
    items: dict[str, list[Execution]] = defaultdict(list)
    for execution in began:
        items[execution.item].append(execution)
    return sum(
        not earlier.fails
        for executions in items.values()
        for earlier in sorted(executions, key=lambda execution: execution.epoch)[:-1]
    )


def _submits(asked: list[Operation], outcome: Outcome) -> Iterator[Operation]:
    return (o for o in asked if o.what == "submit" and o.outcome is outcome)


def _present(asked: list[Operation], facts: Facts) -> Iterator[Violation]:
    for operation in _submits(asked, Outcome.OK):
        item = operation.facts["item"]
        if item not in facts.live and item not in facts.finished:
            yield Violation("lost", f"{operation.key} was acknowledged as {item}, which is nowhere")


def _acknowledged_are_done(asked: list[Operation], facts: Facts) -> Iterator[Violation]:
    for operation in _submits(asked, Outcome.OK):
        finished = facts.finished.get(operation.facts["item"])
        if finished and finished.state != "done":
            yield Violation("not done", f"{operation.key} ended as {finished.state}")


def _one_item_per_key(asked: list[Operation], facts: Facts) -> Iterator[Violation]:
    """P2: whoever asks again under a key is told the same item, and it is the one that was done."""
    items: dict[str, set[str]] = defaultdict(set)
    for operation in _submits(asked, Outcome.OK):
        items[operation.key].add(operation.facts["item"])
    for effect in facts.effects:
        if effect.key in items:
            items[effect.key].add(effect.item)
    for key, names in items.items():
        if len(names) > 1:
            yield Violation("two items", f"{key} became {sorted(names)}")


def _ended_once(facts: Facts) -> Iterator[Violation]:
    for item in facts.live.keys() & facts.finished.keys():
        yield Violation("ended and not", f"{item} is finished and still live")
    for item, count in facts.ends_journalled.items():
        if count != 1:
            yield Violation("ended twice", f"the journal has {count} ends of {item}")
    for item in facts.finished.keys() - facts.ends_journalled.keys():
        yield Violation("not journalled", f"{item} is finished and the journal does not know")


def _effects_once(facts: Facts) -> Iterator[Violation]:
    """Recorded with the completion, in one transaction: once each, and told once each."""
    effects = Counter(effect.key for effect in facts.effects)
    for key, count in effects.items():
        if count != 1:
            yield Violation("effect twice", f"{key} has {count} recorded effects")
        if facts.told[key] != 1:
            yield Violation("told wrong", f"{key} was told {facts.told[key]} times")
    for key in facts.told.keys() - effects.keys():
        yield Violation("told wrong", f"{key} was told and has no effect")
    recorded = {effect.item for effect in facts.effects}
    for item, finished in facts.finished.items():
        if finished.state == "done" and "/" not in item and item not in recorded:
            yield Violation("effect missing", f"{item} is done without a recorded effect")


def _fenced(began: list[Execution], facts: Facts) -> Iterator[Violation]:
    """P5, P10: what counts was done under the last epoch that anybody was granted."""
    latest: dict[str, int] = {}
    grants: Counter[tuple[str, int]] = Counter()
    for execution in began:
        latest[execution.item] = max(execution.epoch, latest.get(execution.item, 0))
        grants[execution.item, execution.epoch] += 1
    for (item, epoch), count in grants.items():
        if count > 1:
            yield Violation("granted twice", f"{item} was begun {count} times under epoch {epoch}")
    for effect in facts.effects:
        finished = facts.finished.get(effect.item)
        if finished and finished.epoch != effect.epoch:
            yield Violation(
                "old epoch",
                f"{effect.item} ended under {finished.epoch}, its effect under {effect.epoch}",
            )
        if latest.get(effect.item, 0) > effect.epoch:
            yield Violation(
                "old epoch",
                f"{effect.item}: epoch {effect.epoch} counted, {latest[effect.item]} was granted",
            )
        if effect.item not in latest:
            yield Violation("effect from nowhere", f"nobody began {effect.item}")


def _not_early(asked: list[Operation], began: list[Execution]) -> Iterator[Violation]:
    """P8: nothing that was put off is begun before its time."""
    due_at: dict[str, float] = {}
    for operation in asked:
        if operation.what == "submit" and operation.facts.get("delay_seconds"):
            at = operation.started_at + operation.facts["delay_seconds"]
            due_at[operation.key] = min(at, due_at.get(operation.key, at))
    for execution in began:
        early = due_at.get(execution.key, 0.0) - execution.at
        if early > 0:
            yield Violation("early", f"{execution.key} was begun {early:.3f} s before it was due")


def _ticked_once(asked: list[Operation], facts: Facts) -> Iterator[Violation]:
    """A write with no key but the store's own: acknowledged is once, unknown at most once."""
    for operation in asked:
        if operation.what != "tick":
            continue
        count = facts.ticks[operation.key]
        if operation.outcome is Outcome.OK and count == 0:
            yield Violation("lost", f"tick {operation.key} was acknowledged and is nowhere")
        elif operation.outcome is Outcome.FAIL and count:
            yield Violation("failed and there", f"tick {operation.key} was refused and is there")
        elif count > 1:
            yield Violation("ticked twice", f"tick {operation.key} is there {count} times")


def _at_rest(facts: Facts) -> Iterator[Violation]:
    for item, live in facts.live.items():
        yield Violation("left over", f"{item} is {live.state} under {live.holder}")
    yield from _whole(facts)


def _whole(facts: Facts) -> Iterator[Violation]:
    if facts.integrity != "ok":
        yield Violation("damaged", facts.integrity)
