"""What users write against: a client, and the handlers that a worker runs.

    from podium.sdk import HandlerContext, HandlerResult, register_handler

    @register_handler("thumbnails.make", queue="thumbnails", timeout_seconds=600)
    async def make(ctx: HandlerContext) -> HandlerResult:
        return HandlerResult(success=True, output={"page": ctx.params["page"]})

    async with Client() as podium:
        await podium.enqueue([NewWork(queue="thumbnails", payload={"page": 7})])

A module of handlers is imported by every worker and every tool that looks at it, so this package
loads the client, with the models and the HTTP library behind it, only when somebody asks for it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from podium.sdk.errors import (
    AlreadyProcessed,
    AnswerLost,
    ApiError,
    ChannelClosed,
    Conflict,
    ExpiredToken,
    Forbidden,
    InvalidRequest,
    InvalidToken,
    NotConfigured,
    NotFound,
    NotSpoken,
    RateLimited,
    ServerFailure,
    TooLarge,
    Unavailable,
    Unreachable,
)
from podium.sdk.handlers import (
    HandlerContext,
    HandlerResult,
    PermanentFailure,
    RetryLater,
    register_handler,
)

if TYPE_CHECKING:
    from podium.contracts.work import Claim, Grant, Grants, NewWork, Report
    from podium.sdk.channel import ChannelDesk
    from podium.sdk.client import Client
    from podium.sdk.desk import WorkDesk
    from podium.sdk.sync import SyncClient

LATER = {
    "ChannelDesk": "podium.sdk.channel",
    "Claim": "podium.contracts.work",
    "Client": "podium.sdk.client",
    "Grant": "podium.contracts.work",
    "Grants": "podium.contracts.work",
    "NewWork": "podium.contracts.work",
    "Report": "podium.contracts.work",
    "SyncClient": "podium.sdk.sync",
    "WorkDesk": "podium.sdk.desk",
}

__all__ = [
    "AlreadyProcessed",
    "AnswerLost",
    "ApiError",
    "ChannelClosed",
    "ChannelDesk",
    "Claim",
    "Client",
    "Conflict",
    "ExpiredToken",
    "Forbidden",
    "Grant",
    "Grants",
    "HandlerContext",
    "HandlerResult",
    "InvalidRequest",
    "InvalidToken",
    "NewWork",
    "NotConfigured",
    "NotFound",
    "NotSpoken",
    "PermanentFailure",
    "RateLimited",
    "Report",
    "RetryLater",
    "ServerFailure",
    "SyncClient",
    "TooLarge",
    "Unavailable",
    "Unreachable",
    "WorkDesk",
    "register_handler",
]


def __getattr__(name: str) -> Any:
    if name not in LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(importlib.import_module(LATER[name]), name)
    globals()[name] = found
    return found
