"""Opening a connection: resolve once, judge every address, connect to the address that was judged.

httpcore asks its network backend for a connection to a *name*. This backend never passes the name on:
between the check and the connect there is no second lookup in which the name could change its mind (as
it could in Prefect's webhooks, CVE-2026-7724). Host header and certificate still go by the name, since
httpcore takes those from the URL.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from itertools import chain, zip_longest
from typing import Any

import httpcore

from podium.effects.http.address import Address
from podium.effects.http.egress import Egress
from podium.effects.http.errors import AnswerTooLarge, Refused, TimedOut, Unreachable
from podium.effects.http.resolve import Resolve
from podium.effects.http.url import Url
from podium.kernel.telemetry import logger

log = logger(__name__)

ADDRESSES_MAX = 64
"""A name with more is refused, unread: nobody has an honest use for it."""
TRIES_MAX = 4

SocketOption = (
    tuple[int, int, int] | tuple[int, int, bytes | bytearray] | tuple[int, int, None, int]
)


class Dialer(httpcore.AsyncNetworkBackend):
    """The way to one origin. Made per connection, so it knows the scheme, and not just host and port."""

    def __init__(
        self,
        url: Url,
        egress: Egress,
        resolve: Resolve,
        network: httpcore.AsyncNetworkBackend,
    ) -> None:
        self._url = url
        self._egress = egress
        self._resolve = resolve
        self._network = network
        self._stream: httpcore.AsyncNetworkStream | None = None

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[SocketOption] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        try:
            async with asyncio.timeout(timeout):
                addresses = await self._addresses()
                self._stream = await self._first(addresses, timeout)
        except TimeoutError:
            raise TimedOut(
                f"no connection to {self._url.origin} within {timeout} s",
                destination=self._url.origin,
                reason="connect",
            ) from None
        return MeteredStream(self._stream, self._url)

    async def aclose(self) -> None:
        """Hang up. httpcore forgets a connection that was called off during the TLS handshake."""
        if self._stream is not None:
            await self._stream.aclose()

    async def _addresses(self) -> list[Address]:
        url = self._url
        if url.address is not None:
            return self._egress.check_addresses(url, [str(url.address)])
        try:
            found = await self._resolve(url.host, url.port)
        except (OSError, UnicodeError):
            found = []
        if not found:
            raise Unreachable(f"{url.host} has no address", destination=url.origin, reason="dns")
        if len(found) > ADDRESSES_MAX:
            raise Refused(
                f"{url.host} has {len(found)} addresses; the most is {ADDRESSES_MAX}",
                destination=url.origin,
                reason="addresses",
            )
        return self._egress.check_addresses(url, found)

    async def _first(
        self, addresses: Sequence[Address], timeout: float | None
    ) -> httpcore.AsyncNetworkStream:
        """The first that takes the connection. Each gets its share of the time, so that one that
        swallows packets leaves some for the next."""
        tries = _alternating(addresses)[:TRIES_MAX]
        share = None if timeout is None else timeout / len(tries)
        for address in tries:
            try:
                return await self._network.connect_tcp(str(address), self._url.port, share)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                log.debug("address did not answer", address=str(address), error=repr(error))
        raise Unreachable(
            f"{self._url.origin} takes no connections",
            destination=self._url.origin,
            reason="connect",
        )


def _alternating(addresses: Sequence[Address]) -> list[Address]:
    """The resolver's order, with the families taking turns: often just one of them works."""
    first = [a for a in addresses if a.version == addresses[0].version]
    other = [a for a in addresses if a.version != addresses[0].version]
    return [a for a in chain.from_iterable(zip_longest(first, other)) if a is not None]


class Meter:
    """How many bytes one exchange may still read from the wire, whatever they turn out to be:
    endless `100 Continue`, chunk extensions and trailers are in no body."""

    def __init__(self, bytes_max: int) -> None:
        self.left = bytes_max

    def take(self, count: int, destination: str) -> None:
        self.left -= count
        if self.left < 0:
            raise AnswerTooLarge(
                f"{destination} sent more around its answer than is taken",
                destination=destination,
                reason="bytes",
            )


# httpcore reads HTTP/1.1 in the task of whoever waits for the answer, and passes nothing down to the
# stream: the context is the one way by which an exchange reaches its own reads.
METER: ContextVar[Meter | None] = ContextVar("METER", default=None)


class MeteredStream(httpcore.AsyncNetworkStream):
    def __init__(self, stream: httpcore.AsyncNetworkStream, url: Url) -> None:
        self._stream = stream
        self._url = url

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        meter = METER.get()
        if meter is None:
            return await self._stream.read(max_bytes, timeout)
        data = await self._stream.read(min(max_bytes, meter.left + 1), timeout)
        meter.take(len(data), self._url.origin)
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.AsyncNetworkStream:
        stream = await self._stream.start_tls(ssl_context, server_hostname, timeout)
        ssl_object = stream.get_extra_info("ssl_object")
        # Over HTTP/2 one exchange reads for all the others too: their bytes are not its own.
        is_shared = ssl_object is not None and ssl_object.selected_alpn_protocol() == "h2"
        return stream if is_shared else MeteredStream(stream, self._url)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)
