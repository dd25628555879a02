"""Connections that are kept: HTTP/1.1 one exchange at a time, HTTP/2 many.

httpcore cannot reset one HTTP/2 stream. Of an answer that was cut the rest keeps coming, and what nobody
reads uses up the window that all answers on that connection share. So a connection on which an exchange
was cut takes no new ones; those under way may end, and then it is closed.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass, field

import httpcore

from podium.effects.http.dial import Dialer
from podium.effects.http.url import Url, parse

EXCHANGE = "podium.exchange"


@dataclass(slots=True)
class Exchange:
    """One call, and the connections it was on (a second one if the first was just taken)."""

    connections: list[Connection] = field(default_factory=list)

    async def end(self, *, is_cut: bool) -> None:
        for connection in self.connections:
            await connection.leave(is_cut=is_cut)


class Pool(httpcore.AsyncConnectionPool):
    def __init__(
        self,
        dialer_of: Callable[[Url], Dialer],
        tls: ssl.SSLContext,
        *,
        connections_max: int,
        keepalive_seconds: float,
    ) -> None:
        super().__init__(max_connections=connections_max)
        self._dialer_of = dialer_of
        self._tls = tls
        self._keepalive_seconds = keepalive_seconds

    def create_connection(self, origin: httpcore.Origin) -> httpcore.AsyncConnectionInterface:
        dialer = self._dialer_of(_url_of(origin))
        inner = httpcore.AsyncHTTPConnection(
            origin=origin,
            ssl_context=self._tls,
            keepalive_expiry=self._keepalive_seconds,
            http1=True,
            http2=True,
            network_backend=dialer,
        )
        return Connection(inner, dialer)


class Connection(httpcore.AsyncConnectionInterface):
    def __init__(self, inner: httpcore.AsyncHTTPConnection, dialer: Dialer) -> None:
        self._inner = inner
        self._dialer = dialer
        self._users = 0
        self._is_retired = False

    async def handle_async_request(self, request: httpcore.Request) -> httpcore.Response:
        exchange: Exchange = request.extensions[EXCHANGE]
        exchange.connections.append(self)
        self._users += 1
        return await self._inner.handle_async_request(request)

    async def leave(self, *, is_cut: bool) -> None:
        self._users -= 1
        self._is_retired = self._is_retired or is_cut
        if self._is_retired and self._users == 0:
            await self.aclose()

    def is_available(self) -> bool:
        return not self._is_retired and self._inner.is_available()

    def has_expired(self) -> bool:
        return (self._is_retired and self._users == 0) or self._inner.has_expired()

    def is_idle(self) -> bool:
        return self._inner.is_idle()

    def is_closed(self) -> bool:
        return self._inner.is_closed()

    def can_handle_request(self, origin: httpcore.Origin) -> bool:
        return self._inner.can_handle_request(origin)

    def info(self) -> str:
        return self._inner.info()

    async def aclose(self) -> None:
        await self._inner.aclose()
        await self._dialer.aclose()


def _url_of(origin: httpcore.Origin) -> Url:
    host = origin.host.decode()
    authority = f"[{host}]" if ":" in host else host
    return parse(f"{origin.scheme.decode()}://{authority}:{origin.port}")
