"""Blobs: bytes under a key, whole or visibly broken.

Bytes lie in an object store (a folder, S3, R2), and what is true of them stands in the table `blobs`: key,
size, SHA-256, type, when it expires, and *where* the bytes are. An object to which no row points is not
visible, so a blob appears in one commit, with all of its bytes or not at all.

Every write goes to a place of its own: `object` is a new ULID each time, never the key. Hence

- an overwrite cannot show new bytes under an old hash: the row moves from one place to the other;
- who is reading while it is overwritten or deleted reads on: the old place lingers for a while;
- create-once is the primary key of a table, on whichever store, however many processes;
- keys are no file names: no case, no length and no `..` of a file system can do harm.

Object store and table cannot commit together. So the name of an object is written down (`blob_leftovers`)
before its first byte is sent, and is crossed out by the commit that makes it a blob. Whatever dies in
between, the janitor (`Blobs.collect`) reads there what has to be removed: unfinished uploads after
some hours, what was deleted, overwritten or expired after `linger_seconds`. It never has to go through a
bucket with ten million objects in search of the three that nobody wants.

    keys      which keys there may be
    links     signed paths of our own, for stores that cannot sign
    model     a blob, a range, a download
    objects   what an object store must do
    service   `Blobs`: both together
"""

from podium.kernel.blobs.links import LinkVerdict, signed_path, verify_link
from podium.kernel.blobs.model import Blob, BlobBroken, ByteRange, Download
from podium.kernel.blobs.objects import Objects
from podium.kernel.blobs.service import Blobs

__all__ = [
    "Blob",
    "BlobBroken",
    "Blobs",
    "ByteRange",
    "Download",
    "LinkVerdict",
    "Objects",
    "signed_path",
    "verify_link",
]
