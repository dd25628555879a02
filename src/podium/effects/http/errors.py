"""How a call can end without an answer.

    Invalid
    └── Refused           we do not call there; the same call is refused again
    Unavailable
    └── CallFailed        a failed try; another try may succeed
        ├── Unreachable   no connection, no certificate we trust, or the connection broke
        ├── TimedOut      the time of the whole exchange was over
        ├── BadAnswer     what came back is not the HTTP we asked for
        ├── AnswerTooLarge
        └── CircuitOpen   it failed often enough; we did not even try

`details` has `destination` (scheme, host and port) and `reason`, one word to group by. Paths,
queries, headers and bodies may hold secrets and are in no message.
"""

from __future__ import annotations

from podium.kernel.errors import Invalid, Unavailable


class Refused(Invalid):
    def __init__(self, message: str, *, destination: str, reason: str, **details: object) -> None:
        super().__init__(message, destination=destination, reason=reason, **details)


class CallFailed(Unavailable):
    def __init__(self, message: str, *, destination: str, reason: str, **details: object) -> None:
        super().__init__(message, destination=destination, reason=reason, **details)

    @property
    def reason(self) -> str:
        return str(self.details["reason"])


class Unreachable(CallFailed):
    pass


class TimedOut(CallFailed):
    pass


class BadAnswer(CallFailed):
    pass


class AnswerTooLarge(CallFailed):
    pass


class CircuitOpen(CallFailed):
    def __init__(self, destination: str, retry_in_seconds: float) -> None:
        super().__init__(
            f"{destination} failed too often; the next try is in {retry_in_seconds:.0f} s",
            destination=destination,
            reason="circuit",
            retry_in_seconds=retry_in_seconds,
        )
