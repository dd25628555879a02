"""The channel: a desk over a socket between a parent and its child.

A frame is four bytes of length and so much JSON:

    child  → parent   {"n": 7, "call": "claim", "body": {…}}
    parent → child    {"n": 7, "ok": {…}}   or   {"n": 7, "error": {"code", "message", "details"}}

Many calls may be under way; answers come in any order. When the other end is gone, whatever waits
for an answer fails with ChannelClosed: a child without a parent has nobody to work for, and ends.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
from collections.abc import Mapping
from typing import Any, Self

import orjson
from pydantic import BaseModel, ConfigDict

from podium.contracts.errors import Code
from podium.contracts.work import Claim, Claimed, Enqueue, Enqueued, Grants, Report, Verdicts
from podium.sdk import desk
from podium.sdk.errors import ApiError, ChannelClosed, TooLarge, api_error
from podium.sdk.wire import M, encode

FD_VARIABLE = "PODIUM_CHANNEL_FD"
PARENT_VARIABLE = "PODIUM_PARENT_PID"
HELLO = "hello"
LENGTH_BYTES = 4
FRAME_BYTES_MAX = 16 * 1024 * 1024
BUFFER_BYTES = 1024 * 1024


class BadFrame(Exception):
    """The other end does not speak our language; there is no way to go on."""


class Hello(BaseModel):
    """The first thing a child says: it is up, and will answer to signals."""

    model_config = ConfigDict(extra="forbid")

    pid: int


class Heard(BaseModel):
    model_config = ConfigDict(extra="forbid")


def frame(content: bytes) -> bytes:
    if len(content) > FRAME_BYTES_MAX:
        raise TooLarge(
            Code.PAYLOAD_TOO_LARGE,
            f"this has {len(content)} bytes; at most {FRAME_BYTES_MAX} go at once. Send less at once",
        )
    return len(content).to_bytes(LENGTH_BYTES, "big") + content


async def read_frame(reader: asyncio.StreamReader) -> dict[str, Any] | None:
    """None when the other end is gone; BadFrame if what came is none."""
    try:
        size = int.from_bytes(await reader.readexactly(LENGTH_BYTES), "big")
        if size > FRAME_BYTES_MAX:
            raise BadFrame(f"a frame of {size} bytes; the most is {FRAME_BYTES_MAX}")
        content = await reader.readexactly(size)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    try:
        said = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise BadFrame(f"a frame that is not JSON: {error}") from None
    if not isinstance(said, dict) or not isinstance(said.get("n"), int):
        raise BadFrame("a frame without a number")
    return said


async def open_streams(
    sock: socket.socket,
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    sock.setblocking(False)
    return await asyncio.open_unix_connection(sock=sock, limit=BUFFER_BYTES)


def inherited_socket(environment: Mapping[str, str] = os.environ) -> socket.socket | None:
    """The end that our parent gave us; None if we are nobody's child."""
    text = environment.get(FD_VARIABLE)
    if not text:
        return None
    sock = socket.socket(fileno=int(text))
    # Programs that a handler starts must not keep the channel open after we are gone.
    sock.set_inheritable(False)
    return sock


class ChannelDesk:
    """The child's end. Fills `WorkDesk`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self.gone = asyncio.Event()
        """Set when the parent is not there any more."""
        self._listening = asyncio.create_task(self._listen(), name="channel")

    @classmethod
    async def open(cls, sock: socket.socket) -> Self:
        return cls(*await open_streams(sock))

    async def hello(self) -> None:
        """Tell the parent that we are up."""
        await self._call(HELLO, Hello(pid=os.getpid()), Heard)

    async def enqueue(self, body: Enqueue, /) -> Enqueued:
        return await self._call(desk.ENQUEUE, body, Enqueued)

    async def claim(self, body: Claim, /) -> Claimed:
        return await self._call(desk.CLAIM, body, Claimed)

    async def start(self, body: Grants, /) -> Verdicts:
        return await self._call(desk.START, body, Verdicts)

    async def renew(self, body: Grants, /) -> Verdicts:
        return await self._call(desk.RENEW, body, Verdicts)

    async def release(self, body: Grants, /) -> Verdicts:
        return await self._call(desk.RELEASE, body, Verdicts)

    async def report(self, body: Report, /) -> Verdicts:
        return await self._call(desk.REPORT, body, Verdicts)

    async def close(self) -> None:
        self._listening.cancel()
        await asyncio.gather(self._listening, return_exceptions=True)
        self._writer.close()

    async def _call(self, name: str, body: BaseModel, model: type[M]) -> M:
        if self.gone.is_set():
            raise _closed()
        n = next(self._numbers)
        content = b'{"n":%d,"call":"%s","body":%s}' % (n, name.encode(), encode(body))
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[n] = answer
        try:
            self._writer.write(frame(content))
            await self._writer.drain()
            said = await answer
        except ConnectionError:
            raise _closed() from None
        finally:
            self._waiting.pop(n, None)
        # Times are text on the wire, which the strict models take only from JSON itself.
        return model.model_validate(said, strict=False, extra="ignore")

    async def _listen(self) -> None:
        try:
            while (said := await read_frame(self._reader)) is not None:
                self._take(said)
        finally:
            self.gone.set()
            for answer in self._waiting.values():
                if not answer.done():
                    answer.set_exception(_closed())

    def _take(self, said: dict[str, Any]) -> None:
        answer = self._waiting.get(said["n"])
        if answer is None or answer.done():
            return  # whoever asked does not wait any more
        if "error" in said:
            answer.set_exception(_error(said["error"]))
        else:
            answer.set_result(said.get("ok"))


def _error(said: Mapping[str, Any]) -> ApiError:
    return api_error(said["code"], said["message"], said.get("details"))


def _closed() -> ChannelClosed:
    return ChannelClosed("the parent process is gone")
