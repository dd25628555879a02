"""What the callers were told, compared with what the server says and what its file holds."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from tests.kill.callers import Book, Call, Grant
from tests.kill.facts import rows_of
from tests.kill.house import Announced
from tests.kill.line import Line

PAGE = 500
VIOLATIONS = re.compile(r"^podium_audit_violations\{.*\} (\S+)$", re.MULTILINE)


class Finished(NamedTuple):
    state: str
    epoch: int
    result: Any


@dataclass(frozen=True, slots=True)
class Kept:
    """What the server and its file say when all is over."""

    finished: dict[str, Finished]
    live: int
    ends: Counter[str]
    """How often the journal says that an item ended."""
    traces: set[str]
    """The calls that the audit log knows."""
    violations: dict[str, float]
    integrity: str


@dataclass(slots=True)
class Report:
    acknowledged_count: int = 0
    call_count: int = 0
    lost_count: int = 0
    takeover_count: int = 0
    refused_count: int = 0
    violations: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        text = (
            f"{self.acknowledged_count} items acknowledged, {self.call_count} calls answered, "
            f"{self.lost_count} not, {self.takeover_count} takeovers, {self.refused_count} late verdicts refused"
        )
        return "\n".join([text, *self.violations])


async def kept(at: Announced, data_dir: Path) -> Kept:
    """Asked of the running server over HTTP, and of its file."""
    line = Line(at.port, at.token)
    try:
        violations = await _violations(line)
        traces = await _traces(line)
    finally:
        line.close()
    file = str(data_dir / "podium.db")
    finished = rows_of(file, "select id, state, epoch, result from work_finished")
    ends = "select aggregate_id from journal where kind = 'work' and event in ('done', 'dead', 'cancelled')"
    return Kept(
        finished={
            id: Finished(state, epoch, orjson.loads(result or "null"))
            for id, state, epoch, result in finished
        },
        live=rows_of(file, "select count(*) from work")[0][0],
        ends=Counter(row[0] for row in rows_of(file, ends)),
        traces=traces,
        violations=violations,
        integrity="; ".join(row[0] for row in rows_of(file, "pragma integrity_check")),
    )


async def _violations(line: Line) -> dict[str, float]:
    counted = await line.ask("GET", "/api/audit/violations")
    metrics = await line.ask("GET", "/metrics")
    assert counted.status == metrics.status == 200, "the token is good for every life"
    shown = VIOLATIONS.findall(metrics.body.decode())
    assert shown, "podium_audit_violations is not among the metrics"
    return {**counted.json["violations"], "metric": max(map(float, shown))}


async def _traces(line: Line) -> set[str]:
    found: set[str] = set()
    cursor = ""
    while True:
        page = (await line.ask("GET", f"/api/audit?limit={PAGE}{cursor}")).json
        found.update(entry["trace_id"] for entry in page["entries"])
        if page["next_cursor"] is None:
            return found
        cursor = f"&cursor={page['next_cursor']}"


def check(book: Book, kept: Kept) -> Report:
    report = Report(
        acknowledged_count=len(book.acknowledged),
        call_count=len(book.calls),
        lost_count=book.lost_count,
        takeover_count=sum(grant.epoch > 1 for grant in _grants(book)),
        refused_count=sum(word != "ok" for *_, word in _verdicts(book.calls)),
    )
    for found in (
        book.problems,
        _wrong_in_general(kept),
        _submitted_twice(book),
        _lost_or_done_twice(book, kept),
        _granted_twice(book),
        _told_wrongly(book, kept),
        _fenced_too_late(book),
        _not_in_the_audit_log(book, kept),
    ):
        report.violations += found
    return report


def _wrong_in_general(kept: Kept) -> Iterator[str]:
    if kept.integrity != "ok":
        yield f"the file is damaged: {kept.integrity}"
    if kept.live:
        yield f"{kept.live} items are still there after everything was finished"
    if any(kept.violations.values()):
        yield f"the auditor found {kept.violations}"


def _submitted_twice(book: Book) -> Iterator[str]:
    """Whoever repeats a call gets the same item: by its answers, and by what the workers were given."""
    given: dict[str, set[str]] = {key: set(ids) for key, ids in book.keys.items()}
    for call in book.of("claim"):
        for item in call.said["items"]:
            given.setdefault(item["payload"]["key"], set()).add(item["id"])
    for key, ids in given.items():
        if len(ids) > 1:
            yield f"{key} became several items: {sorted(ids)}"


def _lost_or_done_twice(book: Book, kept: Kept) -> Iterator[str]:
    for id in book.acknowledged:
        row = kept.finished.get(id)
        if row is None:
            yield f"{id} was acknowledged and is lost"
        elif row.state != "done":
            yield f"{id} ended as {row.state}"
        if kept.ends[id] != 1:
            yield f"{id} ended {kept.ends[id]} times by the journal"
    for id in kept.finished.keys() - book.acknowledged:
        yield f"{id} is there and nobody was told of it"


def _granted_twice(book: Book) -> Iterator[str]:
    for grant, times in Counter(_grants(book)).items():
        if times > 1:
            yield f"{grant} was given to {times} askers"


def _told_wrongly(book: Book, kept: Kept) -> Iterator[str]:
    """One `ok` per item at most, and it was meant: the file has that very report."""
    told: dict[str, int] = {}
    for call in book.of("done"):
        for grant, word in _words(call):
            if word != "ok":
                continue
            if grant.id in told:
                yield f"{grant.id} was done twice, under epochs {told[grant.id]} and {grant.epoch}"
            told[grant.id] = grant.epoch
            row = kept.finished.get(grant.id)
            if row is not None and (row.epoch, row.result) != (
                grant.epoch,
                call.sent["done"][0]["result"],
            ):
                yield f"{grant} was told ok, but the file has {row}"


def _fenced_too_late(book: Book) -> Iterator[str]:
    """No `ok` for a call that began after somebody else was given a later epoch."""
    known: dict[str, list[tuple[int, float]]] = {}
    for call in book.of("claim"):
        for item in call.said["items"]:
            known.setdefault(item["id"], []).append((item["epoch"], call.ended_at))
    for call, grant, word in _verdicts(book.calls):
        for epoch, since in known.get(grant.id, []):
            if word == "ok" and epoch > grant.epoch and since < call.began_at:
                yield f"{call.what} of {grant} was told ok after epoch {epoch} had been given"


def _not_in_the_audit_log(book: Book, kept: Kept) -> Iterator[str]:
    for call in book.calls:
        # A claim that was given nothing has changed nothing.
        is_change = call.what != "claim" or call.said["items"]
        if is_change and call.trace_id not in kept.traces:
            yield f"{call.what} {call.trace_id} was answered and is not in the audit log"


def _grants(book: Book) -> list[Grant]:
    return [
        Grant(item["id"], item["epoch"]) for call in book.of("claim") for item in call.said["items"]
    ]


def _verdicts(calls: Iterable[Call]) -> Iterator[tuple[Call, Grant, str]]:
    for call in calls:
        if call.what in ("renew", "done", "fail"):
            for grant, word in _words(call):
                yield call, grant, word


def _words(call: Call) -> Iterator[tuple[Grant, str]]:
    for said in call.said["verdicts"]:
        yield Grant(said["id"], said["epoch"]), said["verdict"]
