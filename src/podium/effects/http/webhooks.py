"""Signatures in the form of Standard Webhooks: who sent it, when, and not a byte was changed.

    webhook-id: msg_01J…           the same for each try, so that the receiver can count it once
    webhook-timestamp: 1767225600  of this try, so that an old one cannot be sent again
    webhook-signature: v1,K5o… v1,…  HMAC-SHA256 of `id.timestamp.body`, one per secret

Several secrets are for rotation: sign with the new and the old, verify against either.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from podium.contracts.errors import Code
from podium.kernel.clock import to_micros
from podium.kernel.errors import Invalid, PodiumError

TOLERANCE_SECONDS = 300
PREFIX = "whsec_"
KEY_BYTES_MIN, KEY_BYTES_MAX = 24, 64
SIGNATURES_MAX = 16

# Without a dot: in `a.1.2.body` nobody could tell where the id ends.
ID = re.compile(r"[A-Za-z0-9_:-]{1,128}")
TIMESTAMP = re.compile(r"[0-9]{1,12}")


class BadSignature(PodiumError):
    code = Code.AUTH_INVALID_TOKEN


class Verified(NamedTuple):
    id: str
    timestamp: int


def new_secret(entropy: bytes) -> str:
    """The text of a secret, from random bytes that the caller brings."""
    if not KEY_BYTES_MIN <= len(entropy) <= KEY_BYTES_MAX:
        raise ValueError(f"a secret has {KEY_BYTES_MIN} to {KEY_BYTES_MAX} random bytes")
    return PREFIX + base64.b64encode(entropy).decode()


def key_of(secret: str, field: str = "secret") -> bytes:
    """The key in a secret's text. What is wrong is said without repeating the secret."""
    text = secret.removeprefix(PREFIX)
    try:
        key = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not KEY_BYTES_MIN <= len(key) <= KEY_BYTES_MAX:
        raise Invalid(
            f"{field} is not {PREFIX} and {KEY_BYTES_MIN} to {KEY_BYTES_MAX} bytes in base64",
            field=field,
        )
    return key


def sign(id: str, at: datetime, body: bytes, secrets: Iterable[str]) -> dict[str, str]:
    """The three headers of one try."""
    if not ID.fullmatch(id):
        raise Invalid("webhook-id has characters other than A-Z a-z 0-9 _ : -", field="webhook-id")
    timestamp = str(to_micros(at) // 1_000_000)
    signatures = [_mac(key_of(secret), id, timestamp, body) for secret in secrets]
    if not signatures:
        raise Invalid("there is no secret to sign with", field="secrets")
    return {
        "webhook-id": id,
        "webhook-timestamp": timestamp,
        "webhook-signature": " ".join(f"v1,{signature.decode()}" for signature in signatures),
    }


def verify(
    headers: Mapping[str, str],
    body: bytes,
    secrets: Sequence[str],
    now: datetime,
    tolerance_seconds: int = TOLERANCE_SECONDS,
) -> Verified:
    """Who and when, or BadSignature. `body` must be the bytes as they came, not parsed and rebuilt.

    It takes equally long for every wrong signature, and takes headers with any characters at all.
    """
    given = {name.lower(): value for name, value in headers.items()}
    id = given.get("webhook-id", "")
    timestamp = given.get("webhook-timestamp", "")
    if not ID.fullmatch(id) or not TIMESTAMP.fullmatch(timestamp):
        raise BadSignature("webhook-id or webhook-timestamp is missing or malformed")
    expected = [_mac(key_of(secret), id, timestamp, body) for secret in secrets]
    if not _any_equal(expected, _presented(given.get("webhook-signature", ""))):
        raise BadSignature("no webhook-signature fits the body, the id and the timestamp")
    # After the signature: whoever cannot sign learns nothing about our clock.
    age_seconds = to_micros(now) // 1_000_000 - int(timestamp)
    if abs(age_seconds) > tolerance_seconds:
        raise BadSignature(
            f"webhook-timestamp is {abs(age_seconds)} s {'old' if age_seconds > 0 else 'early'}; "
            f"the most is {tolerance_seconds}"
        )
    return Verified(id, int(timestamp))


def _presented(header: str) -> list[bytes]:
    """The signatures of our version. Bytes, since comparing text raises for what is not ASCII."""
    pairs = [part.partition(",") for part in header.split(" ")[:SIGNATURES_MAX]]
    return [value.encode("utf-8", "replace") for version, _, value in pairs if version == "v1"]


def _any_equal(expected: list[bytes], presented: list[bytes]) -> bool:
    """All are compared, whichever fits."""
    fits = [hmac.compare_digest(ours, theirs) for ours in expected for theirs in presented]
    return any(fits)


def _mac(key: bytes, id: str, timestamp: str, body: bytes) -> bytes:
    signed = f"{id}.{timestamp}.".encode() + body
    return base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest())
