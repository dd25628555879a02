"""A bucket that speaks S3: AWS, R2, and whatever else does.

Each request's body is signed with its SHA-256, so the store itself refuses bytes that changed on the
way. A large object goes up in parts, and is there only when the upload is completed.
"""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any

import obstore
from obstore.store import S3Store

from podium.backends.objectstore.address import BucketAddress, Credentials
from podium.backends.objectstore.obstore_objects import ObstoreObjects
from podium.backends.objectstore.uploads import Uploads

REQUEST_SECONDS_MAX = 120
"""For one part or one range: at 70 kB/s it is over."""
CONNECT_SECONDS_MAX = 5
TRIES_AGAIN = 4
TRIES_SECONDS_MAX = 20


class Bucket(ObstoreObjects):
    def __init__(self, address: BucketAddress, credentials: Credentials | None) -> None:
        super().__init__()
        self.where = f"bucket {address.bucket!r} at {address.origin}"
        self._address = address
        self._uploads = Uploads(address, credentials, self.where) if credentials else None
        self._store: S3Store = S3Store(address.bucket, **_settings(address, credentials))

    async def open(self) -> None:
        # A list, not a head: the answer to a head has no words that say what is wrong.
        listing = obstore.list(self._store, self._address.prefix + "opening", chunk_size=1)
        await self._call(listing.collect)

    async def delete(self, name: str) -> None:
        await self._call(obstore.delete, self._store, self._path(name))

    async def abort(self, name: str) -> None:
        if self._uploads is not None:
            await self._uploads.abort(self._path(name))

    async def presign(self, name: str, *, seconds: int, method: str) -> str | None:
        assert method == "GET" or method == "HEAD", "Blobs asks for nothing else"
        sign = partial(
            obstore.sign, self._store, method, self._path(name), timedelta(seconds=seconds)
        )
        return await self._call(sign)

    def _path(self, name: str) -> str:
        return self._address.prefix + name

    def _attributes(self, content_type: str) -> Any:
        return {"Content-Type": content_type}


def _settings(address: BucketAddress, credentials: Credentials | None) -> dict[str, Any]:
    values: dict[str, Any] = {
        "region": address.region,
        "virtual_hosted_style_request": False,
        "client_options": {
            "allow_http": address.origin.startswith("http://"),
            "timeout": timedelta(seconds=REQUEST_SECONDS_MAX),
            "connect_timeout": timedelta(seconds=CONNECT_SECONDS_MAX),
        },
        "retry_config": {
            "max_retries": TRIES_AGAIN,
            "retry_timeout": timedelta(seconds=TRIES_SECONDS_MAX),
            "backoff": {
                "init_backoff": timedelta(milliseconds=100),
                "max_backoff": timedelta(seconds=2),
                "base": 2,
            },
        },
        # Not every store of this kind knows how to delete many at once; we delete one by one anyway.
        "disable_bulk_delete": True,
    }
    if address.endpoint:
        values["endpoint"] = address.endpoint
    if credentials:
        values["access_key_id"] = credentials.access_key_id
        values["secret_access_key"] = credentials.secret_access_key
        if credentials.session_token:
            values["session_token"] = credentials.session_token
    return values
