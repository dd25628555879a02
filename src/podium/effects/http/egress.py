"""Where we call: the operator's rules, applied to a URL when it is registered and again at each call.

The same object judges the text (scheme, port, literal addresses) and, when a connection is opened, the
addresses that the name has at that moment. A name is registered once and resolved many times: what was
public then may be 127.0.0.1 now.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import ip_address, ip_network

from podium.effects.http import address
from podium.effects.http.address import Address, Network
from podium.effects.http.errors import Refused
from podium.effects.http.url import DEFAULT_PORTS, Url, parse, refuse
from podium.kernel.errors import Invalid
from podium.kernel.telemetry import logger

log = logger(__name__)

LOOPBACK = ip_address("127.0.0.1")


@dataclass(frozen=True, slots=True)
class Egress:
    networks: tuple[Network, ...] = ()
    """Networks that may be called though they are not public. Metadata services stay closed."""
    ports: frozenset[int] = frozenset(DEFAULT_PORTS.values())
    """A service on another port is rarely meant to be called with HTTP: 6379 is Redis."""
    own: Url | None = None
    """Our own public URL. Exactly this scheme, host and port may be called wherever it leads to."""

    @classmethod
    def of(
        cls,
        *,
        networks: Iterable[str] = (),
        ports: Iterable[int] = (),
        public_url: str | None = None,
    ) -> Egress:
        """From what an operator wrote; `ports` are added to 80 and 443."""
        return cls(
            networks=tuple(_network(text) for text in networks),
            ports=frozenset({*DEFAULT_PORTS.values(), *ports}),
            own=None if public_url is None else parse(public_url, "public_url"),
        )

    def check(self, text: str, field: str = "url") -> Url:
        """The URL in parts, or Invalid: for registration, for each call and for each redirect."""
        url = parse(text, field)
        if self.is_own(url):
            return url
        if url.port not in self.ports:
            allowed = ", ".join(str(port) for port in sorted(self.ports))
            refuse(field, f"has the port {url.port}; the ports that are called are {allowed}")
        literal = url.address or (LOOPBACK if _is_localhost(url.host) else None)
        if literal and (why := address.why_not(literal, self.networks)):
            raise Refused(
                f"{field} points at {url.host}, which is not on the public internet ({why}); use a "
                "public address, or ask the operator to allow its network",
                destination=url.origin,
                reason="address",
                field=field,
            )
        return url

    def check_addresses(self, url: Url, found: Iterable[str]) -> list[Address]:
        """Judge every address of a name; one that may not be called spoils them all.

        Whoever mixes a public and a private address hopes that the first is checked and the second is
        called. The address itself is for the log: to the caller it would be a look into our network.
        """
        addresses = [self._read(url, text) for text in found]
        for candidate in addresses:
            why = (
                address.metadata(candidate)
                if self.is_own(url)
                else address.why_not(candidate, self.networks)
            )
            if why:
                log.warning("call refused", host=url.host, address=str(candidate), why=why)
                raise self._refused(url)
        return addresses

    def is_own(self, url: Url) -> bool:
        own = self.own
        return own is not None and (url.scheme, url.host, url.port) == (
            own.scheme,
            own.host,
            own.port,
        )

    def _read(self, url: Url, text: str) -> Address:
        try:
            return ip_address(text)
        except ValueError:
            log.warning("call refused", host=url.host, address=text, why="not an address")
            raise self._refused(url) from None

    def _refused(self, url: Url) -> Refused:
        return Refused(
            f"{url.host} has an address that is not on the public internet; use a public host, or ask "
            "the operator to allow its network",
            destination=url.origin,
            reason="address",
        )


def _is_localhost(host: str) -> bool:
    return host == "localhost" or host.endswith(".localhost")


def _network(text: str) -> Network:
    try:
        return ip_network(text)
    except ValueError as error:
        raise Invalid(
            f"an allowed network is no network: {error}; write it as 10.1.0.0/16", field="networks"
        ) from None
