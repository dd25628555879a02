"""A worker as a process: over the channel of its parent, or over HTTP to a server elsewhere."""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import random
import signal
import socket
import sys
from collections.abc import Mapping, Sequence

import uvloop

from podium.kernel.clock import SystemClock
from podium.kernel.ids import Ulids
from podium.kernel.telemetry import log_to, logger
from podium.runners.tether import hold_on_to_parent
from podium.runners.worker import CONCURRENCY, Worker
from podium.sdk.channel import ChannelDesk, inherited_socket
from podium.sdk.client import Client
from podium.sdk.desk import WorkDesk
from podium.sdk.errors import ApiError, ChannelClosed, NotConfigured
from podium.sdk.handlers import HANDLERS, Registered

SHIPPED = ("podium.handlers",)
STOP_SECONDS = 30.0
LAST_WORDS_SECONDS = 5.0
"""Of the time to stop, what is kept for reporting and giving back."""
OK, FAILED, MISUSED, INTERRUPTED = 0, 1, 2, 130

log = logger(__name__)


def run_worker(
    queues: Sequence[str] = (),
    handlers_modules: Sequence[str] = (),
    url: str | None = None,
    token: str | None = None,
    concurrency: int = CONCURRENCY,
    *,
    stop_seconds: float | None = None,
) -> int:
    """Work until SIGTERM or SIGINT; the exit code. Without modules it runs the handlers we ship."""
    channel = inherited_socket()
    if channel is not None:
        # First of all: until this is done, we could outlive our parent.
        hold_on_to_parent(channel.fileno())
    level = os.environ.get("PODIUM_LOG_LEVEL", "info").upper()
    log_to(sys.stderr, logging.getLevelNamesMapping().get(level, logging.INFO))
    try:
        handlers = load(handlers_modules or SHIPPED)
        return uvloop.run(
            _run(channel, handlers, list(queues), url, token, concurrency, _grace(stop_seconds))
        )
    except (BadHandlers, NotConfigured) as error:
        print(f"podium worker: {error}", file=sys.stderr)
        return MISUSED
    except ApiError as error:
        print(f"podium worker: {error}", file=sys.stderr)
        return FAILED


def _grace(stop_seconds: float | None) -> float:
    """How long running handlers may go on, if the whole process has `stop_seconds` to end."""
    text = os.environ.get("PODIUM_STOP_SECONDS") or str(STOP_SECONDS)
    try:
        total = stop_seconds or float(text)
    except ValueError:
        raise NotConfigured(f"PODIUM_STOP_SECONDS is {text[:40]!r}; give a number") from None
    return max(total - LAST_WORDS_SECONDS, total / 2)


class BadHandlers(Exception):
    """A module of handlers cannot be used, and why."""


def load(modules: Sequence[str]) -> Mapping[str, Registered]:
    """Import the modules, and with them register their handlers."""
    # A console script does not look where it was called; `python -m` does, and so do people.
    if "" not in sys.path and os.getcwd() not in sys.path:  # noqa: PTH109
        sys.path.insert(0, "")
    for module in modules:
        try:
            importlib.import_module(module)
        except Exception as error:
            raise BadHandlers(
                f"the handlers in {module} cannot be loaded: {type(error).__name__}: {error}"
            ) from error
    if not HANDLERS:
        raise BadHandlers(f"{', '.join(modules)} registers no handler; use @register_handler")
    return HANDLERS


async def _run(
    channel: socket.socket | None,
    handlers: Mapping[str, Registered],
    queues: list[str],
    url: str | None,
    token: str | None,
    concurrency: int,
    grace_seconds: float,
) -> int:
    if channel is not None:
        desk = await ChannelDesk.open(channel)
        try:
            worker = _worker(desk, handlers, queues, concurrency, grace_seconds)
            await desk.hello()
            return await _work(worker)
        except ChannelClosed:
            return FAILED
        finally:
            await desk.close()
    async with Client(url, token) as client:
        return await _work(_worker(client, handlers, queues, concurrency, grace_seconds))


def _worker(
    desk: WorkDesk,
    handlers: Mapping[str, Registered],
    queues: list[str],
    concurrency: int,
    grace_seconds: float,
) -> Worker:
    rng = random.SystemRandom()
    worker = Worker(
        desk,
        handlers,
        # New at each start: who comes back after a crash is somebody else.
        holder=f"{socket.gethostname()[:100]}-{Ulids(SystemClock(), rng).new()}",
        queues=queues,
        concurrency=concurrency,
        grace_seconds=grace_seconds,
        rng=rng,
    )
    loop = asyncio.get_running_loop()
    # SIGTERM may come twice, from our parent and from whoever stops the whole service: it means the same.
    loop.add_signal_handler(signal.SIGTERM, worker.ask_to_stop)
    loop.add_signal_handler(signal.SIGINT, _on_interrupt, worker)
    return worker


def _on_interrupt(worker: Worker) -> None:
    if worker.is_stopping:
        # Ctrl-C again: whoever asks twice does not want to wait.
        os._exit(INTERRUPTED)
    worker.ask_to_stop()


async def _work(worker: Worker) -> int:
    log.info("a worker is up", queues=worker.queues, pid=os.getpid())
    await worker.run()
    log.info("a worker has stopped", counts=dict(worker.counts))
    if worker.counts["left_behind"]:
        # A handler that refuses to be cancelled would keep the loop from ever closing.
        os._exit(OK)
    return OK
