"""Outgoing HTTP: calls to addresses that somebody else chose, answered by somebody else's program.

    text ──egress.check──▶ Url ──breaker, lane──▶ pool ──resolve, check every address──▶ socket
                            ▲                                                             │
                            └──────────────── each redirect, at most three ◀──────────────┘

Two strangers meet here. The one who gave us the URL may want us to call our own network for him: so
the name is resolved once, every address it has is judged, and the socket is opened to the very address
that was judged. The one who answers may want to hold us or fill us: so the whole exchange has a time, the
answer has a size, and one destination has only so many calls at once.

`egress` and `url` are for registration and need no network; `client` calls; `webhooks` signs what
is called and verifies what comes in; `breaker` leaves a destination alone that fails.
"""

from podium.effects.http.breaker import BreakerSettings
from podium.effects.http.client import OutgoingHttp, Settings
from podium.effects.http.egress import Egress
from podium.effects.http.errors import (
    AnswerTooLarge,
    BadAnswer,
    CallFailed,
    CircuitOpen,
    Refused,
    TimedOut,
    Unreachable,
)
from podium.effects.http.messages import Request, Response
from podium.effects.http.resolve import Resolve, SystemResolver
from podium.effects.http.url import Url

__all__ = [
    "AnswerTooLarge",
    "BadAnswer",
    "BreakerSettings",
    "CallFailed",
    "CircuitOpen",
    "Egress",
    "OutgoingHttp",
    "Refused",
    "Request",
    "Resolve",
    "Response",
    "Settings",
    "SystemResolver",
    "TimedOut",
    "Unreachable",
    "Url",
]
