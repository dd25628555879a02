"""Signed paths: who has one may fetch (or put) one blob until a moment, and nothing else.

For object stores that cannot sign URLs themselves, as a folder. The signature covers the method, the
key and the moment; keys need no escaping in a URL (see `keys`), so there is one way to write a path.
Nothing is stored: a path is valid because we can compute its signature again.
"""

from __future__ import annotations

import base64
import hmac
import re
from datetime import datetime
from enum import StrEnum

from podium.kernel.blobs.keys import refuse_key
from podium.kernel.clock import to_micros

SECRET_BYTES_MIN = 32
EXPIRES = re.compile(r"[1-9][0-9]{0,11}", re.ASCII)
METHODS = frozenset({"GET", "PUT"})


class LinkVerdict(StrEnum):
    VALID = "valid"
    EXPIRED = "expired"
    """It was ours, and is over."""
    FORGED = "forged"
    """Not signed by us: another key, method or moment than was signed, or another secret."""


def signed_path(key: str, *, method: str, expires_at: datetime, secret: bytes) -> str:
    """`/blobs/{key}?expires=…&signature=…`, good for `method` until `expires_at`. GET is good for HEAD."""
    refuse_key(key)
    if method not in METHODS:
        raise ValueError(f"a path is signed for GET or PUT, not for {method}")
    expires = str(to_micros(expires_at) // 1_000_000)
    signature = _signature(key, method, expires, secret)
    return f"/blobs/{key}?expires={expires}&signature={signature}"


def verify_link(
    key: str, *, method: str, expires: str, signature: str, now: datetime, secret: bytes
) -> LinkVerdict:
    """What to make of a path that somebody came with. Takes as long for a good signature as for a bad one."""
    method = "GET" if method == "HEAD" else method
    expected = _signature(key, method, expires, secret)
    ours = hmac.compare_digest(expected.encode(), signature.encode("utf-8", errors="surrogatepass"))
    if not ours or not EXPIRES.fullmatch(expires):
        return LinkVerdict.FORGED
    if to_micros(now) >= int(expires) * 1_000_000:
        return LinkVerdict.EXPIRED
    return LinkVerdict.VALID


def _signature(key: str, method: str, expires: str, secret: bytes) -> str:
    if len(secret) < SECRET_BYTES_MIN:
        raise ValueError(f"the secret for signed paths must have {SECRET_BYTES_MIN} bytes or more")
    # Lines cannot run into each other: the method and a valid key have no newline, and an odd key is not ours.
    text = "\n".join(["podium blob 1", method, expires, key])
    digest = hmac.digest(secret, text.encode("utf-8", errors="surrogatepass"), "sha256")
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
