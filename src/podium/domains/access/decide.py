"""What a token's text looks like, and whether it is good. Pure."""

from __future__ import annotations

import base64
import hashlib
import random
import re
from datetime import datetime

from podium.contracts.scopes import Scope
from podium.domains.access.model import Token
from podium.kernel.errors import Expired, Invalid, InvalidToken
from podium.kernel.work.decide import name as refuse_odd_name

PREFIX = "podium"
ID_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
ID_CHARACTERS = 12
SECRET_BYTES = 32
TEXT = re.compile(rb"podium_[0-9a-hjkmnp-tv-z]{12}_[A-Za-z0-9_-]{43}")


def new_id(rng: random.Random) -> str:
    return "".join(rng.choice(ID_ALPHABET) for _ in range(ID_CHARACTERS))


def new_text(id: str, rng: random.Random) -> str:
    """`podium_<id>_<256 random bits>`: the prefix lets scanners find a leaked one."""
    secret = base64.urlsafe_b64encode(rng.randbytes(SECRET_BYTES)).rstrip(b"=").decode()
    return f"{PREFIX}_{id}_{secret}"


def hashed(text: bytes) -> str:
    """Tokens are looked up by this: how much of a guess was right cannot be told from the time it took."""
    return hashlib.sha256(text).hexdigest()


def refuse_misshapen(text: bytes) -> None:
    """Before the store is asked: what cannot be a token of ours is none."""
    if not TEXT.fullmatch(text):
        raise InvalidToken


def refuse_unless_valid(token: Token, now: datetime) -> None:
    if token.revoked_at is not None:
        raise InvalidToken
    if token.expire_at <= now:
        raise Expired(
            f"the token expired at {token.expire_at:%Y-%m-%dT%H:%M:%SZ}; ask for a new one"
        )


def scopes(wanted: list[Scope]) -> frozenset[Scope]:
    if not wanted:
        raise Invalid(f"scopes is empty; give at least one of {', '.join(Scope)}", field="scopes")
    return frozenset(wanted)


def refuse_name(value: str) -> None:
    refuse_odd_name("name", value)
    if len(value) > 100:
        raise Invalid("name has more than 100 characters", field="name")
