"""The processes of the house: `up`, `server`, `orchestrator`, and what `migrate` does.

Each is a list of parts in the order in which they start. `up` has them all in one process; the
others share a database. A process ends on SIGTERM or SIGINT: it takes nothing new, finishes what it
has begun within `stop_seconds`, and exits 0. A second signal ends it at once.
"""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import signal
import socket
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import uvloop

from podium import __version__
from podium.app.channel import work_calls
from podium.app.children import Child, HeadStart, podium
from podium.app.desk import HouseDesk
from podium.app.local import TOKEN_FILE, make_data_dir, make_private_file
from podium.app.parts import BlobsPart, DoorplatePart, HttpPart, ReadinessPart, StorePart, listen
from podium.app.settings import Profile, Settings
from podium.app.wiring import ROOMS, Services, database_file, engine, house, http, wire
from podium.backends.sqlite.lock import FileLock
from podium.contracts.scopes import Scope
from podium.engine import Part, Supervisor
from podium.kernel.errors import Unavailable
from podium.kernel.migrate import Migration, migrate
from podium.kernel.telemetry import log_to, logger

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class Started:
    """What a person wants to know when it is up."""

    url: str
    login_url: str | None
    token_file: Path | None
    settings: Settings


Announce = Callable[[Started], None]


def up(settings: Settings, announce: Announce) -> None:
    """Everything in one process."""
    _run(_serve(settings, announce, with_engine=True))


def server(settings: Settings, announce: Announce) -> None:
    """HTTP alone; orchestrators beside it turn the crank."""
    _refuse_embedded(settings, "server")
    _run(_serve(settings, announce, with_engine=False))


def orchestrator(settings: Settings, announce: Announce) -> None:
    """The crank alone."""
    _refuse_embedded(settings, "orchestrator")
    _run(_crank(settings, announce))


def bring_up_to_date(settings: Settings) -> list[Migration]:
    return uvloop.run(_migrate(settings))


async def _serve(settings: Settings, announce: Announce, *, with_engine: bool) -> None:
    _raise_open_files_limit()
    _make_ground(settings)
    listener = _listen(settings)
    settings = _with_port(settings, listener.getsockname()[1])
    services = wire(settings)
    children = _children(services) if with_engine else []
    parts: list[Part] = [
        HeadStart(children),
        StorePart(services, migrates=settings.profile is Profile.EMBEDDED or with_engine),
        BlobsPart(services),
        *(engine(services) if with_engine else []),
        HttpPart(lambda: http(services), settings, listener, services.metrics),
        *children,
        DoorplatePart(services),
        ReadinessPart(services.readiness),
    ]
    tell = partial(_announce, services, announce, with_link=with_engine)
    await _until_told(parts, settings, tell)


def _make_ground(settings: Settings) -> None:
    make_data_dir(settings.data_path)
    if settings.profile is Profile.EMBEDDED:
        make_private_file(database_file(settings))


def _raise_open_files_limit() -> None:
    """A connection is an open file, and the usual limit is a tenth of the connections that we take."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _listen(settings: Settings) -> socket.socket:
    """If the port is taken by ourselves, that is said: who runs on this folder, and not just on this port."""
    try:
        return listen(settings)
    except Unavailable:
        if settings.profile is Profile.EMBEDDED:
            lock = FileLock(database_file(settings))
            lock.take()
            lock.release()
        raise


def _children(services: Services) -> list[Child]:
    """Code that is not ours runs in processes of its own."""
    settings = services.settings
    if settings.no_worker:
        return []
    chosen = [word for module in settings.handlers for word in ("--handlers", module)]
    passed_on = {
        "PODIUM_LOG_LEVEL": settings.log.level,
        "PODIUM_STOP_SECONDS": str(settings.stop_seconds),
    }
    desk = HouseDesk(house(services))
    return [Child("worker", podium("worker", *chosen), work_calls(desk), environment=passed_on)]


async def _crank(settings: Settings, announce: Announce) -> None:
    services = wire(settings)
    parts: list[Part] = [
        StorePart(services, migrates=False),
        BlobsPart(services),
        *engine(services),
        ReadinessPart(services.readiness),
    ]

    async def tell() -> None:
        announce(Started("", None, None, settings))

    await _until_told(parts, settings, tell)


async def _migrate(settings: Settings) -> list[Migration]:
    if settings.profile is Profile.EMBEDDED:
        _make_ground(settings)
    services = wire(settings)
    await services.store.open()
    try:
        return await migrate(services.store, ROOMS)
    finally:
        await services.store.close()


async def _announce(services: Services, announce: Announce, *, with_link: bool) -> None:
    """`up` is started by a person, who is given a link. A server's output goes to some log: no keys there."""
    settings, tokens = services.settings, services.access.tokens
    login_url = None
    if with_link:
        invited = await services.store.write(tokens.invite, scopes=[Scope.ADMIN], actor="podium")
        login_url = f"{settings.url}/login?code={invited.text}"
    announce(Started(settings.url, login_url, settings.data_path / TOKEN_FILE, settings))


async def _until_told(
    parts: list[Part], settings: Settings, tell: Callable[[], Awaitable[None]]
) -> None:
    told = asyncio.Event()
    _on_signals(told)
    supervisor = Supervisor(parts, grace_seconds=settings.stop_seconds)
    if not await _start(supervisor, told):
        log.info("stopped before everything had started")
        return
    try:
        await tell()
        log.info("ready", version=__version__, pid=os.getpid())
        await told.wait()
        log.info("stopping")
    finally:
        await supervisor.stop()
    log.info("stopped")


async def _start(supervisor: Supervisor, told: asyncio.Event) -> bool:
    """Whether it came to that: a start can take long (a migration, a database that is away), and
    whoever is told to stop meanwhile does not wait for the end of it."""
    starting = asyncio.create_task(supervisor.start())
    stopping = asyncio.create_task(told.wait())
    await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not starting.done():
        starting.cancel()
        await asyncio.wait({starting})
    if starting.cancelled():
        return False
    starting.result()
    return True


def _on_signals(told: asyncio.Event) -> None:
    def interrupted() -> None:
        if told.is_set():
            # Ctrl-C twice: whoever asks again does not want to wait.
            os._exit(130)
        told.set()

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, interrupted)
    # A service manager may say it more than once, and means the same.
    loop.add_signal_handler(signal.SIGTERM, told.set)


def _run(main: Awaitable[None]) -> None:
    async def run() -> None:
        await main

    uvloop.run(run())


def _with_port(settings: Settings, port: int) -> Settings:
    return settings if settings.port else settings.model_copy(update={"port": port})


def _refuse_embedded(settings: Settings, what: str) -> None:
    if settings.profile is Profile.EMBEDDED:
        raise Unavailable(
            f"podium {what} shares a database with others: give --database-url postgresql://…, "
            "or run podium up, which needs none"
        )


def log_as(settings: Settings) -> None:
    """This process's log, and that of the libraries it stands on, as JSON lines on stderr."""
    log_to(sys.stderr, getattr(logging, settings.log.level.upper()))
    ours = logging.getLogger("podium").handlers
    for name in ("uvicorn", "asyncio"):
        logging.getLogger(name).handlers[:] = ours
        logging.getLogger(name).setLevel(logging.WARNING)
        logging.getLogger(name).propagate = False
