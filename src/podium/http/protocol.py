"""The edge below ASGI: what is counted and timed while a request is still bytes.

The server's own protocol keeps whatever arrives: headers without end, for as long as they take. The
guard stands in front of its parser. It feeds it no more than the limits allow, looks at the head before
an application sees it, and watches the clock.

A refusal is answered in turn. If an earlier request on the connection still waits for its answer, that
one goes out first, so that nobody takes our refusal for the answer to something else. Nothing
that arrives behind a refused request is looked at.

Where a method does again what the base does, it is because every request passes there: the whole guard
costs about as much as it saves.
"""

from __future__ import annotations

import asyncio
import secrets
from asyncio import Transport
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

from httptools import (
    HttpParserCallbackError,
    HttpParserError,
    HttpParserInvalidURLError,
    HttpParserUpgrade,
    HttpRequestParser,
)
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle
from websockets.http11 import MAX_LINE_LENGTH

from podium.http.patience import PatientProtocol, Wait
from podium.http.wire import (
    Edge,
    EdgeLimits,
    Reason,
    Refused,
    answer,
    check_coding,
    check_version,
    is_host,
    is_path,
    without_upgrade,
)
from podium.kernel.clock import Clock, SystemClock
from podium.kernel.telemetry import logger

# What may come with a chunk beside its data: enough for its size and two line ends, and then twice the data.
CHUNK_BYTES = 16
OVERHEAD_PER_BYTE = 2

WEBSOCKET_HEADER_BYTES_MAX = MAX_LINE_LENGTH - len(": \r\n")
WEBSOCKET_TARGET_BYTES_MAX = MAX_LINE_LENGTH - len("GET  HTTP/1.1\r\n")

# Headers that are looked at as they come. The others are only counted.
WATCHED = frozenset({b"host", b"transfer-encoding", b"expect"})

log = logger(__name__)


def guarded(
    limits: EdgeLimits | None = None,
    *,
    clock: Clock | None = None,
    trace_id: Callable[[], str] = lambda: secrets.token_hex(16),
    on_refused: Callable[[Reason], None] | None = None,
) -> type[GuardedProtocol]:
    """The protocol for `uvicorn.Config(http=…)`. `.edge.refused` counts refusals by reason."""
    edge = Edge(limits or EdgeLimits(), clock or SystemClock(), trace_id, on_refused)
    return type("Guarded", (GuardedProtocol,), {"edge": edge})


