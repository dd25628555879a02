"""What an object store must do for us: little.

Names come from `Blobs` and are never used twice, so nothing is ever overwritten and nobody reads what
is being written. All raise Unavailable when the store does not answer or does not let us in, with
words that say what to do and show no secret.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator
from typing import Protocol


class Objects(Protocol):
    async def open(self) -> None:
        """Make sure that we are let in, so that a wrong address or key shows at the start."""

    async def close(self) -> None: ...

    async def put(self, name: str, chunks: AsyncIterable[bytes], *, content_type: str) -> None:
        """Store the bytes under a new name, a part at a time. When this returns they are durable.

        Errors of `chunks` come out as they are. What a put that failed has left behind is removed by
        `abort`.
        """

    def get(self, name: str, start: int, end: int) -> AsyncIterator[bytes]:
        """The bytes from `start` up to `end`, in pieces; NotFound when there is no such object.

        Fewer than asked for when the object is shorter: the caller counts.
        """

    async def size(self, name: str) -> int | None:
        """In bytes; None when there is no such object."""

    async def delete(self, name: str) -> None:
        """Remove an object. It is no mistake when there is none."""

    async def abort(self, name: str) -> None:
        """Remove what a put that never came to its end has left: parts, temporary files."""

    async def presign(self, name: str, *, seconds: int, method: str) -> str | None:
        """A URL with which anybody can GET or HEAD the object for so long; None where there is no such thing."""
