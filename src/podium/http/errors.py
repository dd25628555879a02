"""One envelope for every refusal, in the words of the jobs contract.

    {"error": {"code", "message", "details", "timestamp", "traceId"}}

Never a stack, never a secret, and no more of the caller's own words than 64 characters of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import orjson
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from podium.contracts.errors import Code
from podium.kernel.errors import CommitUnknown, PodiumError, RateLimited, Unavailable

STATUS: Mapping[Code, int] = {
    Code.AUTH_INVALID_TOKEN: 401,
    Code.AUTH_EXPIRED_TOKEN: 401,
    Code.AUTHZ_INSUFFICIENT_PERMISSIONS: 403,
    Code.RESOURCE_NOT_FOUND: 404,
    Code.RESOURCE_ALREADY_PROCESSED: 404,
    Code.VALIDATION_INVALID_PARAMS: 400,
    Code.VALIDATION_MISSING_FIELD: 400,
    Code.RATE_LIMIT_EXCEEDED: 429,
    Code.INTERNAL_ERROR: 500,
    Code.DATABASE_ERROR: 500,
    Code.SERVICE_UNAVAILABLE: 503,
    Code.SERVICE_DEGRADED: 503,
    Code.CONFLICT: 409,
    Code.PAYLOAD_TOO_LARGE: 413,
    Code.UNSUPPORTED_MEDIA_TYPE: 415,
    Code.METHOD_NOT_ALLOWED: 405,
    Code.NOT_ACCEPTABLE: 406,
}
RETRY_AFTER_SECONDS = 1.0
WORDS_MAX = 64
PROBLEMS_MAX = 20

INTERNAL = "something went wrong here; it was logged under this traceId"
UNAVAILABLE = "the store cannot take this now; nothing of it was done, try again"
UNKNOWN = "the store went away in the middle: it may have been done; ask before you try again"

# What the framework itself refuses with, before a route was found or after.
CODE_OF_STATUS = {
    400: Code.VALIDATION_INVALID_PARAMS,
    401: Code.AUTH_INVALID_TOKEN,
    403: Code.AUTHZ_INSUFFICIENT_PERMISSIONS,
    404: Code.RESOURCE_NOT_FOUND,
    405: Code.METHOD_NOT_ALLOWED,
    406: Code.NOT_ACCEPTABLE,
    413: Code.PAYLOAD_TOO_LARGE,
    415: Code.UNSUPPORTED_MEDIA_TYPE,
}
MESSAGE_OF_STATUS = {
    404: "there is nothing at this address",
    405: "this address does not know that method",
}


class MediaTypeRefused(PodiumError):
    code = Code.UNSUPPORTED_MEDIA_TYPE


class MethodRefused(PodiumError):
    code = Code.METHOD_NOT_ALLOWED


class VersionRefused(PodiumError):
    code = Code.NOT_ACCEPTABLE


class MissingField(PodiumError):
    code = Code.VALIDATION_MISSING_FIELD


class BadFields(PodiumError):
    code = Code.VALIDATION_INVALID_PARAMS


class Overloaded(Unavailable):
    """This process has enough to do. Its own words are for the caller; a store's are for the log."""


def answer(error: PodiumError, *, now: datetime, trace_id: str) -> Response:
    headers = {}
    if isinstance(error, RateLimited | Unavailable):
        seconds = getattr(error, "retry_after_seconds", RETRY_AFTER_SECONDS)
        headers["retry-after"] = str(max(1, math.ceil(seconds)))
    if STATUS[error.code] == 401:
        headers["www-authenticate"] = "Bearer"
    message, details = _told(error)
    return Response(
        envelope(error.code, message, details, now=now, trace_id=trace_id),
        STATUS[error.code],
        headers,
        "application/json",
    )


def _told(error: PodiumError) -> tuple[str, Mapping[str, object]]:
    """What the caller learns. Of our own troubles: that they are ours, and whether it may try again."""
    if STATUS[error.code] == 500:
        return INTERNAL, {}
    if isinstance(error, CommitUnknown):
        return UNKNOWN, {}
    if isinstance(error, Unavailable) and not isinstance(error, Overloaded):
        return UNAVAILABLE, {}
    return str(error), error.details


def envelope(
    code: Code, message: str, details: Mapping[str, object], *, now: datetime, trace_id: str
) -> bytes:
    return orjson.dumps(
        {
            "error": {
                "code": code,
                "message": message,
                "details": details,
                "timestamp": now.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
                "traceId": trace_id,
            }
        },
        default=str,
    )


def from_framework(error: HTTPException) -> PodiumError:
    code = CODE_OF_STATUS.get(error.status_code, Code.INTERNAL_ERROR)
    refusal = PodiumError(MESSAGE_OF_STATUS.get(error.status_code, str(error.detail)))
    refusal.code = code
    return refusal


def from_validation(error: RequestValidationError) -> PodiumError:
    """All that is wrong with a request, each named by its place in it."""
    problems = error.errors()
    fields = [
        {
            "field": _place(each["loc"]),
            "message": clipped(each["msg"].removeprefix("Value error, ")),
        }
        for each in problems[:PROBLEMS_MAX]
    ]
    text = "; ".join(f"{each['field']}: {each['message']}" for each in fields)
    if len(problems) > PROBLEMS_MAX:
        text += f"; and {len(problems) - PROBLEMS_MAX} more"
    are_missing = all(each["type"] == "missing" for each in problems)
    kind = MissingField if are_missing else BadFields
    return kind(text, fields=fields)


def clipped(text: str, most: int = 200) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _place(parts: Sequence[Any]) -> str:
    """`body.items.3.queue` as `items[3].queue`; a caller's own key is cut short."""
    place = ""
    for part in parts[1:] or parts:
        if isinstance(part, int):
            place += f"[{part}]"
        else:
            place += ("." if place else "") + clipped(str(part), WORDS_MAX)
    return place
