"""Tokens and the audit log on the wire."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field

from podium.contracts.scopes import Scope
from podium.contracts.words import Words


class NewToken(Words):
    name: Annotated[str, Field(min_length=1, max_length=100)]
    scopes: Annotated[list[Scope], Field(min_length=1, max_length=len(Scope))]
    days: Annotated[float, Field(gt=0, le=3650, allow_inf_nan=False)] | None = None


class RotateToken(Words):
    days: Annotated[float, Field(gt=0, le=3650, allow_inf_nan=False)] | None = None
    overlap_seconds: Annotated[float, Field(ge=0, le=30 * 86_400, allow_inf_nan=False)] = 86_400.0
    """How long the old token stays good beside the new one."""


class TokenShown(Words):
    id: str
    name: str
    scopes: list[Scope]
    created_by: str
    created_at: datetime
    expire_at: datetime
    revoked_at: datetime | None


class TokenIssued(TokenShown):
    token: str
    """Shown here, once. Keep it like a password."""


class Tokens(Words):
    tokens: list[TokenShown]
    next_cursor: str | None = None


class Revoked(Words):
    id: str
    revoked: bool


class AuditEntry(Words):
    seq: int
    at: datetime
    actor: str
    address: str
    service: str | None
    method: str
    route: str
    target: str
    status: int
    trace_id: str


class AuditLog(Words):
    entries: list[AuditEntry]
    next_cursor: str | None = None


class Violations(Words):
    violations: dict[str, int]
    """Rows that break a promise, by check. All must read 0."""


class LoginLink(Words):
    url: str
    """Good once, for ten minutes."""
