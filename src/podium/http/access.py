"""Tokens, login links and the audit log over HTTP."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from podium.contracts.access import (
    AuditEntry,
    AuditLog,
    LoginLink,
    NewToken,
    Revoked,
    RotateToken,
    TokenIssued,
    Tokens,
    TokenShown,
    Violations,
)
from podium.contracts.scopes import Scope
from podium.domains.access.audit import NEWEST
from podium.domains.access.decide import ID_ALPHABET, ID_CHARACTERS
from podium.domains.access.model import Caller, Issued, Token
from podium.domains.access.tokens import SESSION_SECONDS
from podium.http.callers import COOKIE
from podium.http.guard import Declared, Open, caller_of, delete, get, post
from podium.http.house import House
from podium.kernel.errors import NotFound

PAGE = Annotated[int, Query(ge=1, le=500)]
TokenId = Annotated[str, Path(pattern=f"^[{ID_ALPHABET}]{{{ID_CHARACTERS}}}$")]
TokenCursor = Annotated[str, Query(pattern="^[0-9a-z~]{1,20}$")]


class AccessApi:
    def __init__(self, house: House) -> None:
        self._house = house
        self._store = house.store
        self._access = house.access

    def routes(self) -> list[Declared]:
        return [
            post("/api/tokens", self.create, needs=Scope.ADMIN, status=201),
            get("/api/tokens", self.list, needs=Scope.ADMIN),
            post("/api/tokens/{id}/rotate", self.rotate, needs=Scope.ADMIN, status=201),
            delete("/api/tokens/{id}", self.revoke, needs=Scope.ADMIN),
            post("/api/login-links", self.invite, needs=Scope.ADMIN, takes=None, status=201),
            get(
                "/login",
                self.login,
                needs=Open("a one-time code in the link is the key"),
                mutates=True,
                status=303,
                options={"response_class": RedirectResponse},
            ),
            get("/api/audit", self.log, needs=Scope.ADMIN),
            get("/api/audit/violations", self.violations, needs=Scope.READ),
        ]

    async def create(self, body: NewToken, request: Request) -> TokenIssued:
        """Make a token. Its text is in this answer and nowhere else."""
        issued = await self._store.write(
            self._access.tokens.create,
            name=body.name,
            scopes=body.scopes,
            valid_days=body.days or self._access.policy.token_days,
            actor=caller_of(request).actor,
        )
        return _issued(issued)

    async def list(
        self, everything: bool = False, cursor: TokenCursor = "~", limit: PAGE = 100
    ) -> Tokens:
        """Tokens that are valid, the newest id first; `everything` adds those that are over."""
        tokens = await self._store.read(
            self._access.tokens.list, everything=everything, before=cursor, n=limit
        )
        more = tokens[-1].id if len(tokens) == limit else None
        return Tokens(tokens=[_shown(token) for token in tokens], next_cursor=more)

    async def rotate(self, id: TokenId, body: RotateToken, request: Request) -> TokenIssued:
        """Replace a token. Old and new are good together for `overlap_seconds`."""
        issued = await self._store.write(
            self._access.tokens.rotate,
            id,
            valid_days=body.days or self._access.policy.token_days,
            actor=caller_of(request).actor,
            overlap_seconds=body.overlap_seconds,
        )
        return _issued(issued)

    async def revoke(self, id: TokenId, request: Request) -> Revoked:
        """End a token, everywhere within five seconds."""
        actor = caller_of(request).actor
        if not await self._store.write(self._access.tokens.revoke, id, actor=actor):
            raise NotFound("there is no valid token of that id")
        return Revoked(id=id, revoked=True)

    async def invite(self, request: Request) -> LoginLink:
        """A link that signs a browser in, once."""
        issued = await self._store.write(
            self._access.tokens.invite,
            scopes=sorted(caller_of(request).scopes),
            actor=caller_of(request).actor,
        )
        return LoginLink(url=f"{self._house.front.public_url}/login?code={issued.text}")

    async def login(
        self, request: Request, code: Annotated[str, Query(max_length=100)] = ""
    ) -> Response:
        """Spend the link's code: the browser gets a session and goes to the start page."""
        issued = await self._access.open_session(
            code.encode(), address=request.scope["podium.address"]
        )
        request.scope["podium.caller"] = Caller(issued.token.id, issued.token.scopes, issued.token)
        response = RedirectResponse("/", 303)
        response.set_cookie(
            COOKIE,
            issued.text,
            max_age=int(SESSION_SECONDS),
            httponly=True,
            samesite="lax",
            secure=self._house.front.public_url.startswith("https://"),
        )
        return response

    async def log(
        self,
        cursor: Annotated[int, Query(ge=0, le=NEWEST)] = NEWEST,
        actor: Annotated[str, Query(max_length=100)] | None = None,
        limit: PAGE = 100,
    ) -> AuditLog:
        """Who called what, the newest first."""
        entries = await self._store.read_long(
            self._access.audit.read, before=cursor, actor=actor, n=limit
        )
        more = str(entries[-1].seq) if len(entries) == limit else None
        return AuditLog(
            entries=[
                AuditEntry(at=entry.happened_at, **_without_time(entry._asdict()))
                for entry in entries
            ],
            next_cursor=more,
        )

    async def violations(self) -> Violations:
        """Count, now, the rows that break a promise. All must read 0."""
        return Violations(violations=await self._house.violations())


def _without_time(entry: dict[str, object]) -> dict[str, object]:
    return {key: value for key, value in entry.items() if key != "happened_at"}


def _shown(token: Token) -> TokenShown:
    return TokenShown(
        id=token.id,
        name=token.name,
        scopes=sorted(token.scopes),
        created_by=token.created_by,
        created_at=token.created_at,
        expire_at=token.expire_at,
        revoked_at=token.revoked_at,
    )


def _issued(issued: Issued) -> TokenIssued:
    return TokenIssued(token=issued.text, **_shown(issued.token).model_dump())
