"""Cursors: where the next page begins, in a form that callers pass back and do not read."""

from __future__ import annotations

import base64
import binascii
from datetime import datetime

import orjson

from podium.kernel.clock import from_micros, to_micros
from podium.kernel.errors import Invalid


def encode_cursor(place: str, at: datetime, id: str) -> str:
    return base64.urlsafe_b64encode(orjson.dumps([place, to_micros(at), id])).rstrip(b"=").decode()


def decode_cursor(text: str) -> tuple[str, datetime, str]:
    """Invalid, if it is not one that we gave out."""
    try:
        place, micros, id = orjson.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        if isinstance(place, str) and isinstance(id, str) and type(micros) is int:
            return place, from_micros(micros), id
    except (ValueError, TypeError, OverflowError, binascii.Error):
        pass
    raise Invalid("cursor is not one that this server gave out", field="cursor")
