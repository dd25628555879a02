"""The errors this platform raises on purpose, and the code each carries to the caller.

    PodiumError                INTERNAL_ERROR
    ├── Invalid                VALIDATION_INVALID_PARAMS     the caller can fix it
    │   └── TooLarge           PAYLOAD_TOO_LARGE             it is too big to take
    ├── InvalidToken           AUTH_INVALID_TOKEN            nobody we know
    │   └── Expired            AUTH_EXPIRED_TOKEN            somebody we knew
    ├── Forbidden              AUTHZ_INSUFFICIENT_PERMISSIONS  known, but not for this
    ├── RateLimited            RATE_LIMIT_EXCEEDED           not so often
    ├── NotFound               RESOURCE_NOT_FOUND            there is no such thing
    ├── Conflict               CONFLICT                      the world moved on first
    │   ├── IllegalMove        RESOURCE_ALREADY_PROCESSED    a state machine said no
    │   ├── LeaseLost          RESOURCE_ALREADY_PROCESSED    someone else holds it now
    │   ├── KeyReused          CONFLICT                      an idempotency key with another body
    │   └── ConstraintViolated CONFLICT                      the database refused the row
    ├── StoreError             DATABASE_ERROR                the database said no, and it is our mistake
    └── Unavailable            SERVICE_UNAVAILABLE           the same call may work later
        ├── CommitUnknown      SERVICE_UNAVAILABLE           it may have happened: ask again by key
        ├── StoreHeld          SERVICE_UNAVAILABLE           another process has the file
        └── SchemaMismatch     SERVICE_UNAVAILABLE           this program and database do not fit

Anything else that escapes is a bug of ours and reaches the caller as INTERNAL_ERROR.
"""

from __future__ import annotations

from podium.contracts.errors import Code


class PodiumError(Exception):
    code = Code.INTERNAL_ERROR

    def __init__(self, message: str, **details: object) -> None:
        super().__init__(message)
        self.details = details


class Invalid(PodiumError):
    code = Code.VALIDATION_INVALID_PARAMS


class TooLarge(Invalid):
    code = Code.PAYLOAD_TOO_LARGE


class InvalidToken(PodiumError):
    code = Code.AUTH_INVALID_TOKEN

    def __init__(self, message: str = "a valid token is needed: Authorization: Bearer …") -> None:
        super().__init__(message)


class Expired(InvalidToken):
    code = Code.AUTH_EXPIRED_TOKEN


class Forbidden(PodiumError):
    code = Code.AUTHZ_INSUFFICIENT_PERMISSIONS


class RateLimited(PodiumError):
    code = Code.RATE_LIMIT_EXCEEDED

    def __init__(self, message: str, *, retry_after_seconds: float, **details: object) -> None:
        super().__init__(message, **details)
        self.retry_after_seconds = retry_after_seconds


class NotFound(PodiumError):
    code = Code.RESOURCE_NOT_FOUND


class Conflict(PodiumError):
    code = Code.CONFLICT


class IllegalMove(Conflict):
    code = Code.RESOURCE_ALREADY_PROCESSED

    def __init__(self, machine: str, state: str, move: str) -> None:
        super().__init__(f"a {machine} that is {state} cannot {move}", state=str(state), move=move)


class LeaseLost(Conflict):
    code = Code.RESOURCE_ALREADY_PROCESSED

    def __init__(self, id: str, epoch: int, why: str) -> None:
        super().__init__(
            f"{id} is not held under epoch {epoch} any more: {why}", reason="lease_lost", why=why
        )


class KeyReused(Conflict):
    def __init__(self, key: str) -> None:
        super().__init__(
            f"idempotency key {key!r} was used before with another body; use a new key", key=key
        )


class ConstraintViolated(Conflict):
    pass


class StoreError(PodiumError):
    code = Code.DATABASE_ERROR


class Unavailable(PodiumError):
    code = Code.SERVICE_UNAVAILABLE


class CommitUnknown(Unavailable):
    """The connection died while committing and nobody could be asked. It may have happened."""


class StoreHeld(Unavailable):
    pass


class SchemaMismatch(Unavailable):
    pass
