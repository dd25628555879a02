"""Which keys there may be.

A key is a path of plain segments, `exports/01JZ…/result.xml`. It is a list of what is allowed and not
of what is dangerous: a key then means the same in a URL, in a header and on a screen, needs no escaping
anywhere, and cannot be written in two ways.
"""

from __future__ import annotations

import re

from podium.kernel.errors import Invalid

KEY_BYTES_MAX = 1024
CONTENT_TYPE_MAX = 255

LETTERS = "A-Za-z0-9_=@+~,-"
SEGMENT = rf"[{LETTERS}](?:[{LETTERS}.]*[{LETTERS}])?"
KEY = re.compile(rf"{SEGMENT}(?:/{SEGMENT})*")
PREFIX = re.compile(rf"(?:{SEGMENT}/)*(?:[{LETTERS}][{LETTERS}.]*)?")
CONTENT_TYPE = re.compile(
    r"[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+(?:; ?[A-Za-z0-9-]+=[!-~]+)*"
)


def refuse_key(key: object, *, field: str = "key") -> None:
    """Invalid, naming `field`, unless it is a key."""
    if not _fits(KEY, key):
        raise Invalid(
            f"{field} must be segments of A-Z a-z 0-9 . _ = @ + ~ , - joined by single slashes, none "
            f"beginning or ending with a dot, and at most {KEY_BYTES_MAX} bytes",
            field=field,
        )


def refuse_prefix(prefix: object) -> None:
    """Invalid unless some key could begin like this. The empty prefix is every key's."""
    if not _fits(PREFIX, prefix):
        raise Invalid("prefix must be the beginning of a key", field="prefix")


def refuse_content_type(content_type: object) -> None:
    if (
        not isinstance(content_type, str)
        or len(content_type) > CONTENT_TYPE_MAX
        or not CONTENT_TYPE.fullmatch(content_type)
    ):
        raise Invalid("content_type must look like text/plain; charset=utf-8", field="content_type")


def _fits(pattern: re.Pattern[str], value: object) -> bool:
    return (
        isinstance(value, str)
        # All letters are ASCII: characters are bytes.
        and len(value) <= KEY_BYTES_MAX
        and pattern.fullmatch(value) is not None
    )
