"""What every refusal looks like on the wire."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from podium.contracts.errors import Code
from podium.contracts.words import Words


class Refusal(Words):
    code: Code
    """For programs."""
    message: str
    """For people: what is wrong, and what to do."""
    details: dict[str, Any]
    timestamp: datetime
    traceId: str
    """Under which the log tells more."""


class Refused(Words):
    error: Refusal
