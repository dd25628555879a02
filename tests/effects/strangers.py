"""Servers that answer what they like, on loopback, and the clients that call them.

A stranger speaks raw bytes, because the interesting ones do not speak HTTP as it is written. Loopback
is open only to the client whose egress says so.
"""

from __future__ import annotations

import asyncio
import random
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpcore

from podium.effects.http import Egress, OutgoingHttp, Settings
from podium.kernel.clock import Clock, SystemClock

LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)
PUBLIC = "93.184.216.34"


@dataclass
class Stranger:
    host: str
    port: int = 0
    connections: int = 0
    heads: list[bytes] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    hung_up_count: int = 0
    """Connections that are over."""
    moved: asyncio.Event = field(default_factory=asyncio.Event)

    async def until(self, is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not is_so():
                self.moved.clear()
                await self.moved.wait()

    def url(self, path: str = "/", host: str | None = None, scheme: str = "http") -> str:
        return f"{scheme}://{host or self.host}:{self.port}{path}"


Reply = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def says(data: bytes, *, and_hangs_up: bool = False) -> Reply:
    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()
        if and_hangs_up:
            writer.close()

    return reply


def answers(status: int = 200, body: bytes = b"", headers: Iterable[tuple[str, str]] = ()) -> Reply:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
    head = f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n{lines}\r\n"
    return says(head.encode() + body)


async def says_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while await reader.read(65536):
        pass


async def hangs_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


@asynccontextmanager
async def serving(
    stranger: Stranger, serve: Reply, *, port: int = 0, tls: ssl.SSLContext | None = None
) -> AsyncIterator[None]:
    """`serve` is called with each connection, until the caller hangs up or the test is over."""
    tasks: set[asyncio.Task[Any]] = set()

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        stranger.connections += 1
        stranger.moved.set()
        try:
            await serve(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            # What a connection that ends looks like from here.
            pass
        finally:
            stranger.hung_up_count += 1
            stranger.moved.set()
            writer.transport.abort()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.ensure_future(one(reader, writer)))

    server = await asyncio.start_server(accept, stranger.host, port, ssl=tls)
    stranger.port = server.sockets[0].getsockname()[1]
    try:
        yield
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks)
        await server.wait_closed()


@asynccontextmanager
async def listening(
    *replies: Reply, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Stranger]:
    """One reply per request, the last one for all that follow."""
    stranger = Stranger(host)
    queue = list(replies)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            stranger.heads.append(head)
            length = LENGTH.search(head)
            stranger.bodies.append(await reader.readexactly(int(length[1]) if length else 0))
            stranger.moved.set()
            await (queue.pop(0) if len(queue) > 1 else queue[0])(reader, writer)

    async with serving(stranger, serve, port=port, tls=tls):
        yield stranger


def egress_to(*strangers: Stranger, networks: Sequence[str] = ("127.0.0.0/8",)) -> Egress:
    return Egress.of(networks=networks, ports=[stranger.port for stranger in strangers])


@dataclass
class Names:
    """A name server: each lookup of a name takes the next of its answers, the last one stays."""

    answers: dict[str, list[list[str]]] = field(default_factory=dict)
    lookups: list[str] = field(default_factory=list)

    async def __call__(self, host: str, port: int) -> list[str]:
        self.lookups.append(host)
        if host not in self.answers:
            raise OSError(f"no such name: {host}")
        left = self.answers[host]
        return left.pop(0) if len(left) > 1 else left[0]


class Recorder(httpcore.AsyncNetworkBackend):
    """A network in which nobody is at home; it writes down who was called."""

    def __init__(self) -> None:
        self.dialled: list[str] = []

    async def connect_tcp(self, host: str, port: int, *args: Any, **kwargs: Any) -> Any:
        self.dialled.append(host)
        raise httpcore.ConnectError("nobody at home")


@asynccontextmanager
async def caller(
    egress: Egress,
    *,
    names: dict[str, list[list[str]]] | Names | None = None,
    settings: Settings | None = None,
    network: httpcore.AsyncNetworkBackend | None = None,
    clock: Clock | None = None,
) -> AsyncIterator[OutgoingHttp]:
    resolve = names if isinstance(names, Names) else Names(names or {})
    client = OutgoingHttp(
        egress=egress,
        clock=clock or SystemClock(),
        rng=random.Random(7),
        settings=settings or Settings(),
        resolve=resolve,
        network=network,
    )
    async with client:
        yield client
