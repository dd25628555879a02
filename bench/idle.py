"""What a process costs that has nothing to do: sweeper, janitor, auditor and a consumer."""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import apsw
import psycopg
import uvloop

from bench.places import is_postgres
from bench.podium_queue import HOLDER, QUEUE, Opened, opened
from podium.engine import Auditor, Janitor, Part, Supervisor, Sweeper, Ticking, WorkConsumer
from podium.engine.loop import Service
from podium.kernel.telemetry import Metrics
from podium.kernel.wake import DueRegistry
from podium.kernel.work import Claimed, Done, WorkSweep

SETTLE_SECONDS = 2.0
BRACKETS = re.compile(r"\s*(begin|commit|rollback|savepoint|release)\b[^;]*$", re.IGNORECASE)
"""What only opens or closes a transaction is not counted as a query."""
LOGGED = re.compile(r"LOG:  (?:statement|execute [^:]*): (.*)")


class Idle(NamedTuple):
    queries_per_second: float
    cpu_share: float


def idle(at: str, seconds: float, server_log: str) -> Idle:
    """`server_log` is where PostgreSQL writes each statement; SQLite is asked to tell by itself."""
    told: list[str] = []
    if is_postgres(at):
        _log_statements(at)
    else:
        apsw.connection_hooks.append(lambda db: setattr(db, "exec_trace", _listener(told)))
    return uvloop.run(_idle(at, seconds, Path(server_log), told))


async def _idle(at: str, seconds: float, server_log: Path, told: list[str]) -> Idle:
    async with opened(at) as podium, Supervisor(_parts(podium)):
        await asyncio.sleep(SETTLE_SECONDS)
        told.clear()
        log_began = server_log.stat().st_size
        began, cpu_began = time.perf_counter(), time.process_time()
        await asyncio.sleep(seconds)
        cpu = time.process_time() - cpu_began
        passed = time.perf_counter() - began
        if is_postgres(at):
            with server_log.open(errors="replace") as log:
                log.seek(log_began)
                told += LOGGED.findall(log.read())
        queries = [text for text in told if not BRACKETS.match(text)]
        return Idle(len(queries) / passed, cpu / passed)


def _parts(podium: Opened) -> list[Part]:
    store, work = podium
    metrics, rng = Metrics(), random.Random(4)
    dues = DueRegistry()
    dues.register(WorkSweep(work, rng))
    services: list[Service] = [
        Sweeper(store, dues, metrics),
        Janitor(store, metrics),
        Auditor(store, metrics),
        WorkConsumer(store, work, queue=QUEUE, holder=HOLDER, handle=_handle, metrics=metrics),
    ]
    return [Ticking(service, bell=store.bell, rng=rng, metrics=metrics) for service in services]


async def _handle(claimed: list[Claimed]) -> Sequence[Done]:
    return [Done(item) for item in claimed]


def _log_statements(at: str) -> None:
    with psycopg.connect(at, autocommit=True) as connection:
        connection.execute(
            f"alter database {connection.info.dbname} set log_statement = 'all'".encode()
        )


def _listener(told: list[str]):  # type: ignore[no-untyped-def]
    def listen(cursor: object, text: str, bindings: object) -> bool:
        told.append(text)
        return True

    return listen
