"""Many connections from one process, each as cheap as it can be, and what they measured."""

from __future__ import annotations

import asyncio
import math
import resource
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple, cast

from tests.kill.line import HOST
from tests.soak.needs import Missing

OPEN_AT_ONCE = 100
SPARE_FILES = 300
"""What both sides need besides connections."""
ANSWER_SECONDS_MAX = 60.0


class Answer(NamedTuple):
    status: int
    seconds: float
    """Since the moment at which it should have been asked."""
    says_when: bool
    """With Retry-After."""


class Visitor(asyncio.Protocol):
    """One connection, one question at a time."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._buffer = b""
        self._answer: asyncio.Future[tuple[int, bool]] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        if not self.ended.done():
            self.ended.set_result(None)
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionResetError("cut off without an answer"))

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, gap, body = self._buffer.partition(b"\r\n\r\n")
        if not gap or self._answer is None or self._answer.done():
            return
        length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0] or b"0")
        if len(body) >= length:
            self._buffer = b""
            self._answer.set_result((int(head[9:12]), b"\r\nretry-after: " in head))

    async def ask(self, request: bytes, since: float | None = None) -> Answer:
        """ConnectionResetError if there is none."""
        if self.transport is None:
            raise ConnectionResetError("it was closed before")
        since = time.perf_counter() if since is None else since
        self._answer = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        status, says_when = await self._answer
        return Answer(status, time.perf_counter() - since, says_when)

    def send(self, data: bytes) -> None:
        if self.transport is not None:
            self.transport.write(data)

    def close(self) -> None:
        if self.transport is not None:
            self.transport.abort()


async def visit(port: int) -> Visitor:
    _, visitor = await asyncio.get_running_loop().create_connection(Visitor, HOST, port)
    return visitor


async def visit_all(port: int, count: int) -> list[Visitor]:
    """So many connections, some at a time: a listener's queue is not without end."""
    visitors: list[Visitor] = []
    for done in range(0, count, OPEN_AT_ONCE):
        some = min(OPEN_AT_ONCE, count - done)
        visitors += await asyncio.gather(*(visit(port) for _ in range(some)))
    return visitors


async def leave(visitors: Iterable[Visitor]) -> None:
    visitors = list(visitors)
    for visitor in visitors:
        visitor.close()
    await asyncio.gather(*(visitor.ended for visitor in visitors))


def request(method: str, path: str, token: str = "", body: bytes = b"") -> bytes:
    lines = [f"{method} {path} HTTP/1.1", f"Host: {HOST}"]
    if token:
        lines.append(f"Authorization: Bearer {token}")
    if body:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + body


def submission(token: str, id: str) -> bytes:
    return request(
        "POST", "/api/work", token, b'{"items":[{"queue":"soak","id":"%b"}]}' % id.encode()
    )


@dataclass(slots=True)
class Figures:
    """What came back, and how fast."""

    answers: list[Answer] = field(default_factory=list)
    cut_off: int = 0

    def add(self, answer: Answer) -> None:
        self.answers.append(answer)

    def only(self, *statuses: int) -> Figures:
        return Figures([answer for answer in self.answers if answer.status in statuses])

    def quantile(self, share: float) -> float:
        ordered = sorted(answer.seconds for answer in self.answers)
        return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else math.nan

    @property
    def statuses(self) -> Counter[int]:
        return Counter(answer.status for answer in self.answers)

    @property
    def refusals(self) -> list[Answer]:
        return self.only(429, 503).answers

    def __str__(self) -> str:
        counts = ", ".join(f"{count:,} × {status}" for status, count in self.statuses.items())
        p50, p99, most = (1e3 * self.quantile(share) for share in (0.5, 0.99, 1.0))
        return f"{counts}; p50 {p50:.0f} ms, p99 {p99:.0f} ms, max {most:.0f} ms"


class Regular:
    """One who asks, waits for the answer and asks again: what everybody else should not spoil."""

    def __init__(self, port: int, token: str, name: str) -> None:
        self.figures = Figures()
        self.accepted: list[str] = []
        self._port = port
        self._token = token
        self._name = name
        self._count = 0
        self._visitor: Visitor | None = None

    async def ask(self) -> Answer:
        if self._visitor is None or self._visitor.transport is None:
            self._visitor = await visit(self._port)
        self._count += 1
        id = f"{self._name}-{self._count}"
        async with asyncio.timeout(ANSWER_SECONDS_MAX):
            answer = await self._visitor.ask(submission(self._token, id))
        self.figures.add(answer)
        if answer.status == 201:
            self.accepted.append(id)
        return answer

    async def ask_until(self, end: float, pause_seconds: float = 0.0) -> None:
        while time.perf_counter() < end:
            await self.ask()
            if pause_seconds:
                await asyncio.sleep(pause_seconds)

    async def ask_often(self, count: int) -> Figures:
        self.figures = Figures()
        for _ in range(count):
            await self.ask()
        return self.figures

    def close(self) -> None:
        if self._visitor is not None:
            self._visitor.close()


def together(all: Sequence[Regular]) -> Figures:
    return Figures([answer for each in all for answer in each.figures.answers])


def allow_files(wanted: int) -> int:
    """Raise our limit, which a server that we start inherits, and say how many connections it leaves."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < wanted + SPARE_FILES:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted + SPARE_FILES,) * 2)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = wanted + SPARE_FILES
    if hard != resource.RLIM_INFINITY:
        files = min(files, hard)
    resource.setrlimit(
        resource.RLIMIT_NOFILE, (max(files, resource.getrlimit(resource.RLIMIT_NOFILE)[0]), hard)
    )
    if files <= SPARE_FILES:
        raise Missing(f"only {hard} open files are allowed: raise the hard limit (ulimit -Hn)")
    return min(wanted, files - SPARE_FILES)


def mebibytes(size: int) -> str:
    return f"{size / 1024**2:.0f} MiB"
