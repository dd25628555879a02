"""Access as the HTTP room sees it: settle who is asking, or refuse."""

from __future__ import annotations

from dataclasses import dataclass

from podium.contracts.scopes import Scope
from podium.domains.access.audit import Audit
from podium.domains.access.decide import refuse_misshapen
from podium.domains.access.limits import Allowance, Limits
from podium.domains.access.model import Caller, Issued, Kind
from podium.domains.access.tokens import Tokens
from podium.kernel.errors import Forbidden, InvalidToken, RateLimited
from podium.kernel.store import Store

ANONYMOUS = "anonymous"


@dataclass(frozen=True, slots=True)
class Policy:
    anonymous_scopes: frozenset[Scope]
    token_days: float
    failures_max: int
    requests_max: int


class Access:
    def __init__(
        self, store: Store, tokens: Tokens, limits: Limits, audit: Audit, policy: Policy
    ) -> None:
        self._store = store
        self.tokens = tokens
        self.limits = limits
        self.audit = audit
        self.policy = policy

    async def identify(
        self, text: bytes | None, *, address: str, kind: Kind = Kind.TOKEN
    ) -> Caller:
        """Who sends `text` (None: no token at all). Wrong tokens are counted by address."""
        if text is None:
            if self.policy.anonymous_scopes:
                return Caller(ANONYMOUS, self.policy.anonymous_scopes)
            raise InvalidToken
        if not self.tokens.was_recognised(text):
            # Who is at work here already is not stopped by a neighbour who guesses.
            self.refuse_guesser(_failures(address))
        try:
            token = await self.tokens.authenticate(text, kind)
        except InvalidToken:
            await self.count_failure(_failures(address))
            raise
        return Caller(token.id, token.scopes, token)

    async def open_session(self, code: bytes, *, address: str) -> Issued:
        """Spend a login link's code. Wrong ones are counted apart: any page can make a browser open a link."""
        self.refuse_guesser(_codes(address))
        try:
            refuse_misshapen(code)
            return await self._store.write(self.tokens.open_session, code)
        except InvalidToken:
            await self.count_failure(_codes(address))
            raise

    def refuse_guesser(self, bucket: str) -> None:
        """RateLimited, without asking anybody, while an address has guessed too often."""
        spent = self.limits.is_spent(bucket)
        if spent is not None:
            raise _too_many_failures(spent)

    async def count_failure(self, bucket: str) -> None:
        """One more wrong token or code. RateLimited when an address has guessed too often."""
        allowance = await self.limits.take(bucket, limit=self.policy.failures_max, block=1)
        if not allowance.is_granted:
            raise _too_many_failures(allowance) from None

    async def count(self, caller: Caller, address: str) -> Allowance:
        """One more request: whether it is granted, and what the caller has left of this minute."""
        who = address if caller.token is None else caller.token.family
        return await self.limits.take(f"requests:{who}", limit=self.policy.requests_max)


def refuse_too_often(allowance: Allowance) -> None:
    if not allowance.is_granted:
        raise RateLimited(
            f"more than {allowance.limit} requests in a minute",
            retry_after_seconds=allowance.reset_seconds,
            limit=allowance.limit,
        )


def refuse_without(caller: Caller, scope: Scope) -> None:
    if not caller.may(scope):
        raise Forbidden(f"this needs a token with scope {scope}", scope=scope)


def _failures(address: str) -> str:
    return f"failures:{address}"


def _too_many_failures(allowance: Allowance) -> RateLimited:
    return RateLimited(
        "too many wrong tokens from this address", retry_after_seconds=allowance.reset_seconds
    )


def _codes(address: str) -> str:
    return f"codes:{address}"
