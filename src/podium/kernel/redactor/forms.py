"""The forms of a value: the ways in which it is written where nobody meant to show it.

A token of letters and digits has some ten; a passphrase with quotes, some dozens; a key of several
lines, some dozens for each line.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from urllib.parse import quote_from_bytes, quote_plus, unquote, urlsplit

import orjson

LENGTH_MIN = 8
"""Shorter values are found in innocent texts: every `1234` would be struck out."""
LENGTH_MAX = 64 * 1024
VARIETY_MIN = 4
PIECE_LENGTH_MIN = 16
JSON_LAYERS = 3
URL_ALPHABET = str.maketrans("+/", "-_")


def refusal(value: bytes) -> str | None:
    if len(value) < LENGTH_MIN:
        return f"it is shorter than {LENGTH_MIN} bytes and would be found in innocent texts"
    if len(value) > LENGTH_MAX:
        return f"it is longer than {LENGTH_MAX} bytes"
    if len(set(value)) < VARIETY_MIN:
        return f"it has fewer than {VARIETY_MIN} different characters and would be found in innocent texts"
    return None


def forms(value: bytes) -> list[bytes]:
    """The ways in which a value is written where nobody meant to show it."""
    found: set[str] = set()
    for part in _parts(value):
        plain = _plain(part)
        found |= plain | _in_base64(part) | {part.hex(), part.hex().upper()}
        found |= {quoted for text in sorted(plain) for quoted in _in_url(text.encode())}
        found |= _in_url(part)
    # Whatever it is, it may stand in a JSON text, and that in another: a log line is one more.
    for _ in range(JSON_LAYERS):
        found |= {_in_json(form) for form in sorted(found)}
    return sorted(form.encode() for form in found if len(form) >= LENGTH_MIN)


def _parts(value: bytes) -> list[bytes]:
    """The value, and what is secret by itself: the value without the newline of the file it came
    from, its lines, which are logged one by one, and the password in a URL."""
    parts = [value, value.strip(), *_passwords(value)]
    lines = value.splitlines()
    if len(lines) > 1:
        # The first and last line of a PEM are the same in every key.
        inner = [line.strip() for line in lines if not line.startswith(b"-----")]
        parts += [line for line in inner if len(line) >= PIECE_LENGTH_MIN]
    return [part for part in dict.fromkeys(parts) if not refusal(part)]


def _passwords(value: bytes) -> list[bytes]:
    if b"://" not in value:
        return []
    try:
        password = urlsplit(value.decode()).password or ""
    except ValueError:  # not a URL after all, or not a text
        return []
    return [password.encode(), unquote(password).encode()]


def _plain(value: bytes) -> set[str]:
    """As it is, in JSON, in JSON of programs that keep to ASCII, and in a traceback."""
    in_repr = repr(value)[2:-1]
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return {in_repr}
    return {text, _in_json(text), json.dumps(text)[1:-1], repr(text)[1:-1], in_repr}


def _in_json(text: str) -> str:
    return orjson.dumps(text).decode()[1:-1]


def _in_url(value: bytes) -> set[str]:
    """Encoders agree on `%`, not on which characters need it, nor on its case."""
    encoded = {quote_from_bytes(value, safe) for safe in ("", "/", "!'()*", "!$&'()*+,;=:@/?")}
    encoded |= {quote_plus(value)}
    return encoded | {re.sub("%..", lambda c: c[0].lower(), form) for form in sorted(encoded)}


def _in_base64(value: bytes) -> set[str]:
    """What base64 makes of it, alone or inside something longer: then it may begin at any of three
    places in a group, and the characters it shares with its neighbours differ."""
    found = set()
    for before in range(3):
        data = b"\0" * before + value
        first = -(-before * 8 // 6)
        whole = len(data) * 8 // 6
        encoded = b64encode(data).decode().rstrip("=")
        found |= {encoded[first:whole], encoded[first:]}
    found |= {form.translate(URL_ALPHABET) for form in sorted(found)}
    return found | {form for each in sorted(found) for form in _in_url(each.encode())}
