"""The parent's end of a channel: calls in frames, answered by the same services that HTTP uses.

A child runs code of users, so what comes from it is judged like what comes over the network: each
body is validated, only so many calls are answered at a time, and a bad one gets an error for an
answer. Only what is not a frame at all ends the channel.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

import orjson
from pydantic import BaseModel, ValidationError

from podium.contracts.errors import Code
from podium.contracts.work import Claim, Claimed, Enqueue, Grant, Grants, Report
from podium.kernel.errors import PodiumError
from podium.kernel.telemetry import logger
from podium.sdk import desk as words
from podium.sdk.channel import FRAME_BYTES_MAX, BadFrame, frame, open_streams, read_frame
from podium.sdk.desk import WorkDesk
from podium.sdk.errors import TooLarge

CALLS_AT_ONCE_MAX = 64
ENVELOPE_BYTES = 1024
PROBLEMS_MAX = 20

log = logger(__name__)


class Call(NamedTuple):
    model: type[BaseModel]
    function: Callable[[Any], Awaitable[BaseModel]]
    waits: bool = False
    """Of no use once the child is gone, and then cancelled; any other call is finished."""
    fit: Callable[[Any], Awaitable[BaseModel]] | None = None
    """Makes an answer that is too large for a frame into one that is not."""


Calls = Mapping[str, Call]


def work_calls(desk: WorkDesk) -> Calls:
    """The calls of a worker, answered by `desk`."""
    return {
        words.ENQUEUE: Call(Enqueue, desk.enqueue),
        words.CLAIM: Call(Claim, desk.claim, waits=True, fit=lambda it: _fitting(desk, it)),
        words.START: Call(Grants, desk.start),
        words.RENEW: Call(Grants, desk.renew),
        words.RELEASE: Call(Grants, desk.release),
        words.REPORT: Call(Report, desk.report),
    }


async def _fitting(desk: WorkDesk, claimed: Claimed) -> Claimed:
    """As much of it as a frame takes. What does not fit goes back into the line, unharmed."""
    fitting, size = 0, ENVELOPE_BYTES
    for item in claimed.items:
        size += len(item.model_dump_json().encode()) + 1
        if size > FRAME_BYTES_MAX:
            break
        fitting += 1
    rest = [Grant(id=item.id, epoch=item.epoch) for item in claimed.items[fitting:]]
    await desk.release(Grants(grants=rest))
    return Claimed(items=claimed.items[:fitting])


async def serve_channel(sock: socket.socket, calls: Calls) -> None:
    """Answer calls until the other end is gone, or says what is no frame."""
    await _Channel(calls, *await open_streams(sock)).serve()


class _Channel:
    def __init__(
        self, calls: Calls, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._calls = calls
        self._reader = reader
        self._writer = writer
        self._places = asyncio.Semaphore(CALLS_AT_ONCE_MAX)
        self._under_way: dict[asyncio.Task[None], bool] = {}

    async def serve(self) -> None:
        try:
            while (said := await read_frame(self._reader)) is not None:
                await self._places.acquire()
                call = self._calls.get(str(said.get("call")))
                task = asyncio.create_task(self._answer(said, call))
                self._under_way[task] = call is not None and call.waits
                task.add_done_callback(self._finished)
        except BadFrame as error:
            log.error("a channel is closed: its other end does not keep to frames", why=str(error))
        finally:
            await self._finish()

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._places.release()
        del self._under_way[task]

    async def _finish(self) -> None:
        for task, waits in list(self._under_way.items()):
            if waits:
                task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)
        self._writer.close()

    async def _answer(self, said: dict[str, Any], call: Call | None) -> None:
        n = said["n"]
        try:
            content = b'{"n":%d,"ok":%s}' % (n, await _ask(call, said))
            self._writer.write(frame(content))
        except (PodiumError, TooLarge) as error:
            self._refuse(n, error.code, str(error), error.details)
        except ValidationError as error:
            self._refuse(n, Code.VALIDATION_INVALID_PARAMS, *_problems(error))
        except Exception as error:
            log.error("a call over a channel failed", call=str(said.get("call")), trace=error)
            self._refuse(n, Code.INTERNAL_ERROR, "something went wrong here; it was logged", {})
        try:
            await self._writer.drain()
        except ConnectionError:
            pass  # nobody reads the answer any more; `serve` notices by itself

    def _refuse(self, n: int, code: str, message: str, details: Mapping[str, object]) -> None:
        error = {"code": code, "message": message, "details": details}
        self._writer.write(frame(orjson.dumps({"n": n, "error": error}, default=str)))


async def _ask(call: Call | None, said: Mapping[str, Any]) -> bytes:
    if call is None:
        raise _UnknownCall("there is no such call on this channel")
    answer = await call.function(call.model.model_validate(said.get("body")))
    content = answer.model_dump_json().encode()
    if call.fit is not None and len(content) > FRAME_BYTES_MAX - ENVELOPE_BYTES:
        content = (await call.fit(answer)).model_dump_json().encode()
    return content


class _UnknownCall(PodiumError):
    code = Code.METHOD_NOT_ALLOWED


def _problems(error: ValidationError) -> tuple[str, dict[str, object]]:
    """What is wrong, by its place; the values themselves may be large, or secret."""
    fields: list[dict[str, object]] = [
        {"field": ".".join(str(part) for part in each["loc"]), "message": each["msg"]}
        for each in error.errors(include_input=False, include_url=False)[:PROBLEMS_MAX]
    ]
    text = "; ".join(f"{each['field']}: {each['message']}" for each in fields)
    return text, {"fields": fields}
