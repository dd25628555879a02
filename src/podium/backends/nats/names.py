"""Our names in theirs. NATS gives dots, stars and blanks a meaning and strips what it takes for noise;
our names may hold any of them.

    orders            podium.bus.orders
    events/audit      podium.bus.events.audit
    Größe, A*         podium.bus.Gr=C3=B6=C3=9Fe=2C=20A=2A
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from urllib.parse import quote, unquote

PLAIN = re.compile(r"[A-Za-z0-9_-]")
ESCAPED = re.compile(rb"=([0-9A-F]{2})")
DURABLE_CHARACTERS_MAX = 200
HEADER_SAFE = "!#$&'()*+,-./:;<=>?@[]^_`{|}~"


@lru_cache(maxsize=1_024)
def subject(prefix: str, source: str) -> str:
    return ".".join([prefix, *map(token, source.split("/"))])


def source(prefix: str, subject: str) -> str | None:
    """The queue or `topic/subscription` of a subject; None when it names neither."""
    if not subject.startswith(f"{prefix}."):
        return None
    names = [_untoken(part) for part in subject.removeprefix(f"{prefix}.").split(".")]
    if len(names) > 2 or not all(names):
        return None
    return "/".join(str(name) for name in names)


@lru_cache(maxsize=1_024)
def durable(source: str) -> str:
    """The consumer that all readers of a source share."""
    # No token has a tilde.
    name = "~".join(map(token, source.split("/")))
    if len(name) <= DURABLE_CHARACTERS_MAX:
        return name
    return f"{name[:100]}~~{hashlib.sha256(source.encode()).hexdigest()[:40]}"


def token(name: str) -> str:
    """One level of a subject. It is never empty, because NATS refuses that."""
    return (
        "".join(
            char if PLAIN.fullmatch(char) else "".join(f"={byte:02X}" for byte in char.encode())
            for char in name
        )
        or "="
    )


def _untoken(text: str) -> str | None:
    try:
        return ESCAPED.sub(lambda match: bytes([int(match[1], 16)]), text.encode()).decode()
    except UnicodeDecodeError:
        return None


def header(text: str) -> str:
    """Any text as a header's value: one line of printable ASCII without blanks."""
    return quote(text, safe=HEADER_SAFE)


def header_name(text: str) -> str:
    return quote(text, safe="")


def unheader(text: str) -> str:
    return unquote(text)
