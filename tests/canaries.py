"""Twelve secrets that must never be read again, the forms in which they come back, and who looks."""

from __future__ import annotations

import base64
import io
import json
import logging
import random
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import quote, quote_plus

import orjson

from podium.kernel.redactor import REDACTOR, Redactor
from podium.kernel.telemetry import log_to

RNG = random.Random(39)
SSH_KEY = "\n".join(
    [
        "-----BEGIN OPENSSH PRIVATE KEY-----",
        *(base64.b64encode(RNG.randbytes(52)).decode()[:70] for _ in range(5)),
        "-----END OPENSSH PRIVATE KEY-----",
        "",
    ]
)
PEM_LINES = SSH_KEY.splitlines()
TOKEN = "podium_0123456789ab_" + base64.urlsafe_b64encode(RNG.randbytes(32)).decode().rstrip("=")
WEBHOOK = "whsec_" + base64.b64encode(RNG.randbytes(24)).decode()
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJjYW5hcnkifQ.c2lnbmF0dXJlLWNhbmFyeQ"

CANARIES: dict[str, str | bytes] = {
    "token": TOKEN,
    "HMAC key": b"\xff\x00\x80" + RNG.randbytes(29),
    "SSH key": SSH_KEY,
    "passphrase": 'correct "horse" bättery\\stäple',
    "environment variable": "A=b&c=d;e f%20+/\ttail",
    "S3 access key": "AKIAQYLPMN5HFIQR7CNY",
    "S3 secret key": "wJalrXUtnFEMI/K7MDENG+bPxRfiCYzzCANARYKEY",
    "database URL": "postgres://podium:p%40ss-canary/77@db.internal:5432/podium",
    "JWT": JWT,
    "cookie": "session=s%3Acanary.7f2K/9+x; Path=/",
    "webhook secret": WEBHOOK,
    "short password": "hunter2!",
}


def as_bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


def as_text(value: str | bytes) -> str:
    """As somebody would print it: bytes that are no text print as their repr."""
    return value if isinstance(value, str) else repr(value)


def in_base64(before: int, after: int, encode: Callable[[bytes], bytes]) -> Callable[[bytes], str]:
    """Inside something longer, of which only what belongs to the value counts as a leak."""

    def encoded(value: bytes) -> str:
        whole = encode(b"u" * before + value + b"t" * after).decode()
        return whole[-(-before * 8 // 6) : (before + len(value)) * 8 // 6]

    return encoded


FORMS: dict[str, Callable[[str | bytes], str]] = {
    "plain": as_text,
    "repr": repr,
    "hex": lambda v: as_bytes(v).hex(),
    "URL": lambda v: quote(v, safe=""),
    "URL path": lambda v: quote(v),
    "form field": lambda v: quote_plus(v),
    "URL in small letters": lambda v: re.sub("%..", lambda c: c[0].lower(), quote(v, safe="")),
    "JSON": lambda v: orjson.dumps(as_text(v)).decode(),
    "ASCII JSON": lambda v: json.dumps(as_text(v)),
    "JSON in JSON": lambda v: json.dumps(json.dumps(as_text(v))),
    "base64": lambda v: base64.b64encode(as_bytes(v)).decode(),
    "base64url": lambda v: base64.urlsafe_b64encode(as_bytes(v)).decode(),
    "base64 unpadded": lambda v: base64.b64encode(as_bytes(v)).decode().rstrip("="),
    "base64 in a URL": lambda v: quote(base64.b64encode(as_bytes(v)).decode(), safe=""),
    **{
        f"{kind} after {before} bytes": lambda v, before=before, encode=encode: in_base64(  # type: ignore[misc]
            before, 2, encode
        )(as_bytes(v))
        for kind, encode in (
            ("base64", base64.b64encode),
            ("base64url", base64.urlsafe_b64encode),
        )
        for before in (1, 2, 3)
    },
}


def leaks(text: str, secret: str) -> str | None:
    """Eight characters of the secret that can still be read, or nothing."""
    pieces = (secret[n : n + 8] for n in range(len(secret) - 7))
    return next((piece for piece in pieces if piece in text), None)


def texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for pair in value.items():
            yield from texts(list(pair))
    elif isinstance(value, list):
        for part in value:
            yield from texts(part)


@contextmanager
def captured_log(redactor: Redactor = REDACTOR) -> Iterator[io.StringIO]:
    """The log of this process, while it lasts."""
    root = logging.getLogger("podium")
    before = root.handlers[:], root.level, root.propagate
    stream = io.StringIO()
    log_to(stream, redactor=redactor)
    try:
        yield stream
    finally:
        root.handlers[:], root.level, root.propagate = before[0], before[1], before[2]
