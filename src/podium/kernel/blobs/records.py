"""The rows behind the blobs: bodies of transactions, and nothing that touches the object store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from podium.kernel.blobs.model import Blob
from podium.kernel.errors import Conflict, Unavailable
from podium.kernel.store import Row, Tx

UPLOAD_SECONDS_MAX = 20 * 3600.0
"""After so long an upload is taken for dead. With the janitor's rounds nothing is left after a day."""
RETRY_SECONDS = 600.0
"""What could not be removed is tried again after so long."""


class Placed(NamedTuple):
    """A blob, the place of its bytes, and how long it has to live."""

    blob: Blob
    object: str
    left_seconds: float | None = None


class Leftover(NamedTuple):
    object: str
    kind: str


class NewBlob(NamedTuple):
    key: str
    object: str
    size_bytes: int
    digest: str
    content_type: str
    expire_seconds: float | None


async def begin(tx: Tx, object: str) -> None:
    await tx.rows("blobs.begin", object=object, upload_seconds=UPLOAD_SECONDS_MAX)


async def record(tx: Tx, new: NewBlob, *, create_once: bool, linger_seconds: float) -> Placed:
    """Make an uploaded object the blob of its key.

    With `create_once` a blob that is already there is the answer, and nothing has changed: the caller
    sees from the place that it is not its own.
    """
    inserted = await tx.rows("blobs.insert", **new._asdict())
    if not inserted:
        known = await tx.rows("blobs.lock", key=new.key)
        if not known:
            raise Unavailable(f"blob {new.key!r} was removed at this moment; put it again")
        if create_once and not known[0].expired:
            return placed(known[0])
        inserted = await tx.rows("blobs.replace", **new._asdict())
        await leave(tx, [known[0].object], linger_seconds=linger_seconds)
    if not await tx.rows("blobs.finish_upload", object=new.object):
        raise Conflict(
            f"the upload of {new.key!r} took more than {UPLOAD_SECONDS_MAX / 3600:g} hours and was given up"
        )
    return placed(inserted[0])


async def find(tx: Tx, key: str) -> Placed | None:
    rows = await tx.rows("blobs.find", key=key)
    if not rows:
        return None
    left = rows[0].left_micros
    return placed(rows[0])._replace(left_seconds=None if left is None else left / 1e6)


async def page(tx: Tx, *, prefix: str, after: str, n: int) -> list[Blob]:
    rows = await tx.rows(
        "blobs.page", prefix=prefix, prefix_end=f"{prefix}\x7f", after=after, n=n
    )  # every letter of a key is smaller than \x7f
    return [placed(row).blob for row in rows]


async def remove(tx: Tx, key: str, *, linger_seconds: float) -> bool:
    rows = await tx.rows("blobs.remove", key=key)
    await leave(tx, [row.object for row in rows], linger_seconds=linger_seconds)
    return any(not row.expired for row in rows)


async def expire(tx: Tx, n: int, *, linger_seconds: float) -> int:
    """What is over becomes invisible; its objects go later."""
    rows = await tx.rows("blobs.expire", n=n)
    await leave(tx, [row.object for row in rows], linger_seconds=linger_seconds)
    return len(rows)


async def leave(tx: Tx, objects: Sequence[str], *, linger_seconds: float) -> None:
    if objects:
        await tx.rows(
            "blobs.leave", objects=[(each,) for each in objects], linger_seconds=linger_seconds
        )


async def keep(tx: Tx, object: str, *, linger_seconds: float) -> None:
    """Somebody is still reading: not yet."""
    await tx.rows("blobs.keep", object=object, linger_seconds=linger_seconds)


async def claim(tx: Tx, n: int) -> list[Leftover]:
    rows = await tx.rows("blobs.claim", n=n, retry_seconds=RETRY_SECONDS)
    return [Leftover(row.object, row.kind) for row in rows]


async def give_up(tx: Tx, object: str) -> list[Leftover]:
    """Claim an upload to take it back; nothing when it has become a blob after all."""
    # First the claim, which waits for a commit that is under way, and then the question how it ended.
    rows = await tx.rows("blobs.give_up", object=object, retry_seconds=RETRY_SECONDS)
    if await tx.rows("blobs.is_placed", object=object):
        await forget(tx, [object])
        return []
    return [Leftover(row.object, row.kind) for row in rows]


async def forget(tx: Tx, objects: Sequence[str]) -> None:
    await tx.rows("blobs.forget", objects=[(each,) for each in objects])


def placed(row: Row) -> Placed:
    blob = Blob(
        row.key, row.size_bytes, row.sha256, row.content_type, row.created_at, row.expire_at
    )
    return Placed(blob, row.object)
