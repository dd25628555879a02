"""Calls that a well-behaved client would not make: any bytes as path and headers, and streams read as slowly as one likes."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from tests.http.houses import HERE, Home

SECONDS_MAX = 10.0
Header = tuple[bytes, bytes]


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def error(self) -> dict[str, Any]:
        return refusal(self.status, self.headers, self.body)


def refusal(status: int, headers: Any, body: bytes) -> dict[str, Any]:
    """The error in an answer, which must be our envelope and nothing else."""
    assert status >= 400, body
    assert headers["content-type"] == "application/json"
    said: dict[str, Any] = json.loads(body)
    assert said.keys() == {"error"}
    error: dict[str, Any] = said["error"]
    assert error.keys() == {"code", "message", "details", "timestamp", "traceId"}
    assert re.fullmatch(r"[0-9a-f]{32}", error["traceId"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", error["timestamp"])
    assert "Traceback" not in body.decode()
    return error


def scope_of(
    method: str,
    target: str,
    headers: Iterable[Header] = (),
    *,
    host: bytes | None = b"localhost",
    address: str = HERE,
    kind: str = "http",
) -> dict[str, Any]:
    """A scope as the server makes it: the path decoded, the query left as it came."""
    path, _, query = target.partition("?")
    return {
        "type": kind,
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [*([] if host is None else [(b"host", host)]), *headers],
        "client": (address, 40_000),
        "server": ("127.0.0.1", 8437),
        "subprotocols": [],
    }


def bearer(token: str | bytes) -> Header:
    return b"authorization", b"Bearer " + (token.encode() if isinstance(token, str) else token)


async def until(is_so: Callable[[], object]) -> None:
    """Wait for something that nobody announces, but not for ever."""
    async with asyncio.timeout(SECONDS_MAX):
        while not is_so():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def ask(
    home: Home,
    method: str,
    target: str,
    headers: Iterable[Header] = (),
    body: bytes | list[bytes] = b"",
    **more: Any,
) -> Answer:
    """One request, with the headers as they stand and the body in the pieces given."""
    pieces = body if isinstance(body, list) else [body]
    messages: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        if not pieces:
            return {"type": "http.disconnect"}
        piece = pieces.pop(0)
        return {"type": "http.request", "body": piece, "more_body": bool(pieces)}

    async def send(message: Any) -> None:
        messages.append(message)

    async with asyncio.timeout(SECONDS_MAX):
        await home.app(scope_of(method, target, headers, **more), receive, send)
    start = messages[0]
    assert start["type"] == "http.response.start"
    said = {name.decode(): value.decode("latin-1") for name, value in start["headers"]}
    return Answer(start["status"], said, b"".join(m.get("body", b"") for m in messages[1:]))


@dataclass(frozen=True)
class Said:
    """One event of a stream."""

    id: str
    event: str
    data: dict[str, Any]


class Reader:
    """Reads a stream of events; while it does not, the sender waits at its next send."""

    def __init__(self) -> None:
        self.gone = asyncio.Event()
        self.sent: asyncio.Queue[dict[str, Any]] = asyncio.Queue(maxsize=1)
        self.status = 0
        self.text = ""
        self.is_over = False

    async def receive(self) -> dict[str, Any]:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        await self.sent.put(message)

    async def next_part(self) -> str:
        """What the server sends next; empty when the stream is over."""
        async with asyncio.timeout(SECONDS_MAX):
            message = await self.sent.get()
        if message["type"] == "http.response.start":
            self.status = message["status"]
            return await self.next_part()
        self.is_over = not message.get("more_body", False)
        part: str = message.get("body", b"").decode()
        return part

    async def next_event(self) -> Said | None:
        """The next event, comments passed over. None when the stream is over."""
        while "\n\n" not in self.text:
            if self.is_over:
                return None
            self.text += await self.next_part()
        block, _, self.text = self.text.partition("\n\n")
        if block.startswith(":"):
            return await self.next_event()
        fields = dict(line.split(": ", 1) for line in block.split("\n"))
        return Said(fields.get("id", ""), fields["event"], json.loads(fields["data"]))

    async def events(self, count: int) -> list[Said]:
        found: list[Said] = []
        while len(found) < count:
            event = await self.next_event()
            assert event is not None, f"the stream ended after {len(found)} of {count} events"
            found.append(event)
        return found


async def _call(home: Home, scope: Any, receive: Any, send: Any) -> None:
    await home.app(scope, receive, send)


@asynccontextmanager
async def streaming(
    home: Home, target: str = "/api/events", headers: Iterable[Header] = (), **more: Any
) -> AsyncIterator[Reader]:
    """An open stream, and its end when the reader goes away."""
    reader = Reader()
    scope = scope_of("GET", target, headers, **more)
    call = asyncio.create_task(_call(home, scope, reader.receive, reader.send))
    try:
        yield reader
    finally:
        reader.gone.set()
        while not call.done():
            # Whatever it still wants to send is taken, so that it can end.
            while not reader.sent.empty():
                reader.sent.get_nowait()
            await asyncio.wait({call}, timeout=0.01)
        await call
