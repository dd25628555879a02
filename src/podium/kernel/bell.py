"""The bell: who waits for something is told at once, and polls only in case nobody told it.

A transaction rings channels; they sound after its commit, never before. Inside a process that is
an event; between processes the store carries it (NOTIFY). A ring may be lost between processes,
so each listener also has a longest time that it waits.

A ring can carry a hint, a number whose meaning the channel's owner knows. Hints only make
somebody faster; nothing may depend on one arriving.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from podium.kernel.errors import Invalid

Watcher = Callable[[str, int | None], None]


def check_channel(channel: object) -> None:
    """Refuse, while the transaction can still be refused, what could not be carried afterwards."""
    if not isinstance(channel, str) or not channel.isprintable():
        raise Invalid(f"a bell's channel is a printable text, not {channel!r:.80}", field="channel")


class Bell:
    def __init__(self) -> None:
        self._listeners: dict[str, list[Listener]] = {}
        self._watchers: list[Watcher] = []

    def listen(self, *channels: str) -> Listener:
        listener = Listener(self, channels)
        for channel in channels:
            self._listeners.setdefault(channel, []).append(listener)
        return listener

    def watch(self, watcher: Watcher) -> None:
        """Call `watcher(channel, hint)` on every ring, at once."""
        self._watchers.append(watcher)

    def ring(self, channel: str, hint: int | None = None) -> None:
        for watcher in self._watchers:
            watcher(channel, hint)
        for listener in self._listeners.get(channel, ()):
            listener.wake()

    def ring_all(self) -> None:
        """Wake everybody: something may have been missed."""
        for channel in list(self._listeners):
            self.ring(channel)

    def forget(self, listener: Listener, channels: Iterable[str]) -> None:
        for channel in channels:
            listeners = self._listeners.get(channel, [])
            if listener in listeners:
                listeners.remove(listener)
            if not listeners:
                self._listeners.pop(channel, None)


class Listener:
    """Something to wait on. A ring between two waits is not missed: the next wait returns at once."""

    def __init__(self, bell: Bell, channels: tuple[str, ...]) -> None:
        self._bell = bell
        self._channels = channels
        self._rung = asyncio.Event()

    def wake(self) -> None:
        self._rung.set()

    async def wait(self, seconds: float) -> bool:
        """True when rung, False when `seconds` passed first."""
        try:
            async with asyncio.timeout(seconds):
                await self._rung.wait()
        except TimeoutError:
            return False
        self._rung.clear()
        return True

    def close(self) -> None:
        self._bell.forget(self, self._channels)
