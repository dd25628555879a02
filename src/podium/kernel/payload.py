"""Payloads: JSON in, JSON text kept, and nothing that one of our stores could not hold.

The store keeps payloads as text. What is refused here is what breaks somebody further on:
NUL (PostgreSQL's text and jsonb), lone surrogates (UTF-8), NaN and infinity (JSON itself),
integers beyond 64 bits, nesting that overflows a parser's stack, and sizes that stop a queue.
"""

from __future__ import annotations

import math
from typing import Any

import orjson

from podium.kernel.errors import Invalid, TooLarge

BYTES_MAX = 1024 * 1024
DEPTH_MAX = 64


def dumps(value: object, *, field: str = "payload", bytes_max: int = BYTES_MAX) -> str:
    """The JSON text of `value`; Invalid naming `field` if some store could not keep it."""
    try:
        data = orjson.dumps(value, option=orjson.OPT_PASSTHROUGH_DATACLASS)
    except (TypeError, RecursionError) as error:
        raise Invalid(f"{field} is not JSON: {_reason(error)}", field=field) from None
    if len(data) > bytes_max:
        raise TooLarge(
            f"{field} has {len(data)} bytes; the most is {bytes_max}. "
            "Store it as a blob and send its key",
            field=field,
        )
    if _needs_a_walk(data):
        _walk(value, field)
    return data.decode()


def loads(text: str) -> Any:
    return orjson.loads(text)


def _needs_a_walk(data: bytes) -> bool:
    """A cheap look at the bytes; only what might be wrong pays for the walk through the tree."""
    # orjson writes NaN as null, silently: a null may be an honest one or a hidden NaN.
    if b"null" in data or b"\\u0000" in data:
        return True
    return len(data) > DEPTH_MAX and data.count(b"[") + data.count(b"{") > DEPTH_MAX


def _walk(value: object, field: str) -> None:
    stack: list[tuple[object, int]] = [(value, 1)]
    while stack:
        node, depth = stack.pop()
        if isinstance(node, str):
            if "\0" in node:
                raise Invalid(f"{field} has a NUL character", field=field)
        elif isinstance(node, float):
            if not math.isfinite(node):
                raise Invalid(f"{field} has {node}, which JSON cannot say", field=field)
        elif isinstance(node, dict):
            _refuse_depth(depth, field)
            stack.extend((part, depth + 1) for pair in node.items() for part in pair)
        elif isinstance(node, list | tuple):
            _refuse_depth(depth, field)
            stack.extend((part, depth + 1) for part in node)


def _refuse_depth(depth: int, field: str) -> None:
    if depth > DEPTH_MAX:
        raise Invalid(f"{field} is nested deeper than {DEPTH_MAX}", field=field)


def _reason(error: Exception) -> str:
    # orjson's own words leak its internals for deep trees ("default serializer exceeds ...").
    text = str(error)
    return f"nested deeper than {DEPTH_MAX}" if "recursion" in text.lower() else text
