"""The client: every call of the HTTP API, with models in and models out.

    async with Client() as podium:
        await podium.enqueue([NewWork(queue="thumbnails", payload={"page": 7})])

It finds the server by itself on the same machine (see `podium.sdk.where`), keeps its connections,
and tries again where that is safe. It fills `WorkDesk`, so a worker can run over it.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Collection, Sequence
from types import TracebackType
from typing import Self
from urllib.parse import quote

from pydantic import BaseModel

from podium.contracts.access import (
    AuditLog,
    LoginLink,
    NewToken,
    Revoked,
    RotateToken,
    TokenIssued,
    Tokens,
    Violations,
)
from podium.contracts.blobs import Blobs, Link, NewLink
from podium.contracts.scopes import Scope
from podium.contracts.work import (
    Cancel,
    Claim,
    Claimed,
    DeadLetter,
    DeadLetters,
    Enqueue,
    Enqueued,
    Explanation,
    Grants,
    Journal,
    JournalLine,
    NewWork,
    Queues,
    Replay,
    Replayed,
    Report,
    Verdict,
    Verdicts,
    WorkShown,
)
from podium.sdk.errors import Unavailable
from podium.sdk.events import follow
from podium.sdk.transport import DEADLINE_SECONDS, TRY_SECONDS, Answer, Ask, Transport
from podium.sdk.where import find
from podium.sdk.wire import M, decode, encode

OK = "ok"


class Client:
    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        deadline_seconds: float = DEADLINE_SECONDS,
    ) -> None:
        """NotConfigured if no server is given and none is found."""
        self._transport = Transport(find(url, token), deadline_seconds=deadline_seconds)

    @property
    def url(self) -> str:
        return self._transport.place.url

    async def close(self) -> None:
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    # Handing in ------------------------------------------------------------------------------

    async def enqueue(
        self, items: Enqueue | Sequence[NewWork], /, *, idempotency_key: str | None = None
    ) -> Enqueued:
        """Hand in items, once: the key makes a second sending of the same call get the same answer.

        A new key is made for each call. Give your own to be safe across restarts of your program too.
        """
        body = items if isinstance(items, Enqueue) else Enqueue(items=list(items))
        key = idempotency_key or uuid.uuid4().hex
        return await self._post(
            "/api/work", body, Enqueued, is_repeatable=True, headers={"idempotency-key": key}
        )

    async def cancel(self, ids: Sequence[str], *, reason: str = "cancelled") -> Verdicts:
        """End items whatever they are doing. A running holder is told when it next renews."""
        body = Cancel(ids=list(ids), reason=reason)
        return await self._settle("/api/work/cancel", body, {"cancelled"})

    # Taking and holding ----------------------------------------------------------------------

    async def claim(self, body: Claim, /) -> Claimed:
        """Lease items. A lost answer is not asked for again: what it granted comes back by itself."""
        return await self._post("/api/work/claim", body, Claimed, wait_seconds=body.wait_seconds)

    async def start(self, body: Grants, /) -> Verdicts:
        """Begin what was claimed. Whoever does not get `ok` must not begin."""
        return await self._settle("/api/work/start", body, {"started"})

    async def renew(self, body: Grants, /) -> Verdicts:
        """Stay the holder. Anything but `ok`: stop, it is not yours any more."""
        return await self._settle("/api/work/renew", body)

    async def release(self, body: Grants, /) -> Verdicts:
        """Give items back as if nothing had happened."""
        return await self._settle("/api/work/release", body)

    async def report(self, body: Report, /) -> Verdicts:
        """How it went: verdicts of `done` first, then of `failed`."""
        return await self._settle("/api/work/report", body, {"done"})

    async def _settle(
        self, path: str, body: BaseModel, said_twice: Collection[str] = ()
    ) -> Verdicts:
        """A call that names its items. `said_twice` are verdicts that mean: it was done before.

        After a lost answer that was us, and it went well. Without one it was not.
        """
        ask = Ask("POST", path, body=encode(body), is_repeatable=True)
        answer = await self._transport.send(ask)
        verdicts = decode(Verdicts, answer.body)
        return _as_first_said(verdicts, said_twice) if answer.is_repeat else verdicts

    # Looking ---------------------------------------------------------------------------------

    async def show(self, id: str) -> WorkShown:
        """One item, live or finished."""
        return await self._get(f"/api/work/{_part(id)}", WorkShown)

    async def queues(self) -> Queues:
        """Items by queue and state; `dead` are dead letters."""
        return await self._get("/api/queues", Queues)

    async def dead_letters(
        self, queue: str | None = None, *, cursor: str | None = None, limit: int = 100
    ) -> DeadLetters:
        """One page of dead letters, queue by queue, the oldest first."""
        return await self._get(
            "/api/deadletters", DeadLetters, queue=queue, cursor=cursor, limit=limit
        )

    async def all_dead_letters(
        self, queue: str | None = None, *, page: int = 100
    ) -> AsyncIterator[DeadLetter]:
        """All pages, one letter at a time."""
        cursor: str | None = None
        while True:
            letters = await self.dead_letters(queue, cursor=cursor, limit=page)
            for letter in letters.items:
                yield letter
            cursor = letters.next_cursor
            if cursor is None:
                return

    async def replay(self, ids: Sequence[str]) -> Replayed:
        """Put dead letters back into their queues, with a fresh count of attempts."""
        return await self._post("/api/deadletters/replay", Replay(ids=list(ids)), Replayed)

    async def why(self, kind: str, id: str) -> Explanation:
        """Why a thing is where it is, and what happens next."""
        return await self._get(f"/api/why/{_part(kind)}/{_part(id)}", Explanation)

    async def journal(self, kind: str, id: str, *, after: int = 0, limit: int = 100) -> Journal:
        """What happened to one thing, in order."""
        path = f"/api/journal/{_part(kind)}/{_part(id)}"
        return await self._get(path, Journal, after=after, limit=limit)

    async def events(
        self, *, kind: str | None = None, id: str | None = None, after: str | None = None
    ) -> AsyncIterator[JournalLine]:
        """The journal as it is written, from now on or from `after` on, without gaps."""
        async for line in follow(self._transport, kind=kind, id=id, after=after):
            yield line

    # Blobs -----------------------------------------------------------------------------------

    async def download_link(self, key: str, *, seconds: int = 3600) -> Link:
        """A link that fetches a blob. It is good for anybody who has it."""
        body = NewLink(key=key, seconds=seconds)
        return await self._post("/api/blobs/download-links", body, Link)

    async def upload_link(self, key: str, *, seconds: int = 3600) -> Link:
        """A link that puts a blob. It is good for anybody who has it."""
        body = NewLink(key=key, seconds=seconds)
        return await self._post("/api/blobs/upload-links", body, Link)

    async def blobs(self, prefix: str = "", *, cursor: str = "", limit: int = 100) -> Blobs:
        """One page of blobs, by key."""
        return await self._get("/api/blobs", Blobs, prefix=prefix, cursor=cursor, limit=limit)

    # Access ----------------------------------------------------------------------------------

    async def create_token(
        self, name: str, scopes: Sequence[Scope], *, days: float | None = None
    ) -> TokenIssued:
        """Make a token. Its text is in this answer and nowhere else."""
        body = NewToken(name=name, scopes=list(scopes), days=days)
        return await self._post("/api/tokens", body, TokenIssued)

    async def tokens(
        self, *, everything: bool = False, cursor: str | None = None, limit: int = 100
    ) -> Tokens:
        """One page of tokens; `everything` adds those that are over."""
        said = "true" if everything else None
        return await self._get("/api/tokens", Tokens, everything=said, cursor=cursor, limit=limit)

    async def rotate_token(
        self, id: str, *, days: float | None = None, overlap_seconds: float = 86_400.0
    ) -> TokenIssued:
        """Replace a token. Old and new are good together for `overlap_seconds`."""
        body = RotateToken(days=days, overlap_seconds=overlap_seconds)
        return await self._post(f"/api/tokens/{_part(id)}/rotate", body, TokenIssued)

    async def revoke_token(self, id: str) -> Revoked:
        """End a token, everywhere within five seconds."""
        return _parsed(
            Revoked, await self._transport.send(Ask("DELETE", f"/api/tokens/{_part(id)}"))
        )

    async def login_link(self) -> LoginLink:
        """A link that signs a browser in, once."""
        return _parsed(LoginLink, await self._transport.send(Ask("POST", "/api/login-links")))

    async def audit(
        self, *, actor: str | None = None, cursor: str | None = None, limit: int = 100
    ) -> AuditLog:
        """Who called what, the newest first."""
        return await self._get("/api/audit", AuditLog, actor=actor, cursor=cursor, limit=limit)

    async def violations(self) -> Violations:
        """Rows that break a promise, counted now. All must read 0."""
        return await self._get("/api/audit/violations", Violations)

    # Health ----------------------------------------------------------------------------------

    async def ready(self) -> bool:
        """Whether everything there has started and answers. Unreachable if nobody is there."""
        try:
            ask = Ask("GET", "/readyz")
            async with self._transport.stream(ask, silence_seconds=TRY_SECONDS):
                return True
        except Unavailable as error:
            if error.status is None:
                raise
            return False

    # -----------------------------------------------------------------------------------------

    async def _get(self, path: str, model: type[M], **query: str | int | None) -> M:
        return _parsed(
            model, await self._transport.send(Ask("GET", path, query, is_repeatable=True))
        )

    async def _post(
        self,
        path: str,
        body: BaseModel,
        model: type[M],
        *,
        headers: dict[str, str] | None = None,
        is_repeatable: bool = False,
        wait_seconds: float = 0.0,
    ) -> M:
        ask = Ask(
            "POST",
            path,
            body=encode(body),
            headers=headers or {},
            is_repeatable=is_repeatable,
            wait_seconds=wait_seconds,
        )
        return _parsed(model, await self._transport.send(ask))


def _parsed(model: type[M], answer: Answer) -> M:
    return decode(model, answer.body)


def _as_first_said(verdicts: Verdicts, said_twice: Collection[str]) -> Verdicts:
    return Verdicts(
        verdicts=[
            Verdict(id=each.id, epoch=each.epoch, verdict=OK, expires_at=each.expires_at)
            if each.verdict in said_twice
            else each
            for each in verdicts.verdicts
        ]
    )


def _part(text: str) -> str:
    """One part of a path, whatever is in it: an id may hold slashes, and `..` is an id too."""
    return "%2E" * len(text) if text in (".", "..") else quote(text, safe="")
