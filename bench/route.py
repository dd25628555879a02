"""Requests per second of one trivial JSON route: in our house, and on bare FastAPI, in turn."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import uvloop

from bench.route_server import PATH

BODY = b'{"name":"Ada","count":3,"tags":["a","b","c"]}'
LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)
CONNECTIONS = 32
WARM_SECONDS = 1.0


class Server(NamedTuple):
    port: int
    token: str | None


def requests_per_second(kind: str, seconds: float) -> float:
    with serving(kind) as server:
        return uvloop.run(_load(server, seconds))


@contextmanager
def serving(kind: str) -> Iterator[Server]:
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [sys.executable, "-m", "bench.route_server", kind, folder], stdout=subprocess.PIPE
        )
        try:
            assert process.stdout is not None
            said = process.stdout.readline().decode().split()
            yield Server(int(said[0]), said[1] if len(said) > 1 else None)
        finally:
            process.kill()
            process.wait()


async def _load(server: Server, seconds: float) -> float:
    """Each connection asks again as soon as it was answered."""
    request = _request(server)
    counts = [0] * CONNECTIONS
    callers = [asyncio.create_task(_ask(server, request, counts, n)) for n in range(CONNECTIONS)]
    await asyncio.sleep(WARM_SECONDS)
    before, began = sum(counts), time.perf_counter()
    await asyncio.sleep(seconds)
    rate = (sum(counts) - before) / (time.perf_counter() - began)
    for caller in callers:
        caller.cancel()
    answers = await asyncio.gather(*callers, return_exceptions=True)
    for answer in answers:
        if not isinstance(answer, asyncio.CancelledError):
            raise RuntimeError(f"a caller ended: {answer!r}")
    return rate


async def _ask(server: Server, request: bytes, counts: list[int], n: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    while True:
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(head.decode())
        match = LENGTH.search(head)
        assert match is not None
        await reader.readexactly(int(match[1]))
        counts[n] += 1


def _request(server: Server) -> bytes:
    token = f"authorization: Bearer {server.token}\r\n" if server.token else ""
    return (
        f"POST {PATH} HTTP/1.1\r\nhost: 127.0.0.1:{server.port}\r\n{token}"
        f"content-type: application/json\r\ncontent-length: {len(BODY)}\r\n\r\n"
    ).encode() + BODY
