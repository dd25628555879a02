"""Shapes that say by themselves that they are secret, whoever made them."""

from __future__ import annotations

import re
from typing import NamedTuple

MASK = "[secret]"


class Shape(NamedTuple):
    needle: str
    """What a text of this shape contains, in lower case: a cheap question before the costly one."""
    pattern: re.Pattern[str]
    instead: str


# Each stops at a double quote, so that a match in JSON stays inside one of its texts, and each
# keeps the part that is no secret, because it says whose secret got lost.
AUTHORIZATION = Shape(
    "authorization",
    re.compile(
        r"(authorization\\*[\"']?\s*[:=,]\s*b?\\*[\"']?(?:[a-z][\w-]*\s+)?)"
        r"(?!(?:bearer|basic|digest)\b)[^\s\"',\\]{6,}",
        re.I | re.A,
    ),
    rf"\1{MASK}",
)
SHAPES = (
    Shape(
        "podium_",
        re.compile(r"(podium_[A-Za-z0-9]{12}_)[\w-]{16,}", re.A),
        rf"\1{MASK}",
    ),
    Shape("whsec_", re.compile(r"(whsec_)[\w+/=-]{16,}", re.A), rf"\1{MASK}"),
    AUTHORIZATION,
    Shape(
        "bearer",
        re.compile(r"(\bbearer\s+)(?!auth|token)[\w.~+/=-]{8,}", re.I | re.A),
        rf"\1{MASK}",
    ),
    Shape(
        "://",
        re.compile(r"(://[^\s/:@\"<>]*:)[^\s/\"<>]+(@)"),
        rf"\1{MASK}\2",
    ),
    Shape(
        "private key",
        # To the end where its own end is missing: a text that was cut off ends in the key.
        re.compile(
            r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"
            r".*?(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\Z)",
            re.S,
        ),
        MASK,
    ),
)


def mask_shapes(text: str) -> str:
    """Strike out what looks like a secret, whoever made it."""
    folded = text.lower()
    for needle, pattern, instead in SHAPES:
        if needle in folded:
            text = pattern.sub(instead, text)
    return text
