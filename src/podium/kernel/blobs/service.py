"""The blobs of this house: an object store for the bytes, and the table for what is true of them."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterable, AsyncIterator, Sequence

from podium.kernel.blobs import records
from podium.kernel.blobs.keys import refuse_content_type, refuse_key, refuse_prefix
from podium.kernel.blobs.model import Blob, BlobBroken, ByteRange, Download
from podium.kernel.blobs.objects import Objects
from podium.kernel.blobs.records import Leftover, NewBlob, Placed
from podium.kernel.clock import Clock
from podium.kernel.errors import CommitUnknown, Conflict, Invalid, NotFound, TooLarge
from podium.kernel.ids import Ulids
from podium.kernel.store import Store
from podium.kernel.telemetry import logger
from podium.kernel.work import decide

BYTES_MAX = 5 * 1024**3
LINGER_SECONDS = 3600.0
"""How long the bytes of a blob that is gone are still there for who began to read before."""
PRESIGN_SECONDS_MAX = 7 * 86_400
OCTETS = "application/octet-stream"

HASH_BYTES = 1024 * 1024
"""The most that is hashed at a time: a millisecond or two, in which nobody else gets a turn."""
REMOVALS_AT_ONCE = 8

log = logger(__name__)


class Blobs:
    def __init__(
        self,
        store: Store,
        objects: Objects,
        *,
        ids: Ulids,
        clock: Clock,
        bytes_max: int = BYTES_MAX,
        linger_seconds: float = LINGER_SECONDS,
    ) -> None:
        self._store = store
        self._objects = objects
        self._ids = ids
        self._clock = clock
        self._bytes_max = bytes_max
        self._linger_seconds = linger_seconds

    # --- putting ---------------------------------------------------------------------------------

    async def put(
        self,
        key: str,
        chunks: AsyncIterable[bytes],
        *,
        content_type: str = OCTETS,
        expire_seconds: float | None = None,
        create_once: bool = True,
    ) -> Blob:
        """Store what comes, and answer when it is durable and visible.

        With `create_once` a key is written once: the same bytes again get the blob that is there (who
        lost the answer asks again), other bytes are a Conflict. Without it the last one wins.
        TooLarge past the limit. Whatever is raised, nothing has become visible.
        """
        refuse_key(key)
        refuse_content_type(content_type)
        if expire_seconds is not None:
            decide.seconds("expire_seconds", expire_seconds)
        coming = Counted(chunks, bytes_max=self._bytes_max)
        known = await self._store.read(records.find, key) if create_once else None
        if known is not None:
            return await self._compared(known.blob, coming, content_type)
        id = self._ids.new()
        object = f"{id[-2:]}/{id}"
        await self._store.write(records.begin, object)
        try:
            await self._objects.put(object, coming, content_type=content_type)
            await self._refuse_another_size(key, object, coming.size_bytes)
            new = NewBlob(
                key, object, coming.size_bytes, coming.sha256, content_type, expire_seconds
            )
            recorded = await self._store.write(
                records.record, new, create_once=create_once, linger_seconds=self._linger_seconds
            )
        except CommitUnknown:
            # It may be a blob by now. If it is not, the janitor finds it among the leftovers.
            raise
        except BaseException:
            await self._discard(object)
            raise
        if recorded.object != object:
            await self._discard(object)
            _refuse_other_bytes(recorded.blob, coming, content_type)
        return recorded.blob

    async def _compared(self, known: Blob, coming: Counted, content_type: str) -> Blob:
        """The blob that is there, if these are its bytes. Nothing is stored to find out."""
        async for _ in coming:
            if coming.size_bytes > known.size_bytes:
                break
        _refuse_other_bytes(known, coming, content_type)
        return known

    async def _discard(self, object: str) -> None:
        """Take back an object that did not become a blob; what cannot be now, the janitor does later."""
        try:
            await self._remove(await self._store.write(records.give_up, object))
        except Exception as error:
            log.warning("an upload is left to the janitor", object=object, error=str(error))

    # --- asking and getting ----------------------------------------------------------------------

    async def head(self, key: str) -> Blob:
        return (await self._placed(key)).blob

    async def list(self, prefix: str = "", *, after: str = "", n: int = 1_000) -> Sequence[Blob]:
        """Blobs whose key begins with `prefix`, by key, at most `n`, those after the key `after`."""
        refuse_prefix(prefix)
        if after:
            refuse_key(after, field="after")
        decide.refuse_count(n)
        return await self._store.read(records.page, prefix=prefix, after=after, n=n)

    async def get(self, key: str, range: ByteRange | None = None) -> Download:
        """The blob and its bytes, or those of a range. BlobBroken here or in the chunks, never too little."""
        blob, object, _ = await self._placed(key)
        start, end = (0, blob.size_bytes) if range is None else range.within(blob.size_bytes)
        await self._refuse_another_size(key, object, blob.size_bytes)
        return Download(blob, start, end, self._read(blob, object, start, end))

    async def _read(self, blob: Blob, object: str, start: int, end: int) -> AsyncIterator[bytes]:
        coming = Counted(self._objects.get(object, start, end))
        kept_at = self._clock.monotonic()
        held = b""
        try:
            async for chunk in coming:
                if held:
                    yield held
                # The last one is held back until the whole has been checked.
                held = chunk
                if self._clock.monotonic() - kept_at > self._linger_seconds / 3:
                    kept_at = self._clock.monotonic()
                    await self._store.write(
                        records.keep, object, linger_seconds=self._linger_seconds
                    )
        except NotFound:
            raise _broken(blob.key, object, "its object is gone") from None
        if coming.size_bytes != end - start:
            raise _broken(blob.key, object, f"{coming.size_bytes} of {end - start} bytes came")
        if end - start == blob.size_bytes and coming.sha256 != blob.sha256:
            raise _broken(blob.key, object, "its SHA-256 is another")
        if held:
            yield held

    async def presign(self, key: str, *, seconds: int, method: str = "GET") -> str | None:
        """A URL at the object store itself; None where only `links.signed_path` can help.

        That is so for PUT everywhere: bytes that did not come through here were never counted or hashed.
        """
        if type(seconds) is not int or not 1 <= seconds <= PRESIGN_SECONDS_MAX:
            raise Invalid(f"seconds goes from 1 to {PRESIGN_SECONDS_MAX}", field="seconds")
        if method == "PUT":
            return None
        if method not in ("GET", "HEAD"):
            raise Invalid("method is GET, HEAD or PUT", field="method")
        placed = await self._placed(key)
        if placed.left_seconds is not None:
            seconds = max(1, min(seconds, int(placed.left_seconds)))
        return await self._objects.presign(placed.object, seconds=seconds, method=method)

    async def _placed(self, key: str) -> Placed:
        refuse_key(key)
        placed = await self._store.read(records.find, key)
        if placed is None:
            raise NotFound(f"there is no blob {key!r}", key=key)
        return placed

    async def _refuse_another_size(self, key: str, object: str, size_bytes: int) -> None:
        stored = await self._objects.size(object)
        if stored is None:
            raise _broken(key, object, "its object is gone")
        if stored != size_bytes:
            raise _broken(key, object, f"its object has {stored} bytes and not {size_bytes}")

    # --- removing --------------------------------------------------------------------------------

    async def delete(self, key: str) -> bool:
        """Gone for everybody who asks from now on; False when it was not there."""
        refuse_key(key)
        return await self._store.write(records.remove, key, linger_seconds=self._linger_seconds)

    async def collect(self, n: int = 100) -> int:
        """The janitor's duty: hide what has expired, remove what is not wanted. Fewer than `n`: that is all."""
        expired = await self._store.write(records.expire, n, linger_seconds=self._linger_seconds)
        removed = await self._remove(await self._store.write(records.claim, n))
        return expired + removed

    async def _remove(self, leftovers: Sequence[Leftover]) -> int:
        """Remove claimed objects, then their names. What fails comes up again, and is raised at the end."""
        gone: list[str] = []
        failures: list[BaseException] = []
        for at in range(0, len(leftovers), REMOVALS_AT_ONCE):
            some = leftovers[at : at + REMOVALS_AT_ONCE]
            results = await asyncio.gather(
                *(self._remove_object(each) for each in some), return_exceptions=True
            )
            for each, result in zip(some, results, strict=True):
                if result is None:
                    gone.append(each.object)
                else:
                    failures.append(result)
        if gone:
            await self._store.write(records.forget, gone)
        if failures:
            log.warning("objects were not removed", count=len(failures), error=str(failures[0]))
            raise failures[0]
        return len(gone)

    async def _remove_object(self, leftover: Leftover) -> None:
        if leftover.kind == "upload":
            await self._objects.abort(leftover.object)
        await self._objects.delete(leftover.object)


