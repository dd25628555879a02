"""The codes an error carries to its caller, in the words of the jobs contract.

One list for the whole house: the kernel raises with a code, the HTTP room maps codes to status
numbers, and the reference page is generated from here, the lines below the codes included.
"""

from __future__ import annotations

from enum import StrEnum


class Code(StrEnum):
    AUTH_INVALID_TOKEN = "AUTH_INVALID_TOKEN"
    """There is no token, or nobody gave it out, or it was revoked. Send `Authorization: Bearer …`."""
    AUTH_EXPIRED_TOKEN = "AUTH_EXPIRED_TOKEN"
    """The token was good once. Make a new one: `podium token create`."""
    AUTHZ_INSUFFICIENT_PERMISSIONS = "AUTHZ_INSUFFICIENT_PERMISSIONS"
    """The token is good, but lacks the scope that this call needs; the message names it."""
    RESOURCE_NOT_FOUND = "RESOURCE_NOT_FOUND"
    """There is no such thing, or not any more."""
    RESOURCE_ALREADY_PROCESSED = "RESOURCE_ALREADY_PROCESSED"
    """It has moved on: finished, or held by somebody else (`details.reason: "lease_lost"`). Do not repeat."""
    VALIDATION_INVALID_PARAMS = "VALIDATION_INVALID_PARAMS"
    """The request is not well-formed; `details.fields` names each place and what is wrong there."""
    VALIDATION_MISSING_FIELD = "VALIDATION_MISSING_FIELD"
    """A field that must be there is not; `details.fields` names it."""
    RATE_LIMIT_EXCEEDED = "RATE_LIMIT_EXCEEDED"
    """Too many calls, or too many wrong tokens. Wait as long as `Retry-After` says."""
    INTERNAL_ERROR = "INTERNAL_ERROR"
    """A mistake of ours. The server's log has it under the `traceId`."""
    DATABASE_ERROR = "DATABASE_ERROR"
    """The database refused what we asked of it, a mistake of ours. The log has it under the `traceId`."""
    SERVICE_UNAVAILABLE = "SERVICE_UNAVAILABLE"
    """Starting, stopping, overloaded, or the store does not answer. The same call may work later."""
    SERVICE_DEGRADED = "SERVICE_DEGRADED"
    """A part that this call needs is away; others work. The same call may work later."""
    CONFLICT = "CONFLICT"
    """The world moved on first, or an idempotency key came back with another body."""
    PAYLOAD_TOO_LARGE = "PAYLOAD_TOO_LARGE"
    """The body, or what is in it, is larger than the limit; see `limits.body_bytes_max`."""
    UNSUPPORTED_MEDIA_TYPE = "UNSUPPORTED_MEDIA_TYPE"
    """The body is of another type than the call takes; mostly `Content-Type: application/json` is missing."""
    METHOD_NOT_ALLOWED = "METHOD_NOT_ALLOWED"
    """The address is right, the method is not; `Allow` names those that are."""
    NOT_ACCEPTABLE = "NOT_ACCEPTABLE"
    """`Accept` asks for a `version=` of the API that this server does not speak."""
