"""URLs as we take them: strictly, so that nobody further on can read another host out of them.

Parsers disagree about backslashes, tabs, user names, odd numbers and signs that look alike, and each
disagreement is a way past a check. Here there is one reading: what is unclear is refused with what to
write instead, and what was read goes to the socket in parts, never as text that is parsed again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import NoReturn

import idna

from podium.effects.http.address import Address
from podium.kernel.errors import Invalid

LENGTH_MAX = 2048
DEFAULT_PORTS = {"http": 80, "https": 443}

SHAPE = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<authority>[^/?#]*)(?P<path>/[^?#]*)?(?P<query>\?[^#]*)?"
    r"(?P<fragment>#.*)?"
)
TARGET = re.compile(r"(?:[A-Za-z0-9._~:/?@!$&'()*+,;=\[\]-]|%[0-9A-Fa-f]{2})*")
NAME = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)(?:\.(?!-)[a-z0-9_-]{1,63}(?<!-))*")
NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+")
PORT = re.compile(r"[0-9]{1,5}")


@dataclass(frozen=True, slots=True)
class Url:
    scheme: str
    host: str
    """A name in lower case and ASCII, or an address in its shortest form, without brackets."""
    port: int
    # Often a secret in itself, as in a hook's path: not shown by accident.
    target: str = field(repr=False)
    address: Address | None = None

    @property
    def authority(self) -> str:
        """As the header `Host` says it."""
        host = f"[{self.host}]" if isinstance(self.address, IPv6Address) else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.authority}"

    def __str__(self) -> str:
        return self.origin + self.target


def parse(text: str, name: str = "url") -> Url:
    """Read `text`; Invalid, naming the field `name`, says what is wrong and what to write."""
    if len(text) > LENGTH_MAX:
        refuse(name, f"has {len(text)} characters; the most is {LENGTH_MAX}")
    if any(char <= " " or char in "\\\x7f" for char in text):
        refuse(name, "has a space, a control character or a backslash; percent-encode it")
    parts = SHAPE.fullmatch(text)
    if parts is None:
        refuse(name, "is not a whole URL; write it as https://host/path")
    scheme = parts["scheme"].lower()
    if scheme not in DEFAULT_PORTS:
        refuse(name, f"has the scheme {scheme!r}; only http and https are called")
    if parts["fragment"] is not None:
        refuse(name, "has a fragment (#…), which is never sent; leave it out")
    target = (parts["path"] or "/") + (parts["query"] or "")
    if not TARGET.fullmatch(target):
        refuse(name, "has characters in its path or query that must be percent-encoded")
    host, address, port = _authority(parts["authority"], name)
    return Url(scheme, host, DEFAULT_PORTS[scheme] if port is None else port, target, address)


def refuse(name: str, why: str) -> NoReturn:
    raise Invalid(f"{name} {why}", field=name)


def _authority(text: str, name: str) -> tuple[str, Address | None, int | None]:
    if "@" in text:
        refuse(name, "has a user name before the host; send credentials in a header")
    if text.startswith("["):
        literal, bracket, rest = text[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            refuse(name, "has a broken IPv6 address; write it as [2001:db8::1]:443")
        address: Address | None = _ipv6(literal, name)
        host, port = str(address), rest[1:] if rest else None
    else:
        before, colon, after = text.partition(":")
        host, port = _ascii(before, name).removesuffix("."), after if colon else None
        address = _ipv4(host, name)
        if not NAME.fullmatch(host) or len(host) > 253:
            refuse(name, "has no host that is a name or an address; write https://host/path")
    if port is None:
        return host, address, None
    if not PORT.fullmatch(port) or not 0 < int(port) < 65536:
        refuse(name, "has a port that is no number from 1 to 65535")
    return host, address, int(port)


def _ascii(host: str, name: str) -> str:
    """The host in lower case. One with signs beyond ASCII is told how it is really called: signs
    that look alike then do not, and the caller can see which he meant."""
    if host.isascii():
        return host.lower()
    try:
        real = idna.encode(host, uts46=True).decode()
    except idna.IDNAError:
        refuse(name, "has a host with characters that no host name may have")
    refuse(name, f"has a host with characters beyond ASCII; if you mean {real}, write that")


def _ipv6(text: str, name: str) -> IPv6Address:
    try:
        address = IPv6Address(text)
    except AddressValueError:
        refuse(name, "has a broken IPv6 address; write it as [2001:db8::1]")
    if address.scope_id:
        refuse(name, "has an IPv6 address with a zone, which means something on one machine only")
    return address


def _ipv4(host: str, name: str) -> IPv4Address | None:
    """None if it is a name. A host that ends in a number is an address to every resolver, in one of
    several old ways to write it (127.1, 0x7f.1, 2130706433); only the plain one is taken."""
    labels = host.split(".")
    if not NUMBER.fullmatch(labels[-1]):
        return None
    try:
        return IPv4Address(host)
    except AddressValueError:
        meant = _meant(labels)
    if meant is None:
        refuse(name, "has a host that ends in a number and is no IPv4 address")
    refuse(name, f"has an odd way to write an address; if you mean {meant}, write that")


def _meant(labels: list[str]) -> IPv4Address | None:
    """What the C library reads: hexadecimal, octal, and a last number that fills what is left."""
    if len(labels) > 4 or not all(NUMBER.fullmatch(label) for label in labels):
        return None
    try:
        *front, last = [_number(label) for label in labels]
    except ValueError:
        return None
    if any(part > 255 for part in front) or last >= 256 ** (4 - len(front)):
        return None
    value = sum(part << (24 - 8 * place) for place, part in enumerate(front)) + last
    return IPv4Address(value)


def _number(label: str) -> int:
    if label.startswith("0x"):
        return int(label[2:] or "0", 16)
    return int(label, 8) if label.startswith("0") and label != "0" else int(label)
