"""What is sent and what comes back: two frozen values, and the headers a caller may not write.

A header is text that ends in a line break, so a value with a line break is two headers. And some
headers are not the caller's to say: where the message ends (framing), and whom it is for (Host).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from podium.kernel.errors import Invalid, TooLarge

KIB = 1024
ANSWER_BYTES_MAX = 64 * KIB
BODY_BYTES_MAX = 16 * KIB * KIB
HEADERS_MAX = 64
HEADER_BYTES_MAX = 16 * KIB
SECONDS_MAX = 10.0
REDIRECTS_MAX = 3
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
HEADER_VALUE = re.compile(r"(?:[!-~](?:[ \t!-~]*[!-~])?)?")

OURS = frozenset(
    {
        "accept-encoding",
        "connection",
        "content-length",
        "expect",
        "host",
        "http2-settings",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)

Header = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    # URL, headers and body may hold secrets: not shown by accident.
    url: str = field(repr=False)
    headers: tuple[Header, ...] = field(default=(), repr=False)
    body: bytes = field(default=b"", repr=False)
    answer_bytes_max: int = ANSWER_BYTES_MAX
    seconds_max: float = SECONDS_MAX
    """For the whole exchange: resolving, connecting, every redirect, the last byte."""
    redirects_max: int = 0
    """0 for callbacks: a redirect is then an answer like any other."""


@dataclass(frozen=True, slots=True)
class Response:
    status: int
    headers: tuple[Header, ...] = field(repr=False)
    body: bytes = field(repr=False)
    url: str = field(repr=False)
    """Where the answer came from, after redirects."""
    http_version: str = "HTTP/1.1"

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300

    def header(self, name: str) -> str | None:
        wanted = name.lower()
        return next((value for key, value in self.headers if key.lower() == wanted), None)

    def retry_after_seconds(self, now: datetime) -> float | None:
        """How long the receiver wants to be left alone; None if it did not say, or not clearly."""
        text = (self.header("retry-after") or "").strip()
        if text.isascii() and text.isdigit():
            return float(text[:9])
        try:
            moment = parsedate_to_datetime(text)
        except (ValueError, OverflowError):
            return None
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return max((moment - now).total_seconds(), 0.0)


def check_request(request: Request) -> None:
    """Invalid, naming the field, for what cannot be sent; for registration and for each call."""
    if request.method not in METHODS:
        raise Invalid(f"method is none of {', '.join(sorted(METHODS))}", field="method")
    if not 0 <= request.redirects_max <= REDIRECTS_MAX:
        raise Invalid(f"redirects_max is not from 0 to {REDIRECTS_MAX}", field="redirects_max")
    if not 0 < request.seconds_max <= 3600:
        raise Invalid("seconds_max is not above 0 and at most 3600", field="seconds_max")
    if request.answer_bytes_max < 0:
        raise Invalid("answer_bytes_max is below 0", field="answer_bytes_max")
    if len(request.body) > BODY_BYTES_MAX:
        raise TooLarge(
            f"body has {len(request.body)} bytes; the most is {BODY_BYTES_MAX}. "
            "Store it as a blob and send its link",
            field="body",
        )
    check_headers(request.headers)


def check_headers(headers: Sequence[Header], field: str = "headers") -> None:
    if len(headers) > HEADERS_MAX:
        raise Invalid(f"{field}: {len(headers)} of them; the most is {HEADERS_MAX}", field=field)
    if sum(len(name) + len(value) for name, value in headers) > HEADER_BYTES_MAX:
        raise TooLarge(f"{field}: more than {HEADER_BYTES_MAX} bytes together", field=field)
    for name, value in headers:
        if not HEADER_NAME.fullmatch(name):
            raise Invalid(f"{field}: {name!r} is no header name", field=field)
        if name.lower() in OURS:
            raise Invalid(f"{field}: {name} is set by the sender; leave it out", field=field)
        if not HEADER_VALUE.fullmatch(value):
            # The value may be a secret: it is not repeated.
            raise Invalid(
                f"{field}: the value of {name} has a line break, a control character, a character "
                "beyond ASCII or a space at an end; encode it",
                field=field,
            )
