"""A blob as its readers know it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from podium.kernel.errors import Invalid, PodiumError


class BlobBroken(PodiumError):
    """The object store does not have the bytes that were put. Never raised after a whole, good answer."""

    def __init__(self, key: str, why: str) -> None:
        super().__init__(
            f"blob {key!r} is broken: {why}. Something changed it behind our back; "
            "put it again, or restore the object store",
            key=key,
            reason="blob_broken",
        )


class Blob(NamedTuple):
    key: str
    size_bytes: int
    sha256: str
    """In hexadecimal, of all its bytes."""
    content_type: str
    created_at: datetime
    expire_at: datetime | None


class ByteRange(NamedTuple):
    """Bytes `start` up to, not including, `end`; without an end, to the last one."""

    start: int
    end: int | None = None

    def within(self, size_bytes: int) -> tuple[int, int]:
        """Cut to what there is, as HTTP does; Invalid when that is nothing."""
        end = size_bytes if self.end is None else min(self.end, size_bytes)
        if not 0 <= self.start < end:
            raise Invalid(
                f"range {self.start}-{'' if self.end is None else self.end} has no byte of "
                f"a blob of {size_bytes}",
                field="range",
                size_bytes=size_bytes,
            )
        return self.start, end


@dataclass(frozen=True, slots=True)
class Download:
    blob: Blob
    start: int
    end: int
    chunks: AsyncIterator[bytes]
    """Exactly the bytes from `start` to `end`. If they cannot be had, or the whole has another SHA-256
    than was put, it raises BlobBroken before its last chunk: who counts bytes sees too few."""