class Counted:
    """Chunks on their way through, in pieces, counted and hashed."""

    def __init__(self, chunks: AsyncIterable[bytes], *, bytes_max: int | None = None) -> None:
        self._chunks = chunks
        self._bytes_max = bytes_max
        self._hash = hashlib.sha256()
        self.size_bytes = 0

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._chunks:
            for start in range(0, len(chunk), HASH_BYTES):
                piece = bytes(chunk[start : start + HASH_BYTES])
                self.size_bytes += len(piece)
                if self._bytes_max is not None and self.size_bytes > self._bytes_max:
                    raise TooLarge(
                        f"there are more than {self._bytes_max} bytes; send less, or raise the limit",
                        field="body",
                        bytes_max=self._bytes_max,
                    )
                self._hash.update(piece)
                yield piece


def _refuse_other_bytes(known: Blob, coming: Counted, content_type: str) -> None:
    if (known.size_bytes, known.sha256, known.content_type) != (
        coming.size_bytes,
        coming.sha256,
        content_type,
    ):
        raise Conflict(
            f"there is a blob {known.key!r} already, and it is another; use a new key",
            key=known.key,
            sha256=known.sha256,
        )


def _broken(key: str, object: str, why: str) -> BlobBroken:
    log.error("a blob is broken", key=key, object=object, why=why)
    return BlobBroken(key, why)
