"""What a message of the stream is: a notice of ours, a message of somebody else, or neither.

A notice names its row. A message of somebody else gets a row of its own, named after its
`Nats-Msg-Id`, or after its place in the stream when it has none. What no store could keep is kept
as far as it can be read, for a person to look at.
"""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from podium.backends.nats import names
from podium.kernel import bus, payload
from podium.kernel.bus import Message, Refusal
from podium.kernel.errors import Invalid
from podium.kernel.outbox import Notice
from podium.kernel.work import decide

MSG_ID = "Nats-Msg-Id"
TTL = "Nats-TTL"
ROW = "Podium-Id"
EPOCH = "Podium-Epoch"
BODY = "Podium-Body"
IN_THE_ROW = "in-the-row"
"""The value of Podium-Body when the body did not fit: ask the row."""
RESERVED = ("nats-", "podium-")
RAW_CHARACTERS_MAX = 10_000
ID_CHARACTERS_MAX = 255


class Known(NamedTuple):
    """A notice of ours."""

    row_id: str


Letter = Known | Message | Refusal


class Envelope(NamedTuple):
    """A message as the stream has it, however it reached us."""

    data: bytes
    headers: Mapping[str, str]
    stream: str
    sequence: int
    at_micros: int
    """When the stream got it, as whole microseconds since 1970."""


def written(notice: Notice, body_bytes_max: int) -> tuple[bytes, dict[str, str]]:
    """Body and headers of a notice."""
    row = names.header(notice.id)
    headers = {
        # One attempt has one name: told twice it is kept once, and the next attempt is another.
        MSG_ID: f"{row}:{notice.epoch}",
        ROW: row,
        EPOCH: str(notice.epoch),
        TTL: str(max(1, math.ceil(notice.hidden_micros / 1e6))),
    }
    body = notice.payload.encode()
    size = len(body)
    if notice.properties is not None:
        properties = _headers(payload.loads(notice.properties))
        size += sum(map(len, properties)) + sum(map(len, properties.values()))
        headers = properties | headers
    if size > body_bytes_max:
        kept = (MSG_ID, ROW, EPOCH, TTL)
        return b"", {name: headers[name] for name in kept} | {BODY: IN_THE_ROW}
    return body, headers


def read(source: str, envelope: Envelope) -> Letter:
    row = envelope.headers.get(ROW)
    if row is not None:
        row_id = names.unheader(row)
        if row_id.startswith(bus.row_id(source, "")) and len(row_id) <= ID_CHARACTERS_MAX:
            return Known(row_id)
        return _refused(source, envelope, "it names a row of another queue")
    return _foreign(source, envelope)


def undelivered(source: str, envelope: Envelope, reason: str, error: str) -> Refusal | None:
    """As a dead letter; None for a notice of ours, whose row comes back by itself."""
    letter = read(source, envelope)
    if isinstance(letter, Known):
        return None
    if isinstance(letter, Refusal):
        return letter
    return Refusal(str(letter.id), letter.body, reason, error)


def _foreign(source: str, envelope: Envelope) -> Message | Refusal:
    try:
        body = orjson.loads(envelope.data)
        payload.dumps(body)
        properties = _properties(envelope.headers)
        payload.dumps(properties, field="properties")
    except (orjson.JSONDecodeError, RecursionError) as error:
        return _refused(source, envelope, f"it is not JSON: {error}")
    except Invalid as error:
        return _refused(source, envelope, str(error))
    return Message(body, _message_id(source, envelope), properties)


def _refused(source: str, envelope: Envelope, error: str) -> Refusal:
    # Never by its own id: somebody else's good message may have that one.
    return Refusal(_place(envelope), _raw(envelope.data), "unreadable", error)


def _message_id(source: str, envelope: Envelope) -> str:
    wanted = envelope.headers.get(MSG_ID)
    if wanted is None:
        return _place(envelope)
    try:
        decide.name("id", bus.row_id(source, wanted))
    except Invalid:
        return f"sha256:{hashlib.sha256(wanted.encode('utf-8', 'replace')).hexdigest()[:40]}"
    return wanted


def _place(envelope: Envelope) -> str:
    """With its time: in a stream that was made anew the numbers begin again."""
    return f"{envelope.stream}.{envelope.sequence}.{envelope.at_micros}"


def _headers(properties: dict[str, Any]) -> dict[str, str]:
    return {
        names.header_name(name): names.header(
            value if isinstance(value, str) else orjson.dumps(value).decode()
        )
        for name, value in properties.items()
        if name
    }


def _properties(headers: Mapping[str, str]) -> dict[str, Any]:
    return {name: value for name, value in headers.items() if not name.lower().startswith(RESERVED)}


def _raw(data: bytes) -> dict[str, Any]:
    try:
        text, encoding = data.decode().replace("\0", "\N{SYMBOL FOR NULL}"), "utf-8"
    except UnicodeDecodeError:
        text, encoding = base64.b64encode(data).decode(), "base64"
    return {"raw": text[:RAW_CHARACTERS_MAX], "encoding": encoding, "size_bytes": len(data)}
