"""Server-sent events: the journal, live.

    curl -N -H "Authorization: Bearer $PODIUM_TOKEN" $PODIUM_URL/api/events?kind=work

Each line of the journal is one event, its id the place to go on from. A token that is revoked ends
its streams within five seconds.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Annotated

import orjson
from fastapi import Header, Query
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Send
from starlette.types import Scope as AsgiScope

from podium.contracts.scopes import Scope
from podium.http.errors import Overloaded
from podium.http.guard import Declared, Gate, get
from podium.http.house import House
from podium.http.hub import Hub, Overflow, Stream
from podium.http.load import load_of
from podium.http.work import journal_line
from podium.kernel.errors import Forbidden, Invalid, InvalidToken, PodiumError
from podium.kernel.journal import Line, Position
from podium.kernel.telemetry import logger

EVENTS = "text/event-stream"
BEAT_SECONDS = 3.0
"""How often a quiet stream says that it lives, and asks whether its caller still may."""
BYTES_PER_SEND_MAX = 64 * 1024
POSITION = re.compile(r"([0-9]{1,18})-([0-9]{1,18})")

log = logger(__name__)

Kind = Annotated[str | None, Query(min_length=1, max_length=50)]
Id = Annotated[str | None, Query(min_length=1, max_length=255)]
After = Annotated[str | None, Query(max_length=40)]
LastEventId = Annotated[str | None, Header(alias="Last-Event-ID", max_length=40)]


class EventsApi:
    def __init__(self, house: House, gate: Gate) -> None:
        self._house = house
        self._gate = gate
        self._hub = Hub(house.store)
        self._open_count = 0

    def routes(self) -> list[Declared]:
        return [
            get(
                "/api/events",
                self.events,
                needs=Scope.READ,
                is_for_browsers=True,
                options={
                    "response_class": StreamingResponse,
                    "responses": {200: {"content": {EVENTS: {"schema": {"type": "string"}}}}},
                },
            )
        ]

    async def events(
        self,
        request: Request,
        kind: Kind = None,
        id: Id = None,
        after: After = None,
        last: LastEventId = None,
    ) -> Response:
        """The journal as it is written, from now on or from `after` / `Last-Event-ID` on."""
        stream = await self._hub.open(_position(last or after))
        if self._open_count >= self._house.front.streams_max:
            raise Overloaded("too many streams are open; try again later")
        return _Streaming(self, request, stream, self._send(request, stream, kind, id))

    @contextmanager
    def opened(self, request: Request, stream: Stream) -> Iterator[None]:
        self._open_count += 1
        self._house.metrics.http_streams.inc()
        try:
            with load_of(request).waiting():
                yield
        finally:
            stream.close()
            self._open_count -= 1
            self._house.metrics.http_streams.dec()

    async def _send(
        self, request: Request, stream: Stream, kind: str | None, id: str | None
    ) -> AsyncIterator[bytes]:
        checked_at = self._house.clock.monotonic()
        try:
            # With its place, so that who loses the connection now goes on from here.
            yield b": connected\n" + _beat(stream)
            while not self._house.readiness.is_stopping:
                lines = await stream.next(BEAT_SECONDS)
                wanted = [line for line in lines if _is_wanted(line, kind, id)]
                for part in _parts(wanted) if lines else [_beat(stream)]:
                    checked_at = await self._check_again(request, checked_at)
                    yield part
                checked_at = await self._check_again(request, checked_at)
        except Overflow:
            yield b"event: overflow\ndata: {}\n\n"
        except PodiumError as error:
            log.info("a stream was ended", error=str(error))

    async def _check_again(self, request: Request, checked_at: float) -> float:
        """Whether the caller still may, asked now and then: when it was asked last."""
        now = self._house.clock.monotonic()
        if now - checked_at < BEAT_SECONDS:
            return checked_at
        try:
            await self._gate.identify(request, with_cookie=True)
        except (InvalidToken, Forbidden):
            raise
        except PodiumError as error:
            # The store is away, or somebody at this address guesses tokens: not this caller's doing.
            log.info("a stream's caller could not be checked", error=str(error))
        return now


class _Streaming(StreamingResponse):
    """Counts as open from its beginning to its end, however it ends."""

    def __init__(
        self, api: EventsApi, request: Request, stream: Stream, parts: AsyncIterator[bytes]
    ) -> None:
        super().__init__(parts, media_type=EVENTS)
        self._opened = api.opened(request, stream)

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        with self._opened:
            await super().__call__(scope, receive, send)


def _is_wanted(line: Line, kind: str | None, id: str | None) -> bool:
    return (kind is None or line.kind == kind) and (id is None or line.aggregate_id == id)


def _parts(lines: list[Line]) -> list[bytes]:
    """Many events per send, but never a huge one."""
    parts, size, waiting = [], 0, []
    for line in lines:
        event = _event(line)
        waiting.append(event)
        size += len(event)
        if size >= BYTES_PER_SEND_MAX:
            parts.append(b"".join(waiting))
            size, waiting = 0, []
    return [*parts, b"".join(waiting)] if waiting else parts


def _beat(stream: Stream) -> bytes:
    """Nothing of interest: a comment, so that both sides know that the other is there."""
    return f": {stream.position.tx}-{stream.position.seq}\n\n".encode()


def _event(line: Line) -> bytes:
    said = journal_line(line)
    data = orjson.dumps(said.model_dump(mode="json"))
    # JSON has no raw line breaks, so no text of a user's can begin a field of its own.
    return b"id: %s\nevent: journal\ndata: %s\n\n" % (said.position.encode(), data)


def _position(text: str | None) -> Position | None:
    if text is None:
        return None
    match = POSITION.fullmatch(text)
    if match is None:
        raise Invalid("it is the id of an event, as 0-17", field="Last-Event-ID")
    return Position(int(match[1]), int(match[2]))
