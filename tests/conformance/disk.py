"""A disk that can fail, as an SQLite VFS between the store and the real one."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import apsw


class Disk(apsw.VFS):
    """While it is registered, every new connection goes through it."""

    def __init__(self, name: str) -> None:
        self.real = apsw.vfs_names()[0]
        super().__init__(name, self.real, makedefault=True)
        self.sync_fails = False
        self.sync_seconds = 0.0
        self.is_read_only = False
        self.syncs = 0

    def xOpen(self, name: Any, flags: list[int]) -> File:
        if self.is_read_only:
            flags[0] &= ~(apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE)
            flags[0] |= apsw.SQLITE_OPEN_READONLY
        return File(self, name, flags)


class File(apsw.VFSFile):
    def __init__(self, disk: Disk, name: Any, flags: list[int]) -> None:
        super().__init__(disk.real, name, flags)
        self._disk = disk

    def xSync(self, flags: int) -> None:
        self._disk.syncs += 1
        if self._disk.sync_fails:
            raise apsw.IOError("the disk does not sync")
        time.sleep(self._disk.sync_seconds)
        super().xSync(flags)


@contextmanager
def disk() -> Iterator[Disk]:
    disk = Disk("failing")
    try:
        yield disk
    finally:
        disk.unregister()
