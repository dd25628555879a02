"""An engine as a user would run it: python -m tests.kill.program STORE --slot a …

It opens the store (a file's path or a PostgreSQL URL), migrates, starts everything under one
supervisor, and works until SIGTERM. What it does it says on standard output, a line each (see
`history`). Lines on standard input are commands, JSON objects: {"do": "quiet"}. When standard
input ends, whoever started it is gone, and it goes too.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import uvloop

from podium.backends.postgres import PostgresStore
from podium.backends.sqlite import SQLiteStore
from podium.engine import (
    Auditor,
    BusConsumer,
    Janitor,
    Part,
    Service,
    Supervisor,
    Sweeper,
    Ticking,
    WorkConsumer,
)
from podium.kernel.bus import SqlBus
from podium.kernel.clock import SystemClock
from podium.kernel.errors import Unavailable
from podium.kernel.ids import Ulids
from podium.kernel.migrate import KERNEL, SQL, Room, migrate
from podium.kernel.queries import Queries
from podium.kernel.telemetry import Metrics, log_to
from podium.kernel.wake import DueRegistry
from podium.kernel.work import Work, WorkSweep
from tests.kill.history import Recorder
from tests.kill.workload import SINK, SLOW, TOLD, WORK, Intake, Spec, Workload, unfinished

KILL = Room("kill", Path(__file__).parent / "migrations")
EXIT_UNAVAILABLE = 2
DRAIN_POLL_SECONDS = 0.05


def main() -> int:
    options = arguments().parse_args()
    log_to(sys.stderr)
    return uvloop.run(Program(options).run())


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.kill.program")
    parser.add_argument("store")
    parser.add_argument("--slot", required=True)
    parser.add_argument("--effects", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the number of the first new key")
    parser.add_argument("--again", type=orjson.loads, default=[], help="keys to submit again")
    parser.add_argument("--lease", type=float, default=1.0)
    parser.add_argument("--grace", type=float, default=5.0)
    parser.add_argument("--submitters", type=int, default=3)
    parser.add_argument("--tickers", type=int, default=4)
    parser.add_argument("--patience", type=float, default=10.0)
    parser.add_argument(
        "--synchronous",
        choices=("full", "normal", "off"),
        default="full",
        help="anything but full must lose in a power cut: it shows that the rig can see it",
    )
    return parser


class Program:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.recorder = Recorder(sys.stdout.fileno())
        self.metrics = Metrics()
        self.clock = SystemClock()
        self.rng = random.Random(f"{options.seed} {options.slot} {options.first}")
        # New at every boot: nobody may take a dead process's leases for its own.
        self.holder = f"{options.slot}.{os.getpid()}.{options.first}"
        self.ending = asyncio.Event()

    async def run(self) -> int:
        store = self.make_store()
        try:
            await store.open()
            await migrate(store, [KERNEL, KILL])
        except Unavailable as error:
            self.recorder.note("refused", code=error.code, message=str(error))
            return EXIT_UNAVAILABLE
        self.weaken(store)
        self.watch_signals()
        try:
            async with self.assemble(store) as self.supervisor:
                self.recorder.note("ready", pid=os.getpid(), holder=self.holder)
                await self.ending.wait()
                self.recorder.note("stopping")
        finally:
            await store.close()
        self.recorder.note("stopped")
        return 0

    def make_store(self) -> SQLiteStore | PostgresStore:
        address: str = self.options.store
        folders = [SQL, Path(__file__).parent / "sql"]
        if address.startswith("postgresql:"):
            return PostgresStore(
                address,
                clock=self.clock,
                queries=Queries("postgres", folders),
                rng=self.rng,
                metrics=self.metrics,
                patience_seconds=self.options.patience,
            )
        return SQLiteStore(
            address, clock=self.clock, queries=Queries("sqlite", folders), metrics=self.metrics
        )

    def weaken(self, store: SQLiteStore | PostgresStore) -> None:
        """Only for the power cuts that must lose something. PostgreSQL has a setting of the server."""
        if isinstance(store, SQLiteStore) and self.options.synchronous != "full":
            assert store._writer is not None
            store._writer.execute(f"pragma synchronous = {self.options.synchronous}")

    def watch_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.ending.set)

    def assemble(self, store: SQLiteStore | PostgresStore) -> Supervisor:
        options = self.options
        ids = Ulids(self.clock, self.rng)
        work = Work(clock=self.clock, ids=ids, rng=self.rng)
        store.bell.watch(work.marks.on_ring)
        bus = SqlBus(work, ids, lock_seconds=options.lease, deliveries_max=1_000)
        self.store = store
        self.bus = bus
        self.auditor = Auditor(store, self.metrics)
        self.workload = Workload(
            store,
            work,
            bus,
            recorder=self.recorder,
            effects=options.effects,
            holder=self.holder,
            lease_seconds=options.lease,
        )
        self.intake = Intake(
            self.workload,
            slot=options.slot,
            first=options.first,
            again=options.again,
            lease_seconds=options.lease,
            submitters=options.submitters,
            tickers=options.tickers,
        )
        dues = DueRegistry()
        dues.register(WorkSweep(work, self.rng))
        services: list[Service] = [
            Sweeper(store, dues, self.metrics),
            Janitor(store, self.metrics),
            self.auditor,
            *(self.consumer(store, work, queue) for queue in (WORK, WORK, SLOW, SLOW)),
            BusConsumer(
                store,
                bus,
                source=f"{TOLD}/{SINK}",
                holder=self.holder,
                handle=self.workload.hear,
                metrics=self.metrics,
            ),
        ]
        parts: list[Part] = [
            Subscribing(self),
            *(
                Ticking(service, bell=store.bell, rng=self.rng, metrics=self.metrics)
                for service in services
            ),
            self.intake,
            Obeying(self),
        ]
        return Supervisor(parts, grace_seconds=options.grace)

    def consumer(self, store: SQLiteStore | PostgresStore, work: Work, queue: str) -> WorkConsumer:
        return WorkConsumer(
            store,
            work,
            queue=queue,
            holder=self.holder,
            handle=self.workload.handle,
            metrics=self.metrics,
            items_max=10,
        )

    async def obey(self, command: dict[str, Any]) -> None:
        match command.pop("do"):
            case "submit":
                await self.workload.submit(Spec(**command))
            case "quiet":
                await self.intake.stop(self.options.grace)
                self.recorder.note("quiet")
            case "drain":
                await self.drain()
            case "clock":
                wall = datetime.now(UTC).timestamp() - time.monotonic()
                ours = self.clock.now().timestamp() - self.clock.monotonic()
                self.recorder.note("clock", wall=wall, ours=ours)
            case other:
                raise ValueError(f"nobody taught me to {other}")

    async def drain(self) -> None:
        await self.intake.stop(self.options.grace)
        # Who finishes the last item may be another process: nothing here would be told.
        while await self.store.read(unfinished):  # noqa: ASYNC110
            await asyncio.sleep(DRAIN_POLL_SECONDS)
        self.recorder.note("drained", audit=await self.auditor.audit())


class Subscribing:
    """Topics need their subscription before the first message."""

    name = "subscription"

    def __init__(self, program: Program) -> None:
        self.program = program

    async def start(self) -> None:
        program = self.program
        await program.store.write(program.bus.subscribe, TOLD, SINK)

    def ask_to_stop(self) -> None:
        pass

    async def stop(self, grace_seconds: float) -> None:
        pass


class Obeying:
    """Reads commands from standard input."""

    name = "commands"

    def __init__(self, program: Program) -> None:
        self.program = program
        self.task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        reader = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        self.task = asyncio.create_task(self._obey(reader))

    def ask_to_stop(self) -> None:
        pass

    async def stop(self, grace_seconds: float) -> None:
        if self.task:
            self.task.cancel()

    async def _obey(self, reader: asyncio.StreamReader) -> None:
        while line := await reader.readline():
            try:
                await self.program.obey(orjson.loads(line))
            except Exception as error:
                self.program.recorder.note("failed", message=repr(error)[:1_000])
        self.program.ending.set()


if __name__ == "__main__":
    sys.exit(main())
