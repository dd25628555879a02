"""One process, with everything it starts: a session of its own that ends when its leader does.

Not the event loop's own subprocesses: those count as ended only when nobody holds their output any
more, and what a dead child has left behind may hold it for ever.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from typing import IO


class Process:
    """Start it from the thread that lives as long as we do: on Linux it dies with that thread."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], inherited_fds: Sequence[int]
    ) -> None:
        """OSError if it cannot be started."""
        self._popen = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            pass_fds=inherited_fds,
            start_new_session=True,
        )
        self.pid = self._popen.pid
        self._is_over = False
        self._loop = asyncio.get_running_loop()
        self.exited: asyncio.Future[int] = self._loop.create_future()
        """Its exit code, negative for a signal. By then its whole group is gone."""
        threading.Thread(target=self._wait, name=f"wait for {self.pid}", daemon=True).start()

    def signal(self, number: signal.Signals) -> None:
        """To the process and everybody in its group."""
        if not self._is_over:
            _signal_group(self.pid, number)

    async def streams(self) -> list[asyncio.StreamReader]:
        """Its output and its errors."""
        pipes = (self._popen.stdout, self._popen.stderr)
        return [await self._reader(pipe) for pipe in pipes if pipe is not None]

    async def _reader(self, pipe: IO[bytes]) -> asyncio.StreamReader:
        reader = asyncio.StreamReader()
        await self._loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
        return reader

    def _wait(self) -> None:
        if hasattr(os, "waitid"):
            # Dead but not collected: until we do that, nobody else can be given its number.
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
            _signal_group(self.pid, signal.SIGKILL)
            self._is_over = True
            code = self._popen.wait()
        else:
            code = self._popen.wait()
            self._is_over = True
            _signal_group(self.pid, signal.SIGKILL)
        try:
            self._loop.call_soon_threadsafe(self._tell, code)
        except RuntimeError:
            pass  # the loop is closed: nobody waits any more

    def _tell(self, code: int) -> None:
        if not self.exited.done():
            self.exited.set_result(code)


def _signal_group(pid: int, number: signal.Signals) -> None:
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):
        pass  # nobody is left in it
