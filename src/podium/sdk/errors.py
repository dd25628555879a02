"""What can go wrong between a caller and Podium, one class per thing a caller would do about it.

ApiError
├── InvalidRequest         VALIDATION_*                    mend the call
│   └── TooLarge           PAYLOAD_TOO_LARGE               store it as a blob, or send less at once
├── NotSpoken              UNSUPPORTED_MEDIA_TYPE, METHOD_NOT_ALLOWED, NOT_ACCEPTABLE
│                                                          client and server are too far apart
├── InvalidToken           AUTH_INVALID_TOKEN              give a token that is known there
│   └── ExpiredToken       AUTH_EXPIRED_TOKEN              rotate it
├── Forbidden              AUTHZ_INSUFFICIENT_PERMISSIONS  give a token with the scope
├── NotFound               RESOURCE_NOT_FOUND
├── AlreadyProcessed       RESOURCE_ALREADY_PROCESSED      the world moved on, or the lease is lost
├── Conflict               CONFLICT                        a key with another body, a stale tip
├── RateLimited            RATE_LIMIT_EXCEEDED             wait
├── ServerFailure          INTERNAL_ERROR, DATABASE_ERROR  tell the operator the trace_id
└── Unavailable            SERVICE_*                       the same call may work later
    └── Unreachable        nobody answered; nothing was sent
        ├── AnswerLost     it was sent, and the answer never came: it may have happened
        └── ChannelClosed  the parent of this process is gone

NotConfigured              no address was given, and none was found
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from podium.contracts.errors import Code


class NotConfigured(Exception):
    pass


class ApiError(Exception):
    def __init__(
        self,
        code: str,
        message: str,
        details: Mapping[str, Any] | None = None,
        trace_id: str | None = None,
        status: int | None = None,
        retry_after_seconds: float | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = dict(details or {})
        self.trace_id = trace_id
        """What the server logged it under."""
        self.status = status
        """The HTTP status; None if no server answered, or the answer came over a channel."""
        self.retry_after_seconds = retry_after_seconds

    def __str__(self) -> str:
        return f"{self.message} ({self.code})"


class InvalidRequest(ApiError):
    pass


class TooLarge(InvalidRequest):
    pass


class NotSpoken(ApiError):
    pass


class InvalidToken(ApiError):
    pass


class ExpiredToken(InvalidToken):
    pass


class Forbidden(ApiError):
    pass


class NotFound(ApiError):
    pass


class AlreadyProcessed(ApiError):
    pass


class Conflict(ApiError):
    pass


class RateLimited(ApiError):
    pass


class ServerFailure(ApiError):
    pass


class Unavailable(ApiError):
    pass


class Unreachable(Unavailable):
    def __init__(self, message: str) -> None:
        super().__init__(Code.SERVICE_UNAVAILABLE, message)


class AnswerLost(Unreachable):
    pass


class ChannelClosed(Unreachable):
    pass


BY_CODE: Mapping[Code, type[ApiError]] = {
    Code.AUTH_INVALID_TOKEN: InvalidToken,
    Code.AUTH_EXPIRED_TOKEN: ExpiredToken,
    Code.AUTHZ_INSUFFICIENT_PERMISSIONS: Forbidden,
    Code.RESOURCE_NOT_FOUND: NotFound,
    Code.RESOURCE_ALREADY_PROCESSED: AlreadyProcessed,
    Code.VALIDATION_INVALID_PARAMS: InvalidRequest,
    Code.VALIDATION_MISSING_FIELD: InvalidRequest,
    Code.RATE_LIMIT_EXCEEDED: RateLimited,
    Code.INTERNAL_ERROR: ServerFailure,
    Code.DATABASE_ERROR: ServerFailure,
    Code.SERVICE_UNAVAILABLE: Unavailable,
    Code.SERVICE_DEGRADED: Unavailable,
    Code.CONFLICT: Conflict,
    Code.PAYLOAD_TOO_LARGE: TooLarge,
    Code.UNSUPPORTED_MEDIA_TYPE: NotSpoken,
    Code.METHOD_NOT_ALLOWED: NotSpoken,
    Code.NOT_ACCEPTABLE: NotSpoken,
}


def api_error(
    code: str,
    message: str,
    details: Mapping[str, Any] | None = None,
    trace_id: str | None = None,
    status: int | None = None,
    retry_after_seconds: float | None = None,
) -> ApiError:
    """The error of this code. One that only a newer server knows is an ApiError, with its text."""
    kind = BY_CODE[Code(code)] if code in Code.__members__ else ApiError
    return kind(code, message, details, trace_id, status, retry_after_seconds)
