"""What Podium promises about its speed, as ratios within one run, and whether it holds."""

from __future__ import annotations

from typing import NamedTuple

from bench import backlog
from bench.places import POSTGRES, SQLITE
from bench.samples import Samples


class Ratio(NamedTuple):
    name: str
    target: str
    measured: str
    holds: bool | None
    """None when it was not measured."""


def ratios(samples: Samples) -> list[Ratio]:
    return [
        *_postgres(samples),
        *_sqlite(samples),
        *_backlog(samples),
        _snapshot(samples),
        _relay(samples),
        *_idle(samples),
        *_command(samples),
        _least("simulator", "seeds/s per core", samples.median("simulator", "seeds/s"), 8),
    ]


def _postgres(samples: Samples) -> list[Ratio]:
    drain = samples.median("consumer-postgres", "drain 100")
    enqueue = samples.median("podium-postgres", "enqueue 100")
    return [
        _over("PostgreSQL: drain / pgqueuer", drain, samples.median("pgqueuer", "drain 100"), 1.0),
        _over(
            "PostgreSQL: enqueue / raw unnest",
            enqueue,
            samples.median("raw-postgres", "enqueue 100"),
            0.5,
        ),
        _most(
            "PostgreSQL: one item, p50",
            "ms",
            samples.median("consumer-postgres", "seen p50 ms"),
            3.0,
        ),
    ]


def _sqlite(samples: Samples) -> list[Ratio]:
    drain = samples.median("consumer-sqlite", "drain 100")
    return [
        _over("SQLite: drain / huey", drain, samples.median("huey", "drain 1"), 10.0),
        _over(
            "SQLite: drain / raw batches of 100",
            drain,
            samples.median("raw-sqlite", "drain 100"),
            0.25,
        ),
        _most("SQLite: one item, p50", "ms", samples.median("consumer-sqlite", "seen p50 ms"), 2.0),
        _least(
            "SQLite: small transactions, 50 callers",
            "/s",
            samples.median("small-sqlite", "per second"),
            30_000,
        ),
    ]


def _backlog(samples: Samples) -> list[Ratio]:
    found = []
    for store in (POSTGRES, SQLITE):
        for kind in (backlog.READY, backlog.DELAYED, backlog.FINISHED):
            slower = samples.median(f"backlog-{store}-{kind}", "claim slow-down")
            rows = samples.median(f"backlog-{store}-{kind}", "rows") or 0
            name = f"{store}: a claim with {rows:,.0f} {kind}"
            found.append(_slower(name, slower))
    return found


def _snapshot(samples: Samples) -> Ratio:
    free = samples.median("snapshot-free", "claim seconds, last quarter")
    held = samples.median("snapshot-held", "claim seconds, last quarter")
    slower = held / free - 1 if free and held else None
    return _slower("PostgreSQL: a claim after a minute's held snapshot", slower)


def _relay(samples: Samples) -> Ratio:
    """Where the broker does not sync each message; what that costs stands in the table."""
    rate = samples.median("relay", "messages/s")
    return _least("PostgreSQL to NATS: relay", "messages/s", rate, 5_000)


def _idle(samples: Samples) -> list[Ratio]:
    return [
        _most(f"{store}: idle", "queries/s", samples.median(f"idle-{store}", "queries/s"), 1.0)
        for store in (POSTGRES, SQLITE)
    ]


def _command(samples: Samples) -> list[Ratio]:
    idle = samples.median("up", "idle cpu share")
    return [
        _over(
            "an authorised JSON route / bare FastAPI",
            samples.median("route-podium", "requests/s"),
            samples.median("route-bare", "requests/s"),
            0.6,
        ),
        _most("podium up: ready, warm", "s", samples.median("up", "ready seconds"), 1.5),
        _most("podium up: parent's memory", "MiB", samples.median("up", "memory MiB"), 120.0),
        _most("podium up: idle CPU", "% of a core", None if idle is None else idle * 100, 1.0),
        _most("podium --help", "s", samples.median("up", "help seconds"), 0.4),
    ]


def _over(name: str, value: float | None, base: float | None, least: float) -> Ratio:
    if value is None or not base:
        return Ratio(name, f"≥ {least:g}×", "–", None)
    return Ratio(name, f"≥ {least:g}×", f"{value / base:.2f}×", value / base >= least)


def _least(name: str, unit: str, value: float | None, least: float) -> Ratio:
    target = f"≥ {least:,g} {unit}"
    if value is None:
        return Ratio(name, target, "–", None)
    return Ratio(name, target, f"{_short(value)} {unit}", value >= least)


def _most(name: str, unit: str, value: float | None, most: float) -> Ratio:
    target = f"≤ {most:g} {unit}"
    if value is None:
        return Ratio(name, target, "–", None)
    return Ratio(name, target, f"{value:.2f} {unit}", value <= most)


def _slower(name: str, value: float | None) -> Ratio:
    if value is None:
        return Ratio(name, "≤ 20 % slower", "–", None)
    words = f"{value * 100:.0f} % slower" if value >= 0 else f"{-value * 100:.0f} % faster"
    return Ratio(name, "≤ 20 % slower", words, value <= 0.20)


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"
