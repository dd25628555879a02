"""The connection, which is made again for ever.

`client` is None while the broker is away, and nobody waits for it: whoever finds it away goes on
without. What went wrong is logged once, not at every attempt.

The library could reconnect by itself. But its task for that may miss its cancellation and keep a
process that stops while the broker is away alive for ever, and it publishes later what we believe
lost. So a connection that breaks is thrown away here, and a new one is made.
"""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

from nats.aio.client import Client
from nats.errors import NoServersError

from podium.backends.nats.settings import NatsSettings
from podium.kernel.errors import Unavailable
from podium.kernel.telemetry import logger

CONNECT_SECONDS_MAX = 2
RECONNECT_PAUSE_SECONDS = 0.1
PING_SECONDS = 5
FLUSH_SECONDS_MAX = 2.0
CLOSE_SECONDS_MAX = 2.0

log = logger(__name__)


class Link:
    def __init__(self, settings: NatsSettings, *, name: str = "podium") -> None:
        self.settings = settings
        self.count = 0
        """How often a connection was made."""
        self._name = name
        self._client: Client | None = None
        self._staying: asyncio.Task[None] | None = None
        self._made = asyncio.Event()
        self._told: list[str] = []
        """What went wrong since the last connection, each thing once."""
        self._is_closing = False

    @property
    def client(self) -> Client | None:
        client = self._client
        return client if client is not None and client.is_connected else None

    async def open(self, *, wait_seconds: float = 0.0) -> None:
        """Begin to connect. Unavailable if `wait_seconds` were given and did not suffice; it goes on
        trying all the same."""
        if self._staying is None:
            self._staying = asyncio.create_task(self._stay())
        if wait_seconds > 0:
            try:
                async with asyncio.timeout(wait_seconds):
                    await self._made.wait()
            except TimeoutError:
                raise Unavailable(
                    f"NATS at {self._address} cannot be reached within {wait_seconds:g} s: "
                    f"{'; '.join(self._told) or 'no answer'}"
                ) from None

    async def close(self) -> None:
        self._is_closing = True
        if self._staying is not None:
            self._staying.cancel()
            await asyncio.gather(self._staying, return_exceptions=True)
            self._staying = None
        client, self._client = self._client, None
        if client is not None:
            await _discard(client)

    async def _stay(self) -> None:
        while not self._is_closing:
            closed = asyncio.Event()
            client = Client()
            try:
                await self._connect(client, closed)
            except Exception as error:
                await self._tell(error)
                await _discard(client)
            else:
                self._client = client
                self._greet()
                await closed.wait()
            await asyncio.sleep(RECONNECT_PAUSE_SECONDS)

    async def _connect(self, client: Client, closed: asyncio.Event) -> None:
        async def on_closed() -> None:
            closed.set()

        settings = self.settings
        await client.connect(
            servers=settings.servers,
            name=self._name,
            tls=settings.tls(),
            user_credentials=settings.credentials_file,
            connect_timeout=CONNECT_SECONDS_MAX,
            allow_reconnect=False,
            # Its first connection too is one that it would try for ever.
            max_reconnect_attempts=1,
            reconnect_time_wait=RECONNECT_PAUSE_SECONDS,  # type: ignore[arg-type]
            flush_timeout=FLUSH_SECONDS_MAX,
            ping_interval=PING_SECONDS,
            error_cb=self._tell,
            closed_cb=on_closed,
        )

    def _greet(self) -> None:
        self.count += 1
        self._told.clear()
        self._made.set()
        log.info("connected to the broker", address=self._address, count=self.count)

    async def _tell(self, error: Exception) -> None:
        text = _explained(error)
        if isinstance(error, NoServersError) and self._told:
            return  # what was told before is why
        if text not in self._told:
            self._told.append(text)
            log.warning("the broker's connection failed", address=self._address, error=text)

    @property
    def _address(self) -> str:
        """Without the password."""
        parts = [urlsplit(server) for server in self.settings.servers]
        return ", ".join(f"{part.hostname}:{part.port or 4222}" for part in parts)


async def _discard(client: Client) -> None:
    try:
        async with asyncio.timeout(CLOSE_SECONDS_MAX):
            await client.close()
    except Exception as error:
        log.debug("the broker's connection did not close well", error=repr(error))


def _explained(error: Exception) -> str:
    text = str(error) or repr(error)
    if "Authorization" in text:
        return (
            f"{text}: the user, password or token in the address is not one that the server knows"
        )
    if isinstance(error, ModuleNotFoundError):
        return f"{text}: credentials_file needs it: pip install nkeys"
    return text
