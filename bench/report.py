"""The run as markdown: the table, the ratios, and what to know when reading them."""

from __future__ import annotations

import re
from pathlib import Path

from bench import backlog
from bench.contestants import CONTESTANTS, Contestant
from bench.places import POSTGRES, SETTINGS, SQLITE
from bench.ratios import Ratio, ratios
from bench.samples import Samples

README = Path(__file__).parent / "README.md"
BETWEEN = re.compile(r"(?<=<!-- result -->\n).*(?=<!-- /result -->)", re.DOTALL)
WORDS = {True: "yes", False: "**no**", None: "not measured"}


def markdown(samples: Samples, facts: dict[str, str]) -> str:
    parts = [
        _contest(samples),
        _small(samples),
        _backlog(samples),
        _snapshot(samples),
        _relay(samples),
        _idle(samples),
        _command(samples),
        _promises(ratios(samples)),
        _facts(facts),
    ]
    return "\n\n".join(part for part in parts if part)


def save(text: str) -> None:
    """Put the result where the README keeps the last one."""
    readme = README.read_text(encoding="utf-8")
    changed, count = BETWEEN.subn(lambda _: f"\n{text}\n\n", readme)
    assert count == 1, f"{README.name} has no place for the result"
    README.write_text(changed, encoding="utf-8")


def _contest(samples: Samples) -> str:
    rows = [
        [
            contestant.store,
            f"{contestant.label} ({_slashed(contestant.batches)})",
            _rates(samples, contestant, "enqueue"),
            _rates(samples, contestant, "drain"),
            _millis(samples, contestant.name, "begun p50 ms"),
            _millis(samples, contestant.name, "seen p50 ms"),
            _millis(samples, contestant.name, "seen p95 ms"),
            _number(samples.median(contestant.name, "memory MiB")),
        ]
        for contestant in CONTESTANTS
        if samples.knows(contestant.name)
    ]
    return _table(
        [
            "store",
            "who (taken out at once)",
            "enqueue/s",
            "drain/s",
            "one item: begun p50 ms",
            "result seen p50 ms",
            "p95 ms",
            "peak MiB",
        ],
        rows,
    )


def _small(samples: Samples) -> str:
    names = {
        "small-sqlite": "SQLite: `store.write` of one row",
        "small-postgres": "PostgreSQL: `store.write` of one row",
        "apart-postgres": "PostgreSQL: enqueue of one item, each call its own transaction",
        "coalesced-postgres": "PostgreSQL: enqueue of one item, through the coalescer",
    }
    rows = [
        [label, _number(samples.median(name, "per second"))]
        for name, label in names.items()
        if samples.of(name, "per second")
    ]
    return _table(["50 concurrent callers, one small write each", "per second"], rows)


def _backlog(samples: Samples) -> str:
    rows = []
    for store in (POSTGRES, SQLITE):
        for kind in (backlog.READY, backlog.DELAYED, backlog.FINISHED):
            name = f"backlog-{store}-{kind}"
            count = samples.median(name, "rows")
            if count is not None:
                rows.append(
                    [
                        store,
                        f"{count:,.0f} {kind}",
                        _percent(samples.median(name, "claim slow-down")),
                        _percent(samples.median(name, "cycle slow-down")),
                        _number(samples.median(name, "items/s")),
                    ]
                )
    return _table(
        ["store", "backlog, against 1,000 ready", "claim", "claim + complete", "items/s"], rows
    )


def _snapshot(samples: Samples) -> str:
    labels = {"snapshot-free": "nobody", "snapshot-held": "one idle session"}
    rows = [
        [
            label,
            _number(samples.median(name, "items/s")),
            _number(samples.median(name, "items/s, last quarter")),
            _number((samples.median(name, "claim seconds, last quarter") or 0) * 1e3),
        ]
        for name, label in labels.items()
        if samples.of(name, "items/s")
    ]
    return _table(
        [
            "PostgreSQL: who holds a snapshot",
            "claimed and completed/s",
            "in the last quarter",
            "a claim of 100 there, ms",
        ],
        rows,
    )


def _relay(samples: Samples) -> str:
    labels = {"relay": "every two minutes (its default)", "relay-sync": "each message (our recipe)"}
    rows = [
        [
            label,
            _number(samples.median(name, "messages/s")),
            _number(samples.median(name, "bare/s")),
        ]
        for name, label in labels.items()
        if samples.of(name, "messages/s")
    ]
    return _table(
        ["PostgreSQL to NATS: the broker syncs", "relay, messages/s", "bare client, messages/s"],
        rows,
    )


def _idle(samples: Samples) -> str:
    rows = [
        [
            store,
            f"{samples.median(f'idle-{store}', 'queries/s') or 0:.2f}",
            f"{(samples.median(f'idle-{store}', 'cpu share') or 0) * 100:.2f}",
        ]
        for store in (POSTGRES, SQLITE)
        if samples.of(f"idle-{store}", "queries/s")
    ]
    return _table(
        ["idle: sweeper, janitor, auditor, one consumer", "queries/s", "CPU % of a core"], rows
    )


def _command(samples: Samples) -> str:
    labels = {"route-bare": "bare FastAPI", "route-podium": "Podium, with token and limits"}
    rows = [
        [label, _number(samples.median(name, "requests/s"))]
        for name, label in labels.items()
        if samples.of(name, "requests/s")
    ]
    return _table(["one trivial JSON route, 32 connections", "requests/s"], rows)


def _promises(found: list[Ratio]) -> str:
    rows = [[r.name, r.target, r.measured, WORDS[r.holds]] for r in found if r.holds is not None]
    return _table(["promise", "target", "measured", "holds"], rows)


def _facts(facts: dict[str, str]) -> str:
    settings = ", ".join(f"{name} = {value}" for name, value in SETTINGS.items())
    lines = [f"- {name}: {value}" for name, value in facts.items()]
    lines.append(f"- PostgreSQL settings: {settings}")
    lines.append("- SQLite settings, all contestants: journal_mode = wal, synchronous = full")
    return "\n".join(lines)


def _rates(samples: Samples, contestant: Contestant, what: str) -> str:
    values = [samples.median(contestant.name, f"{what} {batch}") for batch in contestant.batches]
    if what == "enqueue" and contestant.name != "raw-sqlite":
        # Put in the same way whatever the batches taken out.
        known = [value for value in values if value is not None]
        values = [sum(known) / len(known)] if known else [None]
    return " / ".join(_number(value) for value in values)


def _slashed(batches: tuple[int, ...]) -> str:
    return " / ".join(f"{batch:,}" for batch in batches)


def _millis(samples: Samples, name: str, measure: str) -> str:
    value = samples.median(name, measure)
    return "–" if value is None else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    if value >= 1_000:
        # Two or three digits carry what a noisy machine can tell.
        digits = -2 if value >= 10_000 else -1
        return f"{round(value, digits):,.0f}"
    return f"{value:,.0f}" if value >= 20 else f"{value:.2f}"


def _percent(slower: float | None) -> str:
    return "–" if slower is None else f"{slower * 100:+.0f} %"


def _table(head: list[str], rows: list[list[str]]) -> str:
    if not rows:
        return ""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
