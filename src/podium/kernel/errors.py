"""The errors this platform raises on purpose, and the code each carries to the caller.

    PodiumError                INTERNAL_ERROR
    ├── Invalid                VALIDATION_INVALID_PARAMS     the caller can fix it
    │   └── TooLarge           PAYLOAD_TOO_LARGE             it is too big to take
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
