"""The words of access."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from podium.contracts.scopes import Scope


class Kind(StrEnum):
    TOKEN = "token"
    SESSION = "session"
    """A browser's, in a cookie."""
    LOGIN = "login"
    """A link that opens one session, once."""


@dataclass(frozen=True, slots=True)
class Token:
    """What is known of a token; its text is known to its holder alone."""

    id: str
    family: str
    kind: Kind
    name: str
    scopes: frozenset[Scope]
    created_by: str
    created_at: datetime
    expire_at: datetime
    revoked_at: datetime | None


class Issued(NamedTuple):
    token: Token
    text: str
    """Shown once, to whoever asked for it. We keep only its hash."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who is asking, once that is settled."""

    actor: str
    """The token's id, or `anonymous`."""
    scopes: frozenset[Scope]
    token: Token | None = None

    @property
    def line(self) -> str:
        """Who asks, whichever of the tokens that replace each other was sent."""
        return self.actor if self.token is None else self.token.family

    def may(self, scope: Scope) -> bool:
        return scope in self.scopes or Scope.ADMIN in self.scopes


class Entry(NamedTuple):
    """One line of the audit log."""

    actor: str
    address: str
    service: str | None
    method: str
    route: str
    target: str
    status: int
    trace_id: str


class LoggedEntry(NamedTuple):
    seq: int
    happened_at: datetime
    actor: str
    address: str
    service: str | None
    method: str
    route: str
    target: str
    status: int
    trace_id: str
