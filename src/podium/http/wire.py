"""What may come over the wire: the limits, and what the head of a request must look like.

A refusal down here happens before there is a request to speak of, so its words are constants: they
never repeat what was sent. `protocol` counts and times the bytes; this module only judges.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from http import HTTPStatus
from typing import NamedTuple

from podium.contracts.errors import Code
from podium.http.errors import envelope
from podium.kernel.clock import Clock

KIBIBYTE = 1024

HOST = re.compile(rb"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")


@dataclass(frozen=True, slots=True)
class EdgeLimits:
    """What one connection may cost, and for how long."""

    # A head is the request line and the headers. Bytes are counted as they arrive, before they are kept.
    head_bytes_max: int = 32 * KIBIBYTE
    target_bytes_max: int = 8 * KIBIBYTE
    headers_max: int = 100

    # Requests that wait behind the one being answered.
    pipelined_max: int = 64

    # Chunk sizes, extensions and trailers beyond what real chunks need (see `protocol.on_body`).
    chunk_overhead_bytes_max: int = 16 * KIBIBYTE

    # Of a body whose answer is out already: read this much for the sake of the next request, then hang up.
    unread_body_bytes_max: int = 256 * KIBIBYTE

    # A new connection says something; a head is whole this long after its first byte.
    first_byte_seconds: float = 30.0
    head_seconds: float = 10.0

    # In each window at least so much of a body. Time in which we do not read does not count.
    body_window_seconds: float = 20.0
    body_window_bytes_min: int = KIBIBYTE

    # An answer of which the peer takes nothing for so long is given up.
    unsent_seconds: float = 60.0

    # After a refusal we go on reading, and forget it: closing at once would reset the connection,
    # and a peer that is still sending would lose the answer.
    linger_seconds: float = 2.0

    # Whoever comes when all places are taken is told so. Of those we tell, only so many at a time.
    connections_max: int = 10_000
    turned_away_max: int = 1_000
    retry_after_seconds: int = 1


class Reason(StrEnum):
    """Why the edge refused: a label for metrics and logs."""

    MALFORMED = "malformed"
    VERSION = "version"
    TARGET = "target"
    HOST = "host"
    FRAMING = "framing"
    TRUNCATED = "truncated"
    OVERHEAD = "overhead"
    TARGET_TOO_LONG = "target_too_long"
    HEAD_TOO_LARGE = "head_too_large"
    TOO_MANY_PIPELINED = "too_many_pipelined"
    SLOW_HEAD = "slow_head"
    SLOW_BODY = "slow_body"
    CROWDED = "crowded"
    # These two are not told: nobody asked, or nobody listens.
    SILENT = "silent"
    UNSENT = "unsent"


@dataclass(slots=True)
class Edge:
    """What the connections of one server share."""

    limits: EdgeLimits
    clock: Clock
    trace_id: Callable[[], str]
    on_refused: Callable[[Reason], None] | None
    refused: Counter[Reason] = field(default_factory=Counter)
    turned_away: int = 0

    def count(self, reason: Reason) -> None:
        self.refused[reason] += 1
        if self.on_refused is not None:
            self.on_refused(reason)

    def headers_of(self, reason: Reason) -> Iterable[tuple[bytes, bytes]]:
        if reason is Reason.CROWDED:
            yield b"retry-after", b"%d" % self.limits.retry_after_seconds


class Words(NamedTuple):
    status: int
    code: Code
    message: str


def _invalid(status: int, message: str) -> Words:
    return Words(status, Code.VALIDATION_INVALID_PARAMS, message)


WORDS: Mapping[Reason, Words] = {
    Reason.MALFORMED: _invalid(400, "this is not a well-formed HTTP/1.1 request"),
    Reason.VERSION: _invalid(400, "only HTTP/1.1 and HTTP/1.0 are spoken here"),
    Reason.TARGET: _invalid(400, "the request target must be a path, beginning with a slash"),
    Reason.HOST: _invalid(400, "exactly one Host header with a host name is needed"),
    Reason.FRAMING: _invalid(400, "where the body ends must be clear: one length, or chunks"),
    Reason.TRUNCATED: _invalid(400, "the connection ended before the request did"),
    Reason.OVERHEAD: _invalid(400, "the chunks of the body carry too little of it"),
    Reason.TARGET_TOO_LONG: _invalid(414, "the request target is too long"),
    Reason.HEAD_TOO_LARGE: _invalid(431, "the headers are too many or too large"),
    Reason.TOO_MANY_PIPELINED: Words(
        429, Code.RATE_LIMIT_EXCEEDED, "too many requests wait on this connection"
    ),
    Reason.SLOW_HEAD: _invalid(408, "the headers took too long to arrive"),
    Reason.SLOW_BODY: _invalid(408, "the body arrives too slowly"),
    Reason.CROWDED: Words(503, Code.SERVICE_UNAVAILABLE, "too many connections; try again later"),
}


class Refused(Exception):
    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason = reason


def answer(
    reason: Reason, headers: Iterable[tuple[bytes, bytes]], *, now: datetime, trace_id: str
) -> bytes:
    """A whole response, and the last one on its connection."""
    words = WORDS[reason]
    body = envelope(words.code, words.message, {}, now=now, trace_id=trace_id)
    lines = [
        b"HTTP/1.1 %d %b" % (words.status, HTTPStatus(words.status).phrase.encode()),
        b"content-type: application/json",
        b"content-length: %d" % len(body),
        b"connection: close",
        *(b"%b: %b" % header for header in headers),
    ]
    return b"\r\n".join([*lines, b"", body])


def is_path(target: bytes) -> bool:
    """Origin form only: a path, and perhaps a query. A full address (`http://…`) would name a host
    beside the Host header, and whoever decides by one of the two is fooled by the other.

    The parser has refused blanks, control characters and everything beyond ASCII.
    """
    return target[:1] == b"/" and b"#" not in target


def check_version(version: str, *, hosts: int, codings: int) -> None:
    """HTTP/1.0 needs no Host and has no codings; what else the parser knows is not spoken here."""
    if version not in ("1.0", "1.1"):
        raise Refused(Reason.VERSION)
    if hosts != 1 and (hosts > 1 or version == "1.1"):
        raise Refused(Reason.HOST)
    if codings and version == "1.0":
        raise Refused(Reason.FRAMING)


@lru_cache(maxsize=64)
def is_host(value: bytes) -> bool:
    return HOST.fullmatch(value) is not None


def check_coding(value: bytes) -> None:
    """Any other would reach the application undecoded, or end somewhere else for somebody else."""
    if value.lower() != b"chunked":
        raise Refused(Reason.FRAMING)


def without_upgrade(
    method: bytes, target: bytes, version: str, headers: Iterable[tuple[bytes, bytes]]
) -> bytes:
    """The same head again, as if its sender had not asked for another protocol."""
    lines = [b"%b %b HTTP/%b" % (method, target, version.encode())]
    lines += [b"%b: %b" % (name, value) for name, value in headers if name != b"upgrade"]
    return b"\r\n".join([*lines, b"", b""])
