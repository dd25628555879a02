"""One engine per file: a second one is refused, and told who has it.

SQLite itself would let both in and make them wait for each other; but each would sweep, count and
wake as if it were alone. The lock belongs to the process and goes with it, also on kill -9.
"""

from __future__ import annotations

import fcntl
import os
import socket
from pathlib import Path

from podium.kernel.clock import Clock
from podium.kernel.errors import StoreHeld, Unavailable

LOOK_SECONDS = 1.0


class FileLock:
    def __init__(self, database: Path) -> None:
        self._database = database
        # Beside the file itself: who comes by another name, through a link, finds the same lock.
        real = database.resolve()
        self._path = real.with_name(real.name + ".lock")
        self._descriptor: int | None = None

    def take(self) -> None:
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise Unavailable(f"{self._path} cannot be opened: {error.strerror}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(descriptor, 200).decode(errors="replace").strip() or "another process"
            os.close(descriptor)
            raise StoreHeld(
                f"{self._database} is in use by {holder}; stop that one first, "
                "or give this one another file",
                holder=holder,
            ) from None
        self._descriptor = descriptor
        try:
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"process {os.getpid()} on {socket.gethostname()}".encode())
        except OSError:
            # A full disk has no room for a name. The lock holds all the same.
            pass

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class SameFile:
    """Is the file that was opened still the one of that name? Writing on into a file that somebody
    deleted or replaced would acknowledge what is gone with the process."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._identity = self._look()
        self._look_again_at = 0.0

    def check(self) -> None:
        now = self._clock.monotonic()
        if now < self._look_again_at:
            return
        if self._look() != self._identity:
            raise Unavailable(
                f"{self._path} was deleted or replaced while in use; restart to use what is there",
                cause="replaced",
            )
        self._look_again_at = now + LOOK_SECONDS

    def _look(self) -> tuple[int, int] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino
