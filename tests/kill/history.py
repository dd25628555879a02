"""What was asked, when, and what the asker was told.

The program writes one line for everything that it does, into a pipe that outlives it. An operation
has a start and an end; one that was begun and never answered is *unknown*, and so is one whose
commit could not be found out. Times come from the monotonic clock, which all processes of a
machine share.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import orjson


class Outcome(StrEnum):
    OK = "ok"
    FAIL = "fail"
    UNKNOWN = "unknown"


START = "start"


@dataclass(frozen=True, slots=True)
class Record:
    """One line: `what` is an operation's name or an event's, `phase` is empty for an event."""

    at: float
    what: str
    key: str = ""
    phase: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)

    def line(self) -> bytes:
        return orjson.dumps([self.at, self.what, self.key, self.phase, self.facts]) + b"\n"

    @classmethod
    def parse(cls, line: bytes) -> Record:
        return cls(*orjson.loads(line))


@dataclass(frozen=True, slots=True)
class Operation:
    what: str
    key: str
    started_at: float
    ended_at: float | None
    outcome: Outcome
    facts: Mapping[str, Any]


class Recorder:
    """The program's end of the pipe."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def note(self, what: str, key: str = "", phase: str = "", **facts: Any) -> None:
        # A line shorter than a page goes into a pipe whole or not at all.
        line = Record(time.monotonic(), what, key, phase, facts).line()
        assert len(line) <= 4096, f"a line of {len(line)} bytes could be torn"
        os.write(self._descriptor, line)

    def start(self, what: str, key: str, **facts: Any) -> None:
        self.note(what, key, START, **facts)

    def end(self, what: str, key: str, outcome: Outcome, **facts: Any) -> None:
        self.note(what, key, outcome, **facts)


class History:
    """All that one process said, in order. One thread adds to it, others only read."""

    def __init__(self, process: str) -> None:
        self.process = process
        self.records: list[Record] = []
        self.counts: dict[tuple[str, str], int] = {}

    def add(self, record: Record) -> None:
        self.records.append(record)
        place = (record.what, record.phase)
        self.counts[place] = self.counts.get(place, 0) + 1

    def count(self, what: str, phase: str = "") -> int:
        return self.counts.get((what, phase), 0)

    def all(self, what: str, phase: str = "") -> Iterator[Record]:
        for record in list(self.records):
            if record.what == what and record.phase == phase:
                yield record

    def first(self, what: str, phase: str = "") -> Record | None:
        return next(self.all(what, phase), None)

    def operations(self) -> list[Operation]:
        """Starts joined with their ends; one process never asks twice under one key at a time."""
        begun: dict[tuple[str, str], Record] = {}
        done: list[Operation] = []
        for record in list(self.records):
            place = (record.what, record.key)
            if record.phase == START:
                begun[place] = record
            elif record.phase:
                done.append(_operation(begun.pop(place), record))
        return [*done, *(_operation(record, None) for record in begun.values())]


def operations(histories: Iterable[History]) -> list[Operation]:
    return [operation for history in histories for operation in history.operations()]


def _operation(start: Record, end: Record | None) -> Operation:
    return Operation(
        what=start.what,
        key=start.key,
        started_at=start.at,
        ended_at=end.at if end else None,
        outcome=Outcome(end.phase) if end else Outcome.UNKNOWN,
        facts={**start.facts, **(end.facts if end else {})},
    )
