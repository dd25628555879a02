"""The parts of a process that are not services: its store, and its door."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

from podium.app.local import URL_FILE, keep_admin_token, write_private
from podium.app.settings import Settings
from podium.app.wiring import ROOMS, Services
from podium.http.house import Readiness
from podium.http.protocol import guarded
from podium.http.wire import EdgeLimits
from podium.kernel.errors import Unavailable
from podium.kernel.migrate import check, migrate
from podium.kernel.telemetry import Metrics, logger

BACKLOG = 2_048

log = logger(__name__)


class StorePart:
    name = "store"

    def __init__(self, services: Services, *, migrates: bool) -> None:
        self._store = services.store
        self._secrets = services.secrets
        self._migrates = migrates

    async def start(self) -> None:
        await self._store.open()
        try:
            if self._migrates:
                for migration in await migrate(self._store, ROOMS):
                    log.info("migrated", migration=str(migration))
            else:
                await check(self._store, ROOMS)
            await self._learn_secrets()
        except BaseException:
            await self._store.close()
            raise

    async def _learn_secrets(self) -> None:
        """What was sealed by the process before us must not be read in our log either."""
        names = [""]
        while names:
            names = await self._store.read(self._secrets.learn, after=names[-1])

    def ask_to_stop(self) -> None:
        pass

    async def stop(self, grace_seconds: float) -> None:
        await self._store.close()


class BlobsPart:
    name = "blobs"

    def __init__(self, services: Services) -> None:
        self._objects = services.objects

    async def start(self) -> None:
        await self._objects.open()

    def ask_to_stop(self) -> None:
        pass

    async def stop(self, grace_seconds: float) -> None:
        await self._objects.close()


class DoorplatePart:
    """Where we are and the local token, for the command line on this machine: there before anybody is told."""

    name = "doorplate"

    def __init__(self, services: Services) -> None:
        self._services = services

    async def start(self) -> None:
        settings = self._services.settings
        tokens = self._services.access.tokens
        await keep_admin_token(settings.data_path, self._services.store, tokens)
        write_private(settings.data_path / URL_FILE, settings.url)

    def ask_to_stop(self) -> None:
        pass

    async def stop(self, grace_seconds: float) -> None:
        pass


class ReadinessPart:
    """The last to start and the first to be asked to stop: ready means everything is."""

    name = "readiness"

    def __init__(self, readiness: Readiness) -> None:
        self._readiness = readiness

    async def start(self) -> None:
        self._readiness.ready()

    def ask_to_stop(self) -> None:
        self._readiness.stopping()

    async def stop(self, grace_seconds: float) -> None:
        self._readiness.stopping()


class _Server(uvicorn.Server):
    """Without signal handlers of its own, and telling when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()


class HttpPart:
    name = "http"

    def __init__(
        self,
        make_app: Callable[[], ASGIApp],
        settings: Settings,
        listener: socket.socket,
        metrics: Metrics,
    ) -> None:
        self._listener = listener
        self._server = _Server(
            uvicorn.Config(
                make_app,
                factory=True,
                http=guarded(
                    EdgeLimits(connections_max=settings.limits.connections_max),
                    on_refused=lambda reason: metrics.http_refused.labels(reason).inc(),
                ),
                ws="websockets-sansio",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                backlog=BACKLOG,
                timeout_keep_alive=75,
                timeout_graceful_shutdown=max(1, int(settings.stop_seconds)),
                ssl_certfile=settings.tls_cert or None,
                ssl_keyfile=settings.tls_key or None,
            )
        )
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        try:
            self._server.config.load()
        except (OSError, ssl.SSLError) as error:
            raise Unavailable(f"the TLS certificate or key cannot be used: {error}") from None
        self._task = asyncio.create_task(self._server.serve([self._listener]), name=self.name)
        listening = asyncio.create_task(self._server.listening.wait())
        await asyncio.wait({self._task, listening}, return_when=asyncio.FIRST_COMPLETED)
        listening.cancel()
        if self._task.done():
            self._task.result()

    def ask_to_stop(self) -> None:
        self._server.should_exit = True

    async def stop(self, grace_seconds: float) -> None:
        self._server.should_exit = True
        if self._task is None:
            return
        try:
            async with asyncio.timeout(grace_seconds):
                await asyncio.shield(self._task)
        except TimeoutError:
            self._server.force_exit = True
            await self._task


def listen(settings: Settings) -> socket.socket:
    """The listening socket. Unavailable, saying what to do, when somebody else has the port."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # Saying TCP makes asyncio send small answers at once, and not after waiting for more (44 ms).
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise Unavailable(
            f"{settings.host} port {settings.port} cannot be used: {error.strerror}; "
            "stop who has it, or give another --port (0 takes a free one)"
        ) from None
    listener.setblocking(False)
    return listener
