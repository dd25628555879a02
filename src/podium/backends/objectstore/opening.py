"""From an address to an object store.

    /var/lib/podium/blobs, file:///var/lib/podium/blobs      a folder
    s3://bucket/prefix?endpoint=https://…&region=auto        a bucket; without an endpoint, at AWS

Plain HTTP is spoken only to an endpoint that says so itself.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from podium.backends.objectstore.address import bucket_address, credentials, refuse_address
from podium.backends.objectstore.bucket import Bucket
from podium.backends.objectstore.folder import Folder
from podium.kernel.blobs import Objects


def open_objects(
    url: str,
    *,
    access_key_id: str | None = None,
    secret_access_key: str | None = None,
    session_token: str | None = None,
) -> Objects:
    """The object store at `url`, to be opened; Invalid, naming what is wrong, when there cannot be one.

    Without an access key a bucket is opened with what the environment or the machine's role gives.
    """
    parts = urlsplit(url)
    if "://" not in url:
        return Folder(Path(url))
    if parts.scheme == "file":
        return Folder(_folder(parts))
    if parts.scheme != "s3":
        refuse_address("it begins with s3://, file:/// or the path of a folder")
    return Bucket(
        bucket_address(parts), credentials(access_key_id, secret_access_key, session_token)
    )


def _folder(parts: SplitResult) -> Path:
    if parts.netloc not in ("", "localhost"):
        refuse_address("a folder on this machine has three slashes: file:///path")
    return Path(unquote(parts.path))
