"""Blobs over HTTP: signed links, where the object store cannot sign its own.

A link is its own permission: it names one key, one method and a moment, and its signature covers all
three. Bytes stream through; an object that is not whole ends the connection before the last byte, so
that nobody takes a part for the whole.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Annotated

from fastapi import Header, Query
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from podium.contracts import blobs as words
from podium.contracts.scopes import Scope
from podium.domains.access.model import Caller
from podium.http import bodies
from podium.http.guard import Declared, Open, get, post
from podium.kernel.blobs import Blob, Blobs, ByteRange, LinkVerdict, signed_path, verify_link
from podium.kernel.clock import Clock
from podium.kernel.errors import Expired, Invalid, InvalidToken
from podium.kernel.secrets import Keyring

PURPOSE = "blob-links"
LINK = "link"
"""Who acts, in the audit log, when a signed link is all that was shown."""
SIGNED = Open("the signature in the link is the key")
RANGE = re.compile(r"bytes=([0-9]{1,18})-([0-9]{0,18})")

Signature = Annotated[str, Query(max_length=100)]
Expires = Annotated[str, Query(max_length=12)]


class BlobsApi:
    def __init__(self, blobs: Blobs, keyring: Keyring, clock: Clock, public_url: str) -> None:
        self._blobs = blobs
        self._keyring = keyring
        self._clock = clock
        self._public_url = public_url

    def routes(self) -> list[Declared]:
        path, raw = "/blobs/{key:path}", {"response_class": Response}
        return [
            get(path, self.fetch, needs=SIGNED, options=raw),
            Declared("HEAD", path, self.head, SIGNED, options={**raw, "include_in_schema": False}),
            Declared("PUT", path, self.put, SIGNED, bodies.ANYTHING, streams_body=True, status=201),
            post("/api/blobs/download-links", self.link_to_fetch, needs=Scope.READ, status=201),
            post("/api/blobs/upload-links", self.link_to_put, needs=Scope.SUBMIT, status=201),
            get("/api/blobs", self.list, needs=Scope.READ),
        ]

    async def link_to_fetch(self, body: words.NewLink) -> words.Link:
        """A link that fetches a blob. It is good for anybody who has it."""
        blob = await self._blobs.head(body.key)
        expires_at = self._clock.now() + timedelta(seconds=body.seconds)
        if blob.expire_at is not None:
            expires_at = min(expires_at, blob.expire_at)
        url = await self._blobs.presign(body.key, seconds=body.seconds, method="GET")
        return words.Link(
            url=url or self._signed(body.key, "GET", expires_at),
            method="GET",
            expires_at=expires_at,
        )

    async def link_to_put(self, body: words.NewLink) -> words.Link:
        """A link that puts a blob, through us: what is kept was counted and hashed."""
        expires_at = self._clock.now() + timedelta(seconds=body.seconds)
        url = self._signed(body.key, "PUT", expires_at)
        return words.Link(url=url, method="PUT", expires_at=expires_at)

    def _signed(self, key: str, method: str, expires_at: datetime) -> str:
        secret = self._keyring.derive(PURPOSE)
        path = signed_path(key, method=method, expires_at=expires_at, secret=secret)
        return self._public_url + path

    async def list(
        self,
        prefix: Annotated[str, Query(max_length=1024)] = "",
        cursor: Annotated[str, Query(max_length=1024)] = "",
        limit: Annotated[int, Query(ge=1, le=500)] = 100,
    ) -> words.Blobs:
        """Blobs by key."""
        blobs = await self._blobs.list(prefix, after=cursor, n=limit)
        more = blobs[-1].key if len(blobs) == limit else None
        return words.Blobs(blobs=[_shown(blob) for blob in blobs], next_cursor=more)

    async def fetch(
        self,
        key: str,
        request: Request,
        expires: Expires = "",
        signature: Signature = "",
        range: Annotated[str | None, Header(max_length=100)] = None,
    ) -> Response:
        """The bytes of a blob, or one range of them."""
        self._refuse_link(key, request.method, expires, signature)
        wanted = _range(range)
        download = await self._blobs.get(key, wanted)
        headers = _headers(download.blob, download.end - download.start)
        if wanted is not None:
            size = download.blob.size_bytes
            headers["content-range"] = f"bytes {download.start}-{download.end - 1}/{size}"
        status = 200 if wanted is None else 206
        return StreamingResponse(download.chunks, status, headers)

    async def head(
        self, key: str, request: Request, expires: Expires = "", signature: Signature = ""
    ) -> Response:
        self._refuse_link(key, request.method, expires, signature)
        blob = await self._blobs.head(key)
        return Response(None, 200, _headers(blob, blob.size_bytes))

    async def put(
        self, key: str, request: Request, expires: Expires = "", signature: Signature = ""
    ) -> words.BlobShown:
        """Store a blob. A key is written once: the same bytes again are welcome, others are refused."""
        self._refuse_link(key, request.method, expires, signature)
        request.scope["podium.caller"] = Caller(LINK, frozenset())
        content_type = request.headers.get("content-type", "application/octet-stream")
        blob = await self._blobs.put(key, request.stream(), content_type=content_type)
        return _shown(blob)

    def _refuse_link(self, key: str, method: str, expires: str, signature: str) -> None:
        verdicts = {
            verify_link(
                key,
                method=method,
                expires=expires,
                signature=signature,
                now=self._clock.now(),
                secret=secret,
            )
            for secret in self._keyring.derive_all(PURPOSE)
        }
        if LinkVerdict.VALID in verdicts:
            return
        if LinkVerdict.EXPIRED in verdicts:
            raise Expired("this link is over; ask for a new one")
        raise InvalidToken("this link was not signed by this server")


def _range(text: str | None) -> ByteRange | None:
    """One range from a start, as `bytes=0-99`. Others are an error, not a surprise."""
    if text is None:
        return None
    match = RANGE.fullmatch(text)
    if match is None:
        raise Invalid("one range is served, as bytes=0-99 or bytes=100-", field="Range")
    return ByteRange(int(match[1]), int(match[2]) + 1 if match[2] else None)


def _headers(blob: Blob, length: int) -> dict[str, str]:
    return {
        "content-type": blob.content_type,
        "content-length": str(length),
        "etag": f'"{blob.sha256}"',
        "accept-ranges": "bytes",
        # Whatever it is, it is a download: a page that somebody uploaded must not run as ours.
        "content-disposition": "attachment",
        "content-security-policy": "sandbox; default-src 'none'",
    }


def _shown(blob: Blob) -> words.BlobShown:
    return words.BlobShown(**blob._asdict())
