"""A real server on loopback, and a socket to say to it what no client would."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import uvicorn

from podium.http.protocol import guarded
from podium.http.wire import Edge, EdgeLimits, Reason

SECONDS_MAX = 10.0
BLOCK_BYTES = 65_536
GOOD = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"

Send = Callable[[dict[str, Any]], Any]
Receive = Callable[[], Any]


class App:
    """A tiny application that remembers what reached it."""

    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []
        self.left: list[tuple[str, int]] = []
        self.body_bytes = 0
        self.reached = threading.Semaphore(0)
        self.let_go = threading.Event()

    def seen_from(self, wire: Wire) -> list[dict[str, Any]]:
        """Only this connection's: an earlier one may still be busy when its test is over."""
        return [scope for scope in self.seen if scope["client"] == wire.address]

    def targets_of(self, wire: Wire) -> list[str]:
        return [f"{scope['method']} {scope['path']}" for scope in self.seen_from(wire)]

    def is_told_of_the_end(self, wire: Wire) -> bool:
        """Whether somebody who read a body, or waited, has learned that the peer is gone."""
        wait_until(lambda: wire.address in self.left)
        return True

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await echo(receive, send)
            return
        self.seen.append(scope)
        self.reached.release()
        status, body = await self.answer(scope, receive)
        head = [(b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": status, "headers": head})
        await send({"type": "http.response.body", "body": body})

    async def answer(self, scope: dict[str, Any], receive: Receive) -> tuple[int, bytes]:
        match scope["path"]:
            case "/unread":
                return 413, b"no, thank you"
            case "/held":
                await self.held()
                return 200, b"held"
            case "/held-then-read":
                await self.held()
                return 200, b"%d" % await self.read(scope, receive)
            case "/watch":
                await self.read(scope, receive)
                await self.read(scope, receive)
                return 200, b"watched"
            case "/large":
                return 200, bytes(64 * 1024 * 1024)
            case _:
                return 200, b"%d" % await self.read(scope, receive)

    async def held(self) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self.let_go.wait, SECONDS_MAX)

    async def read(self, scope: dict[str, Any], receive: Receive) -> int:
        size = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.left.append(scope["client"])
                return size
            size += len(message["body"])
            self.body_bytes = size
            if not message["more_body"]:
                return size


async def echo(receive: Receive, send: Send) -> None:
    assert (await receive())["type"] == "websocket.connect"
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        await send({"type": "websocket.send", "text": message["text"]})


@dataclass(frozen=True)
class Served:
    port: int
    app: App
    edge: Edge

    def refused(self, reason: Reason) -> int:
        return self.edge.refused[reason]


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not is_so():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.01)


class Complaints(logging.Handler):
    """What went wrong inside: a loop only logs an exception in a protocol."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(self.format(record))


@contextmanager
def no_complaints() -> Iterator[None]:
    complaints = Complaints()
    logging.getLogger().addHandler(complaints)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(complaints)
    assert complaints.said == []


@contextmanager
def served(limits: EdgeLimits, loop: str, **settings: Any) -> Iterator[Served]:
    app = App()
    protocol = guarded(limits)
    config = uvicorn.Config(
        app,
        http=protocol,
        ws="websockets-sansio",
        loop=loop,
        lifespan="off",
        log_config=None,
        timeout_graceful_shutdown=1,
        **settings,
    )
    server = uvicorn.Server(config)
    # Listening from here on: whoever comes before the server runs waits in the backlog.
    listener = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    with no_complaints():
        thread.start()
        try:
            yield Served(listener.getsockname()[1], app, protocol.edge)
        finally:
            app.let_go.set()
            server.should_exit = True
            thread.join(SECONDS_MAX)
            assert not thread.is_alive()


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes


class Wire:
    """One connection. Whatever is asked of it is done within the deadline, or fails."""

    def __init__(self, port: int, *, receive_buffer: int | None = None) -> None:
        self.sock = socket.socket()
        if receive_buffer is not None:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.sock.settimeout(SECONDS_MAX)
        self.sock.connect(("127.0.0.1", port))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.address: tuple[str, int] = self.sock.getsockname()
        self.buffer = b""

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def send_while_taken(self, data: bytes) -> int:
        """How many bytes the other side took before it hung up."""
        sent = 0
        try:
            while sent < len(data):
                sent += self.sock.send(data[sent : sent + BLOCK_BYTES])
        except (BrokenPipeError, ConnectionResetError):
            pass
        return sent

    def end(self) -> None:
        self.sock.shutdown(socket.SHUT_WR)

    def answer(self) -> Answer:
        head = self._until(b"\r\n\r\n").decode()
        line, *lines = head.split("\r\n")
        headers = dict(each.lower().split(": ", 1) for each in lines)
        return Answer(int(line.split()[1]), headers, self._exactly(int(headers["content-length"])))

    def is_closed(self) -> bool:
        """Nothing more comes, and the end is told. A reset is an end too."""
        try:
            return self.buffer == b"" and self.sock.recv(1) == b""
        except ConnectionResetError:
            return True

    def stays_silent(self, seconds: float) -> None:
        self.sock.settimeout(seconds)
        try:
            said = self.sock.recv(1)
        except TimeoutError:
            return
        finally:
            self.sock.settimeout(SECONDS_MAX)
        raise AssertionError(f"it spoke or ended: {said!r}")

    def seconds_until_closed(self) -> float:
        began = time.monotonic()
        assert self.is_closed()
        return time.monotonic() - began

    def _until(self, end: bytes) -> bytes:
        while end not in self.buffer:
            self._more()
        found, _, self.buffer = self.buffer.partition(end)
        return found

    def _exactly(self, size: int) -> bytes:
        while len(self.buffer) < size:
            self._more()
        found, self.buffer = self.buffer[:size], self.buffer[size:]
        return found

    def _more(self) -> None:
        block = self.sock.recv(BLOCK_BYTES)
        assert block, f"the connection ended after {self.buffer[:200]!r}"
        self.buffer += block
