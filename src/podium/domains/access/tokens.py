"""Tokens: made, replaced, withdrawn, and recognised.

A token that was just recognised is believed for two seconds, so that a busy caller costs no query
per request. A withdrawal rings a bell that makes every process forget at once; if the ring is lost,
the two seconds end it. So a revoked token is dead within five seconds everywhere.
"""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from podium.contracts.scopes import Scope
from podium.domains.access import decide, repository
from podium.domains.access.model import Issued, Kind, Token
from podium.kernel import journal
from podium.kernel.clock import Clock
from podium.kernel.errors import Invalid, InvalidToken, NotFound
from podium.kernel.store import Store, Tx

CHANNEL = "access"
BELIEVED_SECONDS = 2.0
BELIEVED_MAX = 10_000
OVERLAP_SECONDS = 86_400.0
LOGIN_SECONDS = 600.0
SESSION_SECONDS = 12 * 3600.0
DAYS_MAX = 3650.0


@dataclass(slots=True)
class _Believed:
    token: Token
    until: float


class Tokens:
    def __init__(self, store: Store, clock: Clock, rng: random.Random) -> None:
        self._store = store
        self._clock = clock
        self._rng = rng
        self._believed: OrderedDict[str, _Believed] = OrderedDict()
        store.bell.watch(self._on_ring)

    # Making ----------------------------------------------------------------------------------

    async def create(
        self, tx: Tx, *, name: str, scopes: Sequence[Scope], valid_days: float, actor: str
    ) -> Issued:
        """A new token. Its text is in the answer and nowhere else."""
        decide.refuse_name(name)
        if not 0 < valid_days <= DAYS_MAX:
            raise Invalid(
                f"days is {valid_days:g}; it is more than 0 and at most {DAYS_MAX:g}", field="days"
            )
        return await self._issue(
            tx,
            kind=Kind.TOKEN,
            name=name,
            scopes=decide.scopes(list(scopes)),
            valid_seconds=valid_days * 86_400.0,
            actor=actor,
        )

    async def rotate(
        self, tx: Tx, id: str, *, valid_days: float, actor: str, overlap_seconds: float
    ) -> Issued:
        """A successor with the same name and scopes. Both are good for a while; a third never is."""
        old = await repository.token(tx, id)
        siblings = [] if old is None else await repository.siblings(tx, old.family)
        if old is None or old.kind is not Kind.TOKEN or id not in siblings:
            raise NotFound("there is no valid token of that id", field="id")
        for sibling in siblings:
            if sibling != id:
                await self.revoke(tx, sibling, actor=actor)
        await repository.shorten(tx, id, overlap_seconds)
        tx.ring(CHANNEL)
        return await self._issue(
            tx,
            kind=Kind.TOKEN,
            name=old.name,
            scopes=old.scopes,
            valid_seconds=valid_days * 86_400.0,
            actor=actor,
            family=old.family,
        )

    async def revoke(self, tx: Tx, id: str, *, actor: str) -> bool:
        """False if there is no such token, or it was revoked before."""
        revoked = await repository.revoke(tx, id)
        if revoked:
            await repository.revoke_opened(tx, id)
            await journal.append(tx, [journal.Event("token", id, "revoked", actor=actor)])
            tx.ring(CHANNEL)
        return revoked

    async def list(
        self, tx: Tx, *, everything: bool = False, before: str = "~", n: int = 100
    ) -> list[Token]:
        return await repository.tokens(tx, everything=everything, before=before, n=n)

    # Browsers --------------------------------------------------------------------------------

    async def invite(self, tx: Tx, *, scopes: Sequence[Scope], actor: str) -> Issued:
        """A login link's code: good for ten minutes, and once, and no longer than its maker's token."""
        maker = await repository.token(tx, actor)
        if maker is not None and maker.revoked_at is not None:
            raise InvalidToken
        return await self._issue(
            tx,
            kind=Kind.LOGIN,
            name="login link",
            scopes=decide.scopes([*scopes]),
            valid_seconds=LOGIN_SECONDS,
            actor=actor,
        )

    async def open_session(self, tx: Tx, code: bytes) -> Issued:
        """Spend a login code. InvalidToken if it is unknown, over, or spent before."""
        login, _ = await self._recognise(tx, code, Kind.LOGIN)
        if not await repository.revoke(tx, login.id):
            raise InvalidToken("this login link was used before; ask for a new one")
        return await self._issue(
            tx,
            kind=Kind.SESSION,
            name="browser",
            scopes=login.scopes,
            valid_seconds=SESSION_SECONDS,
            # Whoever revokes the token that made the link ends the session with it.
            actor=login.created_by,
        )

    # Recognising -----------------------------------------------------------------------------

    async def authenticate(self, text: bytes, kind: Kind = Kind.TOKEN) -> Token:
        """The token behind `text`. InvalidToken or Expired otherwise."""
        decide.refuse_misshapen(text)
        hash = decide.hashed(text)
        believed = self._believed.get(hash)
        if believed is None or believed.until <= self._clock.monotonic():
            token, left = await self._store.read(self._recognise, text, kind)
            self._believe(hash, token, left)
            return token
        if believed.token.kind is not kind:
            raise InvalidToken
        return believed.token

    def was_recognised(self, text: bytes) -> bool:
        """Whether this process has seen it to be good, not long ago. It may be over by now."""
        return decide.hashed(text) in self._believed

    async def _recognise(self, tx: Tx, text: bytes, kind: Kind) -> tuple[Token, float]:
        """The token, and for how many seconds it is still good by the database's clock."""
        decide.refuse_misshapen(text)
        found = await repository.token_by_hash(tx, decide.hashed(text))
        if found is None or found[0].kind is not kind:
            raise InvalidToken
        token, now = found
        decide.refuse_unless_valid(token, now)
        return token, (token.expire_at - now).total_seconds()

    def _believe(self, hash: str, token: Token, left_seconds: float) -> None:
        until = self._clock.monotonic() + min(BELIEVED_SECONDS, left_seconds)
        self._believed[hash] = _Believed(token, until)
        self._believed.move_to_end(hash)
        if len(self._believed) > BELIEVED_MAX:
            self._believed.popitem(last=False)

    def _on_ring(self, channel: str, hint: int | None) -> None:
        if channel == CHANNEL:
            self._believed.clear()

    # -----------------------------------------------------------------------------------------

    async def _issue(
        self,
        tx: Tx,
        *,
        kind: Kind,
        name: str,
        scopes: frozenset[Scope],
        valid_seconds: float,
        actor: str,
        family: str | None = None,
    ) -> Issued:
        id = decide.new_id(self._rng)
        text = decide.new_text(id, self._rng)
        token = await repository.add_token(
            tx,
            id=id,
            family=family or id,
            kind=kind,
            name=name,
            hash=decide.hashed(text.encode()),
            scopes=scopes,
            created_by=actor,
            valid_seconds=valid_seconds,
        )
        event = journal.Event(
            "token", id, "issued", actor=actor, data={"kind": kind, "scopes": sorted(scopes)}
        )
        await journal.append(tx, [event])
        return Issued(token, text)


async def prune(tx: Tx, n: int = 2_000) -> int:
    return len(await tx.rows("access.prune_tokens", n=n))
