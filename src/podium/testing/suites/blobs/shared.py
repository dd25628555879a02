"""What the suites for blobs share: a shelf, senders and readers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import pytest

from podium.kernel.blobs import Blobs, ByteRange, Download, Objects
from podium.testing.worlds import World

KIB = 1024
MIB = 1024 * KIB
HOUR = 3600.0
LINGER = HOUR
TEXT = b"It was a dark and stormy night; the rain fell in torrents."


class Shelf(ABC):
    objects: Objects

    @abstractmethod
    async def lying(self) -> list[str]:
        """Everything that lies there, temporary files and unfinished uploads included."""


class BlobSuiteBase:
    @pytest.fixture
    def blobs(self, world: World, shelf: Shelf) -> Blobs:
        return blobs_of(world, shelf)


def blobs_of(world: World, shelf: Shelf, **settings: int) -> Blobs:
    return Blobs(world.store, shelf.objects, ids=world.ids(), clock=world.clock, **settings)


class Stop(Exception):
    """A sender that gives up."""


async def sent(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


async def broken_off(chunks: Iterable[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk
    raise Stop


async def many(count: int, size: int = MIB) -> AsyncIterator[bytes]:
    """`count` chunks, each another."""
    for n in range(count):
        yield n.to_bytes(4, "big") * (size // 4)


async def read(blobs: Blobs, key: str, range: ByteRange | None = None) -> bytes:
    download = await blobs.get(key, range)
    return b"".join([chunk async for chunk in download.chunks])


async def collect(download: Download, came: list[bytes]) -> None:
    """Chunk by chunk, so that what came is known when the rest does not."""
    async for chunk in download.chunks:
        came.append(chunk)


async def keys(blobs: Blobs, prefix: str = "") -> list[str]:
    return [blob.key for blob in await blobs.list(prefix)]


async def object_of(world: World, key: str) -> str:
    name: str = (await world.query("select object from blobs where key = :key", key=key))[0].object
    return name


async def leftovers(world: World) -> int:
    count: int = (await world.query("select count(*) as count from blob_leftovers"))[0].count
    return count


async def replace_object(shelf: Shelf, name: str, *chunks: bytes) -> None:
    """What only somebody else can do: other bytes in the same place."""
    await shelf.objects.delete(name)
    await shelf.objects.put(name, sent(*chunks), content_type="text/plain")


class PeakMemory:
    """Of this process, whoever allocates: Python cannot see what an extension takes."""

    def __init__(self) -> None:
        self._before = 0

    def mark(self) -> None:
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins again from here
        self._before = self._peak_bytes()

    def grown_bytes(self) -> int:
        return self._peak_bytes() - self._before

    def _peak_bytes(self) -> int:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * KIB
        raise AssertionError("this system does not say how much memory was used")
