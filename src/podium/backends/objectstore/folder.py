"""A folder as an object store, for a house on one machine.

obstore writes to a file beside (`name#1`) and renames it, but it neither calls fsync nor lets us ask
for it: after a power cut a file that was there may be empty. So we do, for the file and for the folders
that lead to it, before we say that it is stored. Nobody but us can read what is in it: folders are
0700 from the start, and files 0600 before they count.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterable
from pathlib import Path

import obstore
from obstore.store import LocalStore

from podium.backends.objectstore.obstore_objects import ObstoreObjects
from podium.kernel.errors import NotFound

FOLDER_MODE = 0o700
FILE_MODE = 0o600


class Folder(ObstoreObjects):
    where = "the folder of the blobs"

    def __init__(self, root: Path) -> None:
        super().__init__()
        self._root = root.absolute()

    async def open(self) -> None:
        await self._call(_make_root, self._root)
        self._store = await self._call(LocalStore, self._root)

    async def put(self, name: str, chunks: AsyncIterable[bytes], *, content_type: str) -> None:
        await self._call(_make_folder, (self._root / name).parent)
        await super().put(name, chunks, content_type=content_type)
        await self._call(_make_durable, self._root, self._root / name)

    async def delete(self, name: str) -> None:
        try:
            await self._call(obstore.delete, self._store, self._path(name))
        except NotFound:
            return
        # A file that came back after a power cut would never be found again: nobody knows its name any more.
        await self._call(sync, (self._root / name).parent)

    async def abort(self, name: str) -> None:
        await self._call(_remove_unfinished, self._root / name)

    async def presign(self, name: str, *, seconds: int, method: str) -> str | None:
        return None


def _make_root(root: Path) -> None:
    """Its parents as they come, itself for us alone; one that was there keeps the mode it was given."""
    root.parent.mkdir(parents=True, exist_ok=True)
    _make_folder(root)
    sync(root.parent)


def _make_folder(folder: Path) -> None:
    folder.mkdir(mode=FOLDER_MODE, exist_ok=True)


def _make_durable(root: Path, file: Path) -> None:
    file.chmod(FILE_MODE)
    for path in (file, file.parent, root):
        sync(path)


def _remove_unfinished(file: Path) -> None:
    """What obstore was writing when this process, or one before it, was killed."""
    for part in file.parent.glob(f"{file.name}#*"):
        part.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """A folder or a file, down to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
