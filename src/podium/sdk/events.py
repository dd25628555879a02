"""Following the journal: an endless stream that survives its connections.

Each event has an id, the place to go on from. When a connection ends, for whatever reason, the next
one asks for what came after the last id, so that no line is missed and none comes twice.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass

from podium.contracts.work import JournalLine
from podium.sdk.errors import AnswerLost, RateLimited, Unavailable
from podium.sdk.transport import Ask, Transport
from podium.sdk.wire import decode

SILENCE_SECONDS = 15.0
"""A quiet stream says every few seconds that it lives; one that does not is given up."""
RECONNECT_SECONDS_MAX = 60.0
POSITION = re.compile(rb"\d{1,19}-\d{1,19}")


@dataclass(frozen=True, slots=True)
class Event:
    id: str | None
    name: str
    data: bytes


class Place:
    """How far we have read."""

    def __init__(self, after: str | None) -> None:
        self.after = after


async def follow(
    transport: Transport,
    *,
    kind: str | None = None,
    id: str | None = None,
    after: str | None = None,
) -> AsyncIterator[JournalLine]:
    """Lines as they are written, from now on or from `after` on. Raises when nobody answers for long."""
    loop = asyncio.get_running_loop()
    place = Place(after)
    tries, heard_at = 0, loop.time()
    while True:
        try:
            async for line in _connection(transport, place, kind, id):
                tries, heard_at = 0, loop.time()
                if line is not None:
                    yield line
        except (Unavailable, RateLimited) as error:
            tries += 1
            pause_seconds = transport.pause_seconds(error, tries)
            if loop.time() + pause_seconds - heard_at > RECONNECT_SECONDS_MAX:
                raise
            await asyncio.sleep(pause_seconds)


async def _connection(
    transport: Transport, place: Place, kind: str | None, id: str | None
) -> AsyncIterator[JournalLine | None]:
    """What one connection brings; None for signs of life. It never ends well, it only breaks."""
    headers = {"accept": "text/event-stream"}
    if place.after is not None:
        headers["last-event-id"] = place.after
    ask = Ask("GET", "/api/events", query={"kind": kind, "id": id}, headers=headers)
    async with transport.stream(ask, silence_seconds=SILENCE_SECONDS) as response:
        async for event in events(response.aiter_bytes()):
            place.after = event.id or place.after
            if event.name == "journal":
                yield decode(JournalLine, event.data)
            else:
                yield None
    raise AnswerLost("the stream ended")


async def events(chunks: AsyncIterator[bytes]) -> AsyncIterator[Event]:
    """Server-sent events out of bytes. Lines end with LF: text may hold every other separator."""
    rest = b""
    id: str | None = None
    name, data = "message", list[bytes]()
    async for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            field, _, value = line.removesuffix(b"\r").partition(b":")
            value = value.removeprefix(b" ")
            if field == b"id":
                id = value.decode()
            elif field == b"event":
                name = value.decode()
            elif field == b"data":
                data.append(value)
            elif not field and value:
                # A comment: the sign of life of a quiet stream says how far the server has read.
                yield Event(value.decode() if POSITION.fullmatch(value) else None, "beat", b"")
            elif not field and (data or id is not None):
                yield Event(id, name if data else "beat", b"\n".join(data))
                id, name, data = None, "message", []
