"""Multipart uploads that nobody will complete.

A process that is killed while it uploads leaves parts in the bucket that no listing shows and that cost
money for ever. obstore cannot list or abort them, so these two requests are made here, signed by hand
(AWS signature version 4). They name one object each: other people's uploads in the bucket are left alone.

With a machine's role instead of an access key we have nothing to sign with; then the bucket needs a rule
that aborts incomplete uploads after a day, which is good to have in any case.
"""

from __future__ import annotations

import hashlib
import hmac
import html
import re
from datetime import UTC, datetime
from urllib.parse import quote, urlencode, urlsplit

import httpx

from podium.backends.objectstore.address import BucketAddress, Credentials
from podium.backends.objectstore.failures import code_in, from_answer

UPLOAD = re.compile(r"<Upload>(.*?)</Upload>", re.DOTALL)
KEY = re.compile(r"<Key>(.*?)</Key>", re.DOTALL)
UPLOAD_ID = re.compile(r"<UploadId>(.*?)</UploadId>", re.DOTALL)
SECONDS_MAX = 30.0
EMPTY_SHA256 = hashlib.sha256(b"").hexdigest()


class Uploads:
    def __init__(self, address: BucketAddress, credentials: Credentials, where: str) -> None:
        self._address = address
        self._credentials = credentials
        self._where = where

    async def abort(self, path: str) -> None:
        """Give up every unfinished upload to the object at `path`."""
        for upload_id in await self.unfinished(path):
            await self._request("DELETE", path, {"uploadId": upload_id})

    async def unfinished(self, path: str) -> list[str]:
        """Their ids. Names are never used twice, so there is one page of them at the very most."""
        text = await self._request("GET", "", {"uploads": "", "prefix": path})
        uploads = UPLOAD.findall(text)
        return [_only(UPLOAD_ID, upload) for upload in uploads if _only(KEY, upload) == path]

    async def _request(self, method: str, path: str, query: dict[str, str]) -> str:
        url = f"{self._address.origin}/{self._address.bucket}{'/' if path else ''}{quote(path)}"
        url += "?" + urlencode(sorted(query.items()), quote_via=quote, safe="")
        headers = signed(method, url, self._address.region, self._credentials, datetime.now(UTC))
        try:
            async with httpx.AsyncClient(timeout=SECONDS_MAX) as client:
                answer = await client.request(method, url, headers=headers)
        except httpx.HTTPError:
            raise from_answer(self._where, None, 0) from None
        # What is not there any more need not be given up.
        if answer.is_success or code_in(answer.text) == "NoSuchUpload":
            return answer.text
        raise from_answer(self._where, code_in(answer.text), answer.status_code)


def signed(
    method: str, url: str, region: str, credentials: Credentials, now: datetime
) -> dict[str, str]:
    """The headers of a request without a body. The query in `url` is sorted and fully escaped."""
    parts = urlsplit(url)
    day, moment = f"{now:%Y%m%d}", f"{now:%Y%m%dT%H%M%SZ}"
    headers = {"host": parts.netloc, "x-amz-content-sha256": EMPTY_SHA256, "x-amz-date": moment}
    if credentials.session_token:
        headers["x-amz-security-token"] = credentials.session_token
    names = ";".join(headers)
    lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
    request = "\n".join([method, parts.path, parts.query, lines, names, EMPTY_SHA256])
    scope = f"{day}/{region}/s3/aws4_request"
    digest = hashlib.sha256(request.encode()).hexdigest()
    text = "\n".join(["AWS4-HMAC-SHA256", moment, scope, digest])
    key = f"AWS4{credentials.secret_access_key}".encode()
    for word in (day, region, "s3", "aws4_request"):
        key = hmac.digest(key, word.encode(), "sha256")
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    headers["authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={credentials.access_key_id}/{scope}, "
        f"SignedHeaders={names}, Signature={signature}"
    )
    return headers


def _only(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return html.unescape(found[1]) if found else ""
