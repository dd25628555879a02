"""One connection to a server, over and over: what a careful client in another language would do.

It repeats nothing by itself and hides nothing. A call is answered, or it is `Lost`: then nobody knows
whether it was done, and whoever asked decides what to do about that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

HOST = "127.0.0.1"
HEAD_BYTES_MAX = 65_536
ANSWER_SECONDS_MAX = 60.0
"""Longer than any call may take. Reaching it is a failure, not a wait."""


class Lost(Exception):
    """The connection was refused, or broke before the answer was there."""


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return orjson.loads(self.body)


class Line:
    def __init__(self, port: int, token: str = "") -> None:
        self._port = port
        self._token = token
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def ask(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """The answer, whatever its status. TimeoutError if the server keeps the line and says nothing."""
        data = b"" if body is None else orjson.dumps(body)
        try:
            async with asyncio.timeout(ANSWER_SECONDS_MAX):
                return await self._ask(self._head(method, path, data, headers or {}) + data)
        except (OSError, asyncio.IncompleteReadError) as error:
            self.close()
            if isinstance(error, TimeoutError):
                raise
            raise Lost(str(error)) from error
        except BaseException:
            # Half an answer would be taken for the beginning of the next one.
            self.close()
            raise

    def close(self) -> None:
        if self._writer is not None:
            self._writer.transport.abort()
        self._reader = self._writer = None

    async def _ask(self, request: bytes) -> Answer:
        if self._reader is None or self._writer is None:
            self._reader, self._writer = await asyncio.open_connection(
                HOST, self._port, limit=HEAD_BYTES_MAX
            )
        self._writer.write(request)
        head = await self._reader.readuntil(b"\r\n\r\n")
        first, *lines = head[:-4].decode("latin-1").split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines)
        body = await self._reader.readexactly(int(headers.get("content-length", "0")))
        if headers.get("connection") == "close":
            self.close()
        return Answer(int(first.split()[1]), headers, body)

    def _head(self, method: str, path: str, data: bytes, more: Mapping[str, str]) -> bytes:
        headers = {"Host": HOST, **more}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        if data:
            headers |= {"Content-Type": "application/json", "Content-Length": str(len(data))}
        lines = [f"{method} {path} HTTP/1.1", *(f"{k}: {v}" for k, v in headers.items()), "", ""]
        return "\r\n".join(lines).encode("latin-1")
