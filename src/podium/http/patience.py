"""How long a connection may take over what it does: the clock of the edge.

Waiting is dear to us and free for the peer, so each wait has an end: for the first byte, for the rest
of a head, for the next part of a body, for the next request, and for the peer to take our answer.

It costs next to nothing. There is at most one timer per connection, and it is not set again for every
request or chunk: when it fires it looks what the connection is waiting for *now*, and for how long, and
perhaps looks again later.
"""

from __future__ import annotations

import asyncio
from asyncio import TimerHandle
from enum import Enum, auto
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from podium.http.wire import Edge, Reason

# A loop's clock may tick in milliseconds: a timer that fires a tick early is in time.
TICK_SECONDS = 0.002


class Wait(Enum):
    FIRST_BYTE = auto()
    HEAD = auto()
    BODY = auto()
    NEXT = auto()  # the connection is idle
    LINGER = auto()  # it was refused: the rest is read and forgotten


# The members of an enumeration are slow to find by its name, and this one is needed for each request.
NEXT = Wait.NEXT


class PatientProtocol(HttpToolsProtocol):
    edge: Edge

    # Slots, because the base has 28 attributes: with more than 30, each of them is found more slowly.
    __slots__ = (
        "is_excused",
        "limits",
        "since",
        "timer",
        "timer_due",
        "unsent_bytes",
        "unsent_since",
        "waiting_for",
        "window_bytes",
    )

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.limits = self.edge.limits
        self.timer: TimerHandle | None = None
        self.timer_due = 0.0
        self.waiting_for: Wait | None = None
        self.since = 0.0
        self.window_bytes = 0
        self.is_excused = False
        self.unsent_bytes = 0
        self.unsent_since = 0.0

    def refuse(self, reason: Reason) -> None:
        raise NotImplementedError

    def is_held_up(self) -> bool:
        """Whether more bytes cannot come now, and it is not the peer's fault."""
        raise NotImplementedError

    # --- what the peer sends ---------------------------------------------------------------------

    def wait_for(self, wait: Wait) -> None:
        self.waiting_for = wait
        self.since = self.loop.time()
        self.window_bytes = 0
        # A window that begins so is no measure of the peer, even if it ends otherwise.
        self.is_excused = wait in (Wait.HEAD, Wait.BODY) and self.is_held_up()
        self._look_at(self.since + self._seconds(wait))

    def wait_for_next(self) -> None:
        """As `wait_for`, and shorter: this is done for each request."""
        self.waiting_for = NEXT
        self.since = now = self.loop.time()
        self._look_at(now + self.timeout_keep_alive)

    def _seconds(self, wait: Wait) -> float:
        match wait:
            case Wait.FIRST_BYTE:
                return self.limits.first_byte_seconds
            case Wait.HEAD:
                return self.limits.head_seconds
            case Wait.BODY:
                return self.limits.body_window_seconds
            case Wait.NEXT:
                return self.timeout_keep_alive
            case Wait.LINGER:
                return self.limits.linger_seconds

    def _overdue(self, wait: Wait) -> None:
        match wait:
            case Wait.FIRST_BYTE:
                self.edge.count(Reason.SILENT)
                self.transport.close()
            case Wait.NEXT:
                self.transport.close()
            case Wait.LINGER:
                self.transport.abort()
            case _ if self.is_excused or self.is_held_up():
                self.wait_for(wait)
            case Wait.HEAD:
                self.refuse(Reason.SLOW_HEAD)
            case Wait.BODY if self.window_bytes >= self.limits.body_window_bytes_min:
                self.wait_for(wait)
            case Wait.BODY:
                self.refuse(Reason.SLOW_BODY)

    # --- what the peer takes ---------------------------------------------------------------------

    def pause_writing(self) -> None:
        super().pause_writing()
        self.watch_unsent()

    def resume_writing(self) -> None:
        super().resume_writing()
        # The peer took something, whatever the size of what is waiting looks like later.
        self.unsent_bytes = 0

    def watch_unsent(self) -> None:
        self.unsent_bytes = self.transport.get_write_buffer_size()
        self.unsent_since = self.loop.time()
        self._look_at(self.unsent_since + self.limits.unsent_seconds)

    def _is_unsent_too_long(self, now: float) -> bool:
        unsent = self.transport.get_write_buffer_size()
        if unsent and unsent == self.unsent_bytes:
            return now >= self.unsent_since + self.limits.unsent_seconds - TICK_SECONDS
        self.unsent_bytes = unsent
        self.unsent_since = now
        return False

    # --- the timer -------------------------------------------------------------------------------

    def _look_at(self, when: float) -> None:
        if self.timer is not None:
            if self.timer_due <= when:
                return
            self.timer.cancel()
        # Noted here: what a loop returns for a moment that is now cannot always be asked when it is.
        self.timer_due = when
        self.timer = self.loop.call_at(when, self._look)

    def drop_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def _look(self) -> None:
        self.timer = None
        now = self.loop.time()
        if self._is_unsent_too_long(now):
            self.edge.count(Reason.UNSENT)
            self.transport.abort()
            return
        if self.unsent_bytes:
            self._look_at(self.unsent_since + self.limits.unsent_seconds)
        if self.waiting_for is not None:
            due = self.since + self._seconds(self.waiting_for)
            if now < due - TICK_SECONDS:
                self._look_at(due)
            else:
                self._overdue(self.waiting_for)
