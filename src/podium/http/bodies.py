"""JSON, strictly: what two parsers would read differently is refused, not guessed.

Duplicate keys, NaN, infinities, numbers beyond 64 bits, lone surrogates, NUL, a second value, a byte
order mark, another encoding and deep nesting are errors of the sender; each gets a 400 that says so.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any, NoReturn

from starlette.requests import ClientDisconnect, Request

from podium.http.errors import MediaTypeRefused, MethodRefused
from podium.kernel.errors import Invalid, TooLarge
from podium.kernel.payload import DEPTH_MAX

JSON = "application/json"
ANYTHING = "*/*"
INTEGER_MAX = 2**63 - 1
INTEGER_MIN = -(2**63)
DIGITS_MAX = 20

VALUES_MAX = 200_000
"""In one body: ten MiB of brackets would become a quarter of a GiB of lists."""
QUOTES_MAX = 4 * VALUES_MAX
"""Two for a key, two for its value."""
TEXTS = re.compile(rb'"[^"]*+"?')
AS_SQUARE = bytes.maketrans(b"{}", b"[]")
NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


async def read(
    request: Request,
    bytes_max: int,
    *,
    expect: Callable[[int], None] = lambda size: None,
    on_part: Callable[[int], None] = lambda size: None,
) -> bytes:
    """The whole body, or TooLarge before more than `bytes_max` of it was kept. `expect`, told how large it
    says it is, and `on_part` may refuse too."""
    declared = request.headers.get("content-length")
    if declared is not None and declared.isdigit():
        if int(declared) > bytes_max:
            raise _too_large(bytes_max)
        expect(int(declared))
    parts: list[bytes] = []
    size = 0
    try:
        async for part in request.stream():
            size += len(part)
            if size > bytes_max:
                raise _too_large(bytes_max)
            on_part(len(part))
            parts.append(part)
    except ClientDisconnect:
        raise Invalid("the body ended before it was complete", field="body") from None
    return b"".join(parts)


def refuse_media_type(request: Request, takes: str) -> None:
    """One kind of body per route, in UTF-8, not compressed."""
    if takes == ANYTHING:
        refuse_compression(request)
        return
    sent = request.headers.getlist("content-type")
    if len(sent) != 1:
        raise MediaTypeRefused(f"send this with Content-Type: {takes}")
    kind, _, parameters = sent[0].partition(";")
    if kind.strip().lower() != takes:
        raise MediaTypeRefused(f"this takes {takes}; send it with that Content-Type")
    parameters = parameters.strip().lower().replace('"', "").replace(" ", "")
    if parameters not in ("", "charset=utf-8"):
        raise MediaTypeRefused(f"this takes {takes} in UTF-8, and no other parameter")
    refuse_compression(request)


def refuse_compression(request: Request) -> None:
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise MediaTypeRefused("a compressed body is not taken; send it as it is")


def refuse_body(request: Request) -> None:
    """For methods that have none: a body there is how one server is made to misread another."""
    length = request.headers.get("content-length", "0")
    if length != "0" or "transfer-encoding" in request.headers:
        raise MethodRefused(f"{request.method} takes no body")


def loads(data: bytes) -> Any:
    """The value in `data`; Invalid, saying where, if it is not JSON that everybody reads the same."""
    _refuse_shape(data)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Invalid(f"the body is not UTF-8: byte {error.start}", field="body") from None
    if not text or text[0] == "\ufeff":
        raise Invalid(
            "the body is empty" if not text else "the body begins with a byte order mark",
            field="body",
        )
    try:
        value = DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise Invalid(
            f"the body is not JSON: {error.msg} at line {error.lineno} column {error.colno}",
            field="body",
            line=error.lineno,
            column=error.colno,
        ) from None
    except (RecursionError, ValueError):
        raise Invalid("the body is not JSON that can be read", field="body") from None
    _refuse_odd_text(text, value)
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise Invalid(f"the key {key[:64]!r} is there twice", field="body")
            seen.add(key)
    return value


def _constant(name: str) -> NoReturn:
    raise Invalid(f"{name} is not JSON", field="body")


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise Invalid("a number is too large", field="body")
    return value


def _integer(text: str) -> int:
    value = int(text) if len(text) <= DIGITS_MAX else INTEGER_MAX + 1
    if not INTEGER_MIN <= value <= INTEGER_MAX:
        raise Invalid("a whole number has more than 64 bits", field="body")
    return value


DECODER = json.JSONDecoder(
    object_pairs_hook=_object,
    parse_constant=_constant,
    parse_float=_float,
    parse_int=_integer,
)


def _refuse_shape(data: bytes) -> None:
    """Before parsing: a parser that recurses, or has filled the memory, has already lost."""
    opened = data.count(b"[") + data.count(b"{")
    if opened <= DEPTH_MAX and opened + data.count(b",") <= VALUES_MAX:
        return
    # Without what is escaped, a text ends at the next quote.
    plain = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    if plain.count(b'"') > QUOTES_MAX:
        raise _too_many()
    bare = TEXTS.sub(b"", plain)
    if bare.count(b",") + bare.count(b"[") + bare.count(b"{") > VALUES_MAX:
        raise _too_many()
    brackets = bare.translate(AS_SQUARE, NO_BRACKETS)
    for _ in range(DEPTH_MAX):
        brackets = brackets.replace(b"[]", b"")
    # Each round took the innermost away. What never closes is no JSON; the parser will say so.
    if b"[]" in brackets or brackets.count(b"[") > DEPTH_MAX:
        raise Invalid(f"the body is nested deeper than {DEPTH_MAX}", field="body")


def _refuse_odd_text(text: str, value: Any) -> None:
    """What UTF-8 or PostgreSQL could not keep can only come in by an escape."""
    if "\\u" not in text:
        return
    _walk(value, _refuse_text)


def _refuse_text(text: str) -> None:
    if "\0" in text:
        raise Invalid("a text has a NUL character", field="body")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise Invalid("a text has half of a surrogate pair", field="body") from None


def _walk(value: Any, check: Callable[[str], None]) -> None:
    stack = [value]
    while stack:
        node = stack.pop()
        if isinstance(node, str):
            check(node)
        elif isinstance(node, dict):
            for key in node:
                check(key)
            stack.extend(node.values())
        elif isinstance(node, list):
            stack.extend(node)


def _too_many() -> TooLarge:
    return TooLarge(f"the body has more than {VALUES_MAX} values", values_max=VALUES_MAX)


def _too_large(bytes_max: int) -> TooLarge:
    return TooLarge(f"the body has more than {bytes_max} bytes", bytes_max=bytes_max)
