"""A bad line: stands between a client and a server, and does to each request what the test says."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

LOSE = "lose the answer"
CUT = "cut the answer after its first kilobyte"


def busy(status: int, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} Busy", "content-length: 0", *headers, "", ""]
    return "\r\n".join(lines).encode()


class Line:
    """One request per connection. `faults` are used up in order; after them all goes well."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        self._server = (parts.hostname, parts.port)
        self.url = ""
        self.faults: deque[str | bytes] = deque()
        self.requests: list[bytes] = []

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            body = await reader.readexactly(_length(head))
            self.requests.append(head + body)
            fault = self.faults.popleft() if self.faults else None
            if isinstance(fault, bytes):
                writer.write(fault)
            else:
                await self._pass_on(head + body, fault, writer)
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # one of them hung up
        finally:
            writer.close()

    async def _pass_on(
        self, request: bytes, fault: str | None, writer: asyncio.StreamWriter
    ) -> None:
        answers, server = await asyncio.open_connection(*self._server)
        try:
            server.write(request.replace(b"keep-alive", b"close", 1))
            if fault == LOSE:
                await answers.read(1)  # it was carried out, and nobody will ever know
                return
            sent = 0
            while chunk := await answers.read(1024):
                writer.write(chunk)
                await writer.drain()
                sent += len(chunk)
                if fault == CUT and sent >= 1024:
                    return
        finally:
            server.close()


def _length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.split(b":")[1])
    return 0


@asynccontextmanager
async def line_to(url: str) -> AsyncIterator[Line]:
    line = Line(url)
    talks: set[asyncio.Task[None]] = set()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        talks.add(task)
        try:
            await line._talk(reader, writer)
        except asyncio.CancelledError:
            writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    line.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield line
    finally:
        server.close()
        for task in talks:
            task.cancel()
        await asyncio.gather(*talks, return_exceptions=True)
