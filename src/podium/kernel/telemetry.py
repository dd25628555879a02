"""Every metric there is, and the shape of a log line.

A metric is declared here and nowhere else, so that the reference page and the dashboard cannot
know fewer than the program. A log line is one JSON object: a fixed text that can be searched for,
and the facts as fields. What is secret is struck out of it last, when text, facts and trace are one.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import TextIO

import orjson
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from podium.kernel.redactor import REDACTOR, Redactor

SECONDS_BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class Metrics:
    """One registry per process. Tests make their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.store_commits = Counter(
            "podium_store_commits", "Transactions committed to disk", registry=self.registry
        )
        self.store_bodies = Counter(
            "podium_store_bodies", "Transaction bodies that were committed", registry=self.registry
        )
        self.store_reruns = Counter(
            "podium_store_reruns",
            "Bodies run again, by cause",
            ["cause"],
            registry=self.registry,
        )
        self.store_commit_seconds = Histogram(
            "podium_store_commit_seconds",
            "Time of one commit, the disk included",
            buckets=SECONDS_BUCKETS,
            registry=self.registry,
        )
        self.store_unavailable = Counter(
            "podium_store_unavailable",
            "Writes refused because the store could not take them, by cause",
            ["cause"],
            registry=self.registry,
        )
        self.service_ticks = Counter(
            "podium_service_ticks", "Rounds of a service", ["service"], registry=self.registry
        )
        self.service_failures = Counter(
            "podium_service_failures",
            "Rounds of a service that raised",
            ["service"],
            registry=self.registry,
        )
        self.swept = Counter(
            "podium_swept", "Rows settled because they were due", ["due"], registry=self.registry
        )
        self.pruned = Counter(
            "podium_pruned", "Rows removed by retention", ["what"], registry=self.registry
        )
        self.consumed = Counter(
            "podium_consumed",
            "Work items handled in this process, by queue and outcome",
            ["queue", "outcome"],
            registry=self.registry,
        )
        self.http_requests = Counter(
            "podium_http_requests",
            "Requests answered, by method, route and status",
            ["method", "route", "status"],
            registry=self.registry,
        )
        self.http_seconds = Histogram(
            "podium_http_seconds",
            "Time to answer a request, by route; long polls include their wait",
            ["route"],
            buckets=SECONDS_BUCKETS,
            registry=self.registry,
        )
        self.http_refused = Counter(
            "podium_http_refused",
            "Requests and connections refused before a route was found, by cause",
            ["cause"],
            registry=self.registry,
        )
        self.http_streams = Gauge(
            "podium_http_streams", "Event streams that are open", registry=self.registry
        )
        self.audit_violations = Gauge(
            "podium_audit_violations",
            "Rows that break a promise, by check. Must read 0",
            ["check"],
            registry=self.registry,
        )


class Log:
    """A text that never varies, so that it can be searched for, and the facts beside it.

    log.warning("item set apart", id=id, error=str(error))
    """

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def debug(self, text: str, **facts: object) -> None:
        self._log(logging.DEBUG, text, facts)

    def info(self, text: str, **facts: object) -> None:
        self._log(logging.INFO, text, facts)

    def warning(self, text: str, **facts: object) -> None:
        self._log(logging.WARNING, text, facts)

    def error(self, text: str, *, trace: BaseException | None = None, **facts: object) -> None:
        self._log(logging.ERROR, text, facts, trace)

    def _log(
        self, level: int, text: str, facts: dict[str, object], trace: BaseException | None = None
    ) -> None:
        # In a field of its own: the standard library refuses facts called "message" or "name".
        self._logger.log(level, text, exc_info=trace, extra={"facts": facts}, stacklevel=3)


def logger(name: str) -> Log:
    return Log(name)


def log_to(
    stream: TextIO = sys.stderr, level: int = logging.INFO, *, redactor: Redactor = REDACTOR
) -> None:
    """Send the log of this process to `stream`, a JSON object per line, without secrets."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines(redactor))
    root = logging.getLogger("podium")
    root.handlers[:] = [handler]
    root.setLevel(level)
    root.propagate = False


class JsonLines(logging.Formatter):
    def __init__(self, redactor: Redactor = REDACTOR) -> None:
        super().__init__()
        self._redactor = redactor

    def format(self, record: logging.LogRecord) -> str:
        facts: dict[str, object] = getattr(record, "facts", {})
        line = {
            **facts,
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "text": record.getMessage(),
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return self._redactor.mask_json(_json(line))


def _json(line: dict[str, object]) -> str:
    try:
        return orjson.dumps(line, default=repr, option=orjson.OPT_NON_STR_KEYS).decode()
    except TypeError:
        # Half a character, or a number that is too large: a line that says it in another way.
        return json.dumps(line, default=repr, skipkeys=True)