class GuardedProtocol(PatientProtocol):
    __slots__ = (
        "allowed_bytes",
        "answered",
        "codings",
        "excess_bytes",
        "hosts",
        "in_body",
        "is_deaf",
        "is_turned_away",
        "is_upgrade",
        "refuse_after",
        "room_bytes",
        "unread_bytes",
    )

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.is_turned_away = False
        self.is_deaf = False

        # The request that arrives: first its head, for which there is so much room, then its body.
        self.url = b""
        self.headers = []
        self.room_bytes = self.limits.head_bytes_max
        self.hosts = 0
        self.codings = 0
        self.is_upgrade = False
        self.in_body = False
        self.allowed_bytes = 0
        self.excess_bytes = 0
        self.unread_bytes = 0

        # The request that is answered: earlier than the one that arrives, if they are pipelined.
        self.answered: RequestResponseCycle | None = None
        self.refuse_after: Reason | None = None

    # --- the connection --------------------------------------------------------------------------

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.limits.connections_max:
            self._turn_away()
        else:
            self.wait_for(Wait.FIRST_BYTE)

    def _turn_away(self) -> None:
        # It takes no place: those who are told to come back must not keep others out.
        self.connections.discard(self)
        self.edge.count(Reason.CROWDED)
        if self.edge.turned_away >= self.limits.turned_away_max:
            self.transport.abort()
            return
        self.is_turned_away = True
        self.edge.turned_away += 1
        self._write(Reason.CROWDED, self.edge.trace_id())
        self._hang_up()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.is_turned_away:
            self.edge.turned_away -= 1
        self.drop_timer()
        # The base tells the last request only, and that may be one that has not begun.
        self._disconnect(self.answered)
        super().connection_lost(exc)

    def eof_received(self) -> None:
        in_head = self.room_bytes < self.limits.head_bytes_max
        if (self.in_body or in_head) and not self.is_deaf:
            self.refuse(Reason.TRUNCATED)

    def handle_websocket_upgrade(self) -> None:
        self.is_deaf = True
        self.drop_timer()
        super().handle_websocket_upgrade()

    # --- bytes -----------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if self.is_deaf:
            return
        if len(data) <= self.room_bytes:
            self._take(data)
            return
        # In pieces, so that the parser never holds more than a piece of what is not counted yet.
        rest = memoryview(data)
        while rest and not self.is_deaf:
            piece, rest = rest[: self.room_bytes], rest[self.room_bytes :]
            self._take(piece)

    def _take(self, piece: bytes | memoryview) -> None:
        was_in_body = self.in_body
        if was_in_body:
            self.allowed_bytes = 0
        else:
            self.room_bytes -= len(piece)
        rest = 0
        try:
            self.parser.feed_data(piece)
        except HttpParserUpgrade as upgrade:
            rest = upgrade.args[0]
        except HttpParserError as error:
            self.refuse(_reason_of(error))
            return
        if self.is_upgrade:
            self._upgrade(bytes(piece[rest:]))
        elif self.in_body:
            self._go_on_with_body(len(piece) if was_in_body else 0)
        elif self.room_bytes < self.limits.head_bytes_max:
            self._go_on_with_head()

    def _go_on_with_head(self) -> None:
        if len(self.url) > self.limits.target_bytes_max:
            self.refuse(Reason.TARGET_TOO_LONG)
        elif self.room_bytes == 0 or len(self.headers) > self.limits.headers_max:
            self.refuse(Reason.HEAD_TOO_LARGE)
        elif self.waiting_for is not Wait.HEAD:
            self.wait_for(Wait.HEAD)

    def _go_on_with_body(self, size: int) -> None:
        self.window_bytes += size
        self.excess_bytes = max(0, self.excess_bytes + size - self.allowed_bytes)
        if self.cycle.response_complete:
            self.unread_bytes += size
        if self.excess_bytes > self.limits.chunk_overhead_bytes_max:
            self.refuse(Reason.OVERHEAD)
        elif self.unread_bytes > self.limits.unread_body_bytes_max:
            self._hang_up()
        elif self.waiting_for is not Wait.BODY:
            self.wait_for(Wait.BODY)

    def _upgrade(self, rest: bytes) -> None:
        if self._should_upgrade():
            self.handle_websocket_upgrade()
            return
        # We are free to ignore the offer. But the parser takes what follows for another protocol and
        # would lose the body: a new one reads the head again, without the offer.
        version = self.parser.get_http_version()
        head = without_upgrade(self.parser.get_method(), self.url, version, self.headers)
        self.is_upgrade = False
        self.room_bytes = self.limits.head_bytes_max
        self.parser = HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._take(head + rest)

    # --- what the parser finds -------------------------------------------------------------------

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name in WATCHED:
            self._note(name, value)
        self.headers.append((name, value))

    def _note(self, name: bytes, value: bytes) -> None:
        if self.in_body:
            return
        if name == b"host":
            if not is_host(value):
                raise Refused(Reason.HOST)
            self.hosts += 1
        elif name == b"transfer-encoding":
            check_coding(value)
            self.codings += 1
        elif value.lower() == b"100-continue":
            self.expect_100_continue = True

    def on_headers_complete(self) -> None:
        parser, target, limits = self.parser, self.url, self.limits
        version = parser.get_http_version()
        if version != "1.1" or self.hosts != 1:
            check_version(version, hosts=self.hosts, codings=self.codings)
        self.hosts = self.codings = 0
        if len(self.headers) > limits.headers_max:
            raise Refused(Reason.HEAD_TOO_LARGE)
        if len(target) > limits.target_bytes_max:
            raise Refused(Reason.TARGET_TOO_LONG)
        if not is_path(target):
            raise Refused(Reason.TARGET)
        if parser.should_upgrade():
            self._check_upgrade()
        else:
            self._begin_cycle(parser, target, version)

    def _begin_cycle(self, parser: HttpRequestParser, target: bytes, version: str) -> None:
        # As the base does it, but for the target, which by now is a path and not any address.
        raw_path, _, query = target.partition(b"?")
        path = raw_path.decode("ascii")
        scope = self.scope
        scope["method"] = parser.get_method().decode("ascii")
        scope["http_version"] = version
        scope["path"] = self.root_path + (unquote(path) if "%" in path else path)
        scope["raw_path"] = self.root_path.encode("ascii") + raw_path
        scope["query_string"] = query
        self.cycle = cycle = RequestResponseCycle(
            scope=scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=self.access_log,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=self.expect_100_continue,
            keep_alive=version != "1.0" and parser.should_keep_alive(),
            on_response=self.on_response_complete,
        )
        if self.answered is None or self.answered.response_complete:
            self.answered = cycle
            self._start_asgi_task(cycle, self.app)
        elif len(self.pipeline) < self.limits.pipelined_max:
            self.flow.pause_reading()
            self.pipeline.appendleft((cycle, self.app))
        else:
            raise Refused(Reason.TOO_MANY_PIPELINED)
        self.in_body = True
        self.room_bytes = self.limits.head_bytes_max
        self.excess_bytes = self.unread_bytes = 0
        # What comes behind the body must not join the headers that the application looks at.
        self.headers = []

    def _check_upgrade(self) -> None:
        self.is_upgrade = True
        if not self._should_upgrade():
            return
        # Answers and frames would mix, or a body would be taken for frames.
        if self._is_answering() or any(_announces_body(*header) for header in self.headers):
            raise Refused(Reason.FRAMING)
        # The one who takes over would neither read a longer line nor answer it.
        if any(len(name) + len(value) > WEBSOCKET_HEADER_BYTES_MAX for name, value in self.headers):
            raise Refused(Reason.HEAD_TOO_LARGE)
        if len(self.url) > WEBSOCKET_TARGET_BYTES_MAX:
            raise Refused(Reason.TARGET_TOO_LONG)
        super().on_headers_complete()

    def _should_upgrade(self) -> bool:
        return self.parser.get_http_version() == "1.1" and super()._should_upgrade()

    def on_body(self, body: bytes) -> None:
        self.allowed_bytes += len(body) * (1 + OVERHEAD_PER_BYTE) + CHUNK_BYTES
        cycle = self.cycle
        if cycle.response_complete:
            return
        cycle.body += body
        if len(cycle.body) > HIGH_WATER_LIMIT:
            self.flow.pause_reading()
        cycle.message_event.set()

    def on_message_complete(self) -> None:
        if self.is_upgrade:
            return
        self.in_body = False
        self.waiting_for = None
        cycle = self.cycle
        if not cycle.response_complete:
            cycle.more_body = False
            cycle.message_event.set()

    def is_held_up(self) -> bool:
        if self.flow.read_paused or self._is_answering():
            return True
        return self.in_body and self.cycle.waiting_for_100_continue

    # --- answers ---------------------------------------------------------------------------------

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        transport = self.transport
        if transport.get_write_buffer_size():
            self.watch_unsent()
        if transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self.answered, app = self.pipeline.pop()
            self._start_asgi_task(self.answered, app)
        elif self.refuse_after is not None:
            self.refuse(self.refuse_after)
        elif not self.in_body and self.room_bytes == self.limits.head_bytes_max:
            self.wait_for_next()

    def _is_answering(self) -> bool:
        """Whether a request that arrived whole, before the present one, waits for its answer."""
        cycle = self.answered
        if cycle is None or cycle.response_complete:
            return False
        return not (self.in_body and cycle is self.cycle)

    def refuse(self, reason: Reason) -> None:
        if self.transport.is_closing():
            return
        if self._is_answering():
            self._refuse_later(reason)
            return
        trace_id = self.edge.trace_id()
        self.edge.count(reason)
        log.info(
            "request refused at the edge", reason=reason, trace_id=trace_id, client=self.client
        )
        if not (self.in_body and self.cycle.response_started):
            self._write(reason, trace_id)
        self._hang_up()

    def _refuse_later(self, reason: Reason) -> None:
        self.refuse_after = reason
        self.is_deaf = True
        self.waiting_for = None
        if self.in_body:
            # Its head was fine and it stood in the line already.
            self.pipeline.popleft()
            self.in_body = False

    def _write(self, reason: Reason, trace_id: str) -> None:
        now, default_headers = self.edge.clock.now(), self.server_state.default_headers
        headers = [*default_headers, *self.edge.headers_of(reason)]
        self.transport.write(answer(reason, headers, now=now, trace_id=trace_id))

    def _hang_up(self) -> None:
        """Say nothing more and hear nothing more, but leave the peer time to read."""
        self.pipeline.clear()
        self._disconnect(self.answered)
        self._disconnect(self.cycle)
        self.is_deaf = True
        try:
            if self.transport.can_write_eof():
                self.transport.write_eof()
        except OSError:
            pass  # the peer is gone already; the transport will find out
        self.flow.resume_reading()
        self.wait_for(Wait.LINGER)

    def _disconnect(self, cycle: RequestResponseCycle | None) -> None:
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()


def _announces_body(name: bytes, value: bytes) -> bool:
    return name == b"transfer-encoding" or (name == b"content-length" and value != b"0")


def _reason_of(error: HttpParserError) -> Reason:
    cause = error.__context__ if isinstance(error, HttpParserCallbackError) else error
    if isinstance(cause, Refused):
        return cause.reason
    if isinstance(cause, HttpParserInvalidURLError):
        return Reason.TARGET
    if not isinstance(cause, HttpParserError):
        log.error("the edge failed to read a request", trace=cause)
    return Reason.MALFORMED
