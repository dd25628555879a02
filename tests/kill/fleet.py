"""A store and the processes that work on it, over many lives."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import orjson

from tests.kill.checker import Report, check, check_present
from tests.kill.child import DEADLINE_SECONDS, Child
from tests.kill.facts import executions_of, facts_of
from tests.kill.history import History, Outcome, operations

RECORDS_BEFORE_KILL = (1, 300)
SECONDS_BEFORE_KILL = (0.0, 0.03)


class Fleet:
    def __init__(self, store: str, folder: Path, *, seed: int, options: Sequence[str] = ()) -> None:
        self.store = store
        self.folder = folder
        self.seed = seed
        self.rng = random.Random(seed)
        self.options = list(options)
        self.children: dict[str, Child] = {}
        self.histories: list[History] = []
        self.effects = folder / "effects"
        self.effects.touch()
        self.effects.chmod(0o666)
        self.kill_count = 0

    def start(
        self,
        slot: str,
        *options: str,
        environment: Mapping[str, str] | None = None,
    ) -> Child:
        """A new life of this slot: it goes on with new keys, and asks again for what it never heard of."""
        earlier = [history for history in self.histories if history.process == slot]
        child = Child(
            slot,
            [
                self.store,
                f"--slot={slot}",
                f"--effects={self.effects}",
                f"--seed={self.seed}",
                f"--first={_first(earlier)}",
                f"--again={orjson.dumps(_unanswered(earlier)).decode()}",
                *self.options,
                *options,
            ],
            log=self.folder / f"{slot}.log",
            environment=environment,
        )
        self.children[slot] = child
        self.histories.append(child.history)
        return child

    def start_ready(self, slot: str, *options: str) -> Child:
        child = self.start(slot, *options)
        child.wait_for_event("ready")
        return child

    def work_until_random_moment(self, child: Child) -> None:
        """Some lines, and then some milliseconds: a moment that nothing the child says is near to."""
        lines = self.rng.randint(*RECORDS_BEFORE_KILL)
        wanted = len(child.history.records) + lines
        child.wait_for(lambda history: len(history.records) >= wanted)
        child.live_on(self.rng.uniform(*SECONDS_BEFORE_KILL))

    def kill(self, slot: str) -> None:
        self.children.pop(slot).kill()
        self.kill_count += 1

    def drain(self) -> None:
        """The faults are over: all must finish what there is, and find nothing wrong."""
        for child in self.children.values():
            child.tell("quiet")
        for child in self.children.values():
            child.wait_for_event("quiet")
        for child in self.children.values():
            child.tell("drain")
        for child in self.children.values():
            audit = child.wait_for_event("drained", 2 * DEADLINE_SECONDS).facts["audit"]
            assert not any(audit.values()), f"the auditor of {child.name} found {audit}"

    def stop(self) -> None:
        for slot in list(self.children):
            child = self.children.pop(slot)
            code = child.terminate()
            assert code == 0, f"{slot} ended with {code}\n{child.tail()}"

    def check(self) -> Report:
        return check(operations(self.histories), executions_of(self.effects), facts_of(self.store))

    def check_present(self) -> Report:
        return check_present(operations(self.histories), facts_of(self.store))

    def drain_and_check(self) -> Report:
        self.drain()
        self.stop()
        report = self.check()
        assert not report.violations, f"seed {self.seed}: {report}"
        assert report.acknowledged_count, "nothing was acknowledged: nothing was shown"
        return report

    def kill_all(self) -> None:
        """Whoever is left; for the end of a run that failed, and for a machine that loses power."""
        for slot in list(self.children):
            child = self.children.pop(slot)
            child.kill()


@contextmanager
def fleet(store: str, folder: Path, *, seed: int, options: Sequence[str] = ()) -> Iterator[Fleet]:
    folder.mkdir(parents=True, exist_ok=True)
    made = Fleet(store, folder, seed=seed, options=options)
    try:
        yield made
    finally:
        made.kill_all()


def _first(earlier: list[History]) -> int:
    """A number that no earlier life of this slot has used."""
    numbers = [
        int(record.key.rpartition("-")[2])
        for history in earlier
        for record in history.records
        if record.phase == "start" and record.key.rpartition("-")[0] == history.process
    ]
    return max(numbers, default=-1) + 1


def _unanswered(earlier: list[History]) -> list[str]:
    asked = [o for o in operations(earlier) if o.what == "submit"]
    answered = {o.key for o in asked if o.outcome is Outcome.OK}
    return sorted({o.key for o in asked} - answered)
