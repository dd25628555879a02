"""May this address be called? Pure: one address in, a reason against it out, or None.

The rule is an allow rule. IPv4 must be outside every special block; IPv6 must be inside 2000::/3, the
only part that is given out. An address that carries another one is judged by what it carries too:
`::ffff:10.0.0.1` is 10.0.0.1, and a NAT64 or 6to4 router turns its form back into IPv4.

The standard library's `is_global` is asked as well, but not alone: on 3.11 it calls
2002:a9fe:a9fe::, 64:ff9b::a9fe:a9fe, ::127.0.0.1 and 192.0.0.192 global.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# These answer with the keys of the machine we run on. No allow list opens them, since a list that
# names 10.0.0.0/8 or fd00::/8 was not written with them in mind.
METADATA = {
    ip_address("169.254.169.254"): "AWS, Google, Azure, OpenStack and others",
    ip_address("169.254.170.2"): "AWS containers",
    ip_address("169.254.170.23"): "AWS pods",
    ip_address("169.254.0.23"): "Tencent",
    ip_address("100.100.100.200"): "Alibaba",
    ip_address("168.63.129.16"): "Azure's host, on a public address",
    ip_address("192.0.0.192"): "Oracle",
    ip_address("fd00:ec2::254"): "AWS",
    ip_address("fd00:ec2::23"): "AWS pods",
    ip_address("fd20:ce::254"): "Google",
}

SPECIAL = {
    ip_network("0.0.0.0/8"): "this host",
    ip_network("10.0.0.0/8"): "private",
    ip_network("100.64.0.0/10"): "shared by a carrier",
    ip_network("127.0.0.0/8"): "loopback",
    ip_network("169.254.0.0/16"): "link-local",
    ip_network("172.16.0.0/12"): "private",
    ip_network("192.0.0.0/24"): "protocol assignments",
    ip_network("192.0.2.0/24"): "documentation",
    ip_network("192.88.99.0/24"): "6to4 relays",
    ip_network("192.168.0.0/16"): "private",
    ip_network("198.18.0.0/15"): "benchmarking",
    ip_network("198.51.100.0/24"): "documentation",
    ip_network("203.0.113.0/24"): "documentation",
    ip_network("224.0.0.0/4"): "multicast",
    ip_network("240.0.0.0/4"): "reserved",
    ip_network("2001::/23"): "protocol assignments and Teredo",
    ip_network("2001:db8::/32"): "documentation",
    ip_network("3fff::/20"): "documentation",
}

GIVEN_OUT = IPv6Network("2000::/3")
MAPPED = IPv6Network("::ffff:0:0/96")
TRANSLATED = IPv6Network("::ffff:0:0:0/96")
COMPATIBLE = IPv6Network("::/96")
NAT64 = IPv6Network("64:ff9b::/96")
NAT64_LOCAL = IPv6Network("64:ff9b:1::/48")


def why_not(address: Address, allowed: Iterable[Network] = ()) -> str | None:
    """Why `address` may not be called, in a word or two; None if it may.

    `allowed` are the operator's networks: they open everything but metadata services.
    """
    if why := metadata(address):
        return why
    allowed = tuple(allowed)
    if _is_in(address, allowed):
        return None
    for reading in _readings(address):
        if (why := _special(reading)) and not _is_in(reading, allowed):
            return why
    return None


def metadata(address: Address) -> str | None:
    """Whether it is, or carries, the address of a metadata service."""
    found = any(_plain(reading) in METADATA for reading in [address, *_carried(address)])
    return "metadata service" if found else None


def _special(address: Address) -> str | None:
    for network, what in SPECIAL.items():
        if address in network:
            return what
    if isinstance(address, IPv6Address):
        return None if address in GIVEN_OUT else "not given out"
    return None if address.is_global else "not global"


def _readings(address: Address) -> list[Address]:
    """What must be public for a call to stay public. A mapped or NAT64 address is only a way to
    write or to route IPv4, so the form itself does not count."""
    carried: list[Address] = list(_carried(address))
    is_only_a_form = isinstance(address, IPv6Address) and (address in MAPPED or address in NAT64)
    return carried if is_only_a_form else [address, *carried]


def _carried(address: Address) -> Iterator[IPv4Address]:
    """The IPv4 addresses that some router or kernel may read out of an IPv6 address."""
    if isinstance(address, IPv4Address):
        return
    value = int(address)
    if any(address in form for form in (MAPPED, NAT64, TRANSLATED, COMPATIBLE)):
        yield IPv4Address(value & 0xFFFFFFFF)
    elif address in NAT64_LOCAL:
        # How long the translator's prefix is, only it knows: the last 32 bits behind a prefix of 96,
        # or the 32 bits around the eight that are left out behind one of 48.
        yield IPv4Address(value & 0xFFFFFFFF)
        yield IPv4Address((value >> 64 & 0xFFFF) << 16 | value >> 40 & 0xFFFF)
    elif address.sixtofour:
        yield address.sixtofour
    elif address.teredo:
        yield from address.teredo


def _is_in(address: Address, networks: Iterable[Network]) -> bool:
    return any(_plain(address) in network for network in networks)


def _plain(address: Address) -> Address:
    """Without a zone: fe80::1%eth0 does not equal fe80::1."""
    return IPv6Address(int(address)) if isinstance(address, IPv6Address) else address
