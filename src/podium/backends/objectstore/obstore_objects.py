"""What a folder and a bucket have in common: obstore, called from threads.

obstore also has functions that can be awaited. They answer from a thread of Rust's, which may still
hold Python objects when the interpreter ends: of short programs that used them, one in twenty ended
with SIGABRT. The plain functions, in threads of our own that Python joins at its end, do not.
A thread is busy only while bytes move, never while a slow sender or reader thinks.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterable, AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, ParamSpec, TypeVar

import obstore
from obstore.store import LocalStore, S3Store

from podium.backends.objectstore.failures import translated
from podium.kernel.errors import NotFound

P = ParamSpec("P")
R = TypeVar("R")

PART_BYTES = 8 * 1024 * 1024
"""Of a multipart upload. There may be 10,000 parts: 78 GiB."""
PARTS_AT_ONCE = 2
FETCH_BYTES = 4 * 1024 * 1024
PIECE_BYTES = 1024 * 1024
THREADS = 32


class ObstoreObjects(ABC):
    where: str
    """How messages call it; without credentials."""

    _store: LocalStore | S3Store

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="podium-objects")

    @abstractmethod
    async def open(self) -> None: ...

    @abstractmethod
    async def delete(self, name: str) -> None: ...

    @abstractmethod
    async def abort(self, name: str) -> None: ...

    @abstractmethod
    async def presign(self, name: str, *, seconds: int, method: str) -> str | None: ...

    async def close(self) -> None:
        await asyncio.to_thread(self._threads.shutdown)

    async def put(self, name: str, chunks: AsyncIterable[bytes], *, content_type: str) -> None:
        """By a buffer of one part: what fits is one request, and more becomes a multipart upload."""
        writer = await self._call(
            partial(
                obstore.open_writer,
                self._store,
                self._path(name),
                attributes=self._attributes(content_type),
                buffer_size=PART_BYTES,
                max_concurrency=PARTS_AT_ONCE,
            )
        )
        async for piece in gathered(chunks):
            await self._call(writer.write, piece)
        # A writer that is not closed stores nothing.
        await self._call(writer.close)

    async def get(self, name: str, start: int, end: int) -> AsyncIterator[bytes]:
        """A request per few megabytes: a slow reader keeps no connection waiting until it is cut."""
        for at in range(start, end, FETCH_BYTES):
            wanted = min(FETCH_BYTES, end - at)
            fetched = await self._call(
                partial(obstore.get_range, self._store, self._path(name), start=at, length=wanted)
            )
            view = memoryview(fetched)
            for offset in range(0, len(view), PIECE_BYTES):
                yield bytes(view[offset : offset + PIECE_BYTES])
            if len(view) < wanted:
                return

    async def size(self, name: str) -> int | None:
        try:
            meta = await self._call(obstore.head, self._store, self._path(name))
        except NotFound:
            return None
        return int(meta["size"])

    def _path(self, name: str) -> str:
        return name

    def _attributes(self, content_type: str) -> Any:
        return None

    async def _call(self, call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """In a thread, with our own errors. Whoever is cancelled waits for it: half a write is no state."""
        running = asyncio.get_running_loop().run_in_executor(
            self._threads, partial(call, *args, **kwargs)
        )
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            await asyncio.wait([running])
            running.exception()  # looked at, else it would be logged, in the object store's own words
            raise
        except (obstore.exceptions.BaseError, OSError) as error:
            # Not `from error`: an object store's own words may quote what was signed, and with which key.
            raise translated(error, self.where) from None


async def gathered(chunks: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """Small chunks put together, as each one that goes on costs a turn of a thread."""
    waiting: list[bytes] = []
    size = 0
    async for chunk in chunks:
        waiting.append(chunk)
        size += len(chunk)
        if size >= PIECE_BYTES:
            yield b"".join(waiting)
            waiting, size = [], 0
    if size:
        yield b"".join(waiting)
