"""Where a request says who sends it."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv6Address, ip_address

from starlette.requests import Request

from podium.kernel.errors import InvalidToken

COOKIE = "podium_session"


def token_of(request: Request) -> bytes | None:
    """The bearer token, as bytes: None if there is none, InvalidToken if it is said oddly.

    Only this header counts. A token in the address would end up in every log on the way.
    """
    sent = [value for name, value in request.scope["headers"] if name == b"authorization"]
    if not sent:
        return None
    if len(sent) > 1:
        raise InvalidToken("there is more than one Authorization header")
    scheme, _, text = sent[0].partition(b" ")
    if scheme.lower() != b"bearer" or not text:
        raise InvalidToken
    token: bytes = text
    return token


def cookie_of(request: Request) -> bytes | None:
    value = request.cookies.get(COOKIE)
    return None if value is None else value.encode("latin-1", "replace")


def address_of(request: Request, *, behind_proxy: bool) -> str:
    """The caller's address; of IPv6 the network, because a caller has as many addresses as it likes."""
    text = request.client.host if request.client else "unknown"
    if behind_proxy:
        # The last hop is the one our own proxy wrote; what stands before it is the caller's word.
        forwarded = request.headers.get("x-forwarded-for", "")
        text = forwarded.rpartition(",")[2].strip() or text
    return _network(text)


@lru_cache(maxsize=4_096)
def _network(text: str) -> str:
    try:
        address = ip_address(text)
    except ValueError:
        return "unknown"
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return f"{IPv6Address(int(address) >> 64 << 64)}/64"
    return str(address)
