"""Bells between processes: NOTIFY after the commit, LISTEN on a connection of its own.

A NOTIFY inside a transaction makes commits queue behind one another, so it goes in a statement of
its own, afterwards: the first at once, then at most one per few milliseconds, with all channels
that rang meanwhile. If the process dies in between, or the connection is lost, a ring is lost;
whoever waits looks once in a while anyway. After a reconnect everybody is woken.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import orjson
import psycopg

from podium.kernel.bell import Bell
from podium.kernel.telemetry import logger

CHANNEL = "podium"
PATIENCE: dict[str, Any] = {
    # A peer that is gone without a word (a cut cable, a lost route) is noticed in seconds.
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}
PAUSE_SECONDS = 0.005
RECONNECT_SECONDS = 0.5
CHANNELS_PER_NOTIFY = 50
"""A payload holds 8,000 bytes; a channel's name at most 260."""
PAYLOAD_BYTES_MAX = 7_900

log = logger(__name__)


class Doorbell:
    def __init__(self, url: str, bell: Bell, sender: str) -> None:
        self._url = url
        self._bell = bell
        self._sender = sender
        self._rung: dict[str, int | None] = {}
        self._something_rung = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._listening = asyncio.Event()
        self._told: set[str] = set()

    async def open(self) -> None:
        self._tasks = [
            asyncio.create_task(self._listen(), name="podium-listen"),
            asyncio.create_task(self._notify(), name="podium-notify"),
        ]
        await self._listening.wait()

    async def close(self) -> None:
        # Until Python 3.12 a task that is woken in the very moment it is cancelled goes on
        # (asyncio.wait_for), so once is not enough.
        while running := [task for task in self._tasks if not task.done()]:
            for task in running:
                task.cancel()
            await asyncio.wait(running, timeout=0.1)
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def ring(self, rung: Sequence[tuple[str, int | None]]) -> None:
        """Here at once; elsewhere as soon as a NOTIFY goes out."""
        for channel, hint in rung:
            self._bell.ring(channel, hint)
            known = self._rung.get(channel, hint)
            self._rung[channel] = hint if known is None or hint is None else min(known, hint)
        if rung:
            self._something_rung.set()

    async def _notify(self) -> None:
        while True:
            try:
                async with await self._connect("podium-notify") as connection:
                    # A ring that is lost with the whole server wakes nobody it should have.
                    await connection.execute("set synchronous_commit = off")
                    await self._keep_notifying(connection)
            except psycopg.Error as error:
                self._tell_once("bells do not reach the others", error)
            await asyncio.sleep(RECONNECT_SECONDS)

    async def _keep_notifying(self, connection: psycopg.AsyncConnection[Any]) -> None:
        while True:
            await self._something_rung.wait()
            self._something_rung.clear()
            rung, self._rung = self._rung, {}
            try:
                await self._send(connection, list(rung.items()))
            except psycopg.Error:
                # Told once the line is up again: late, and with nothing to begin at.
                self._rung = dict.fromkeys([*rung, *self._rung])
                self._something_rung.set()
                raise
            await asyncio.sleep(PAUSE_SECONDS)

    async def _send(
        self, connection: psycopg.AsyncConnection[Any], rung: list[tuple[str, int | None]]
    ) -> None:
        for start in range(0, len(rung), CHANNELS_PER_NOTIFY):
            part = rung[start : start + CHANNELS_PER_NOTIFY]
            payload = orjson.dumps([self._sender, part]).decode()
            if len(payload.encode()) > PAYLOAD_BYTES_MAX:
                # Too many long names to tell: "look everywhere".
                payload = orjson.dumps([self._sender, []]).decode()
            await connection.execute("select pg_notify(%s, %s)", (CHANNEL, payload))

    async def _connect(self, name: str) -> psycopg.AsyncConnection[Any]:
        return await psycopg.AsyncConnection.connect(
            self._url, autocommit=True, application_name=name, **PATIENCE
        )

    async def _listen(self) -> None:
        while True:
            try:
                async with await self._connect("podium-listen") as connection:
                    await connection.execute(f"listen {CHANNEL}")
                    self._listening.set()
                    self._told.clear()
                    self._bell.ring_all()
                    async for notice in connection.notifies():
                        self._hear(notice.payload)
            except psycopg.Error as error:
                self._tell_once("the bell line is down", error)
            await asyncio.sleep(RECONNECT_SECONDS)

    def _tell_once(self, text: str, error: psycopg.Error) -> None:
        """A database that is away for an hour is one line in the log, not seven thousand."""
        if text not in self._told:
            self._told.add(text)
            log.warning(text, error=str(error))

    def _hear(self, payload: str) -> None:
        try:
            sender, rung = orjson.loads(payload)
            heard = [(str(channel), None if hint is None else int(hint)) for channel, hint in rung]
        except (ValueError, TypeError):
            # Not one of ours. Anybody may call NOTIFY; nobody may end this line by it.
            log.warning("a bell that nobody understands", payload=payload[:100])
            sender, heard = "", []
        if sender == self._sender:
            return
        if not heard:
            self._bell.ring_all()
        for channel, hint in heard:
            self._bell.ring(channel, hint)
