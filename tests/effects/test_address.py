"""An address is called only if it is public in every way that somebody may read it (row N2)."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podium.effects.http.address import METADATA, SPECIAL, why_not

V4 = st.integers(0, 2**32 - 1).map(IPv4Address)


def carriers(inner: IPv4Address) -> dict[str, IPv6Address]:
    """Every way to write an IPv4 address inside an IPv6 one."""
    value = int(inner)
    return {
        "mapped": IPv6Address((0xFFFF << 32) | value),
        "compatible": IPv6Address(value),
        "translated": IPv6Address((0xFFFF << 48) | value),
        "nat64": IPv6Address((0x64FF9B << 96) | value),
        "nat64 local, 96": IPv6Address((0x64FF9B0001 << 80) | value),
        "nat64 local, 48": IPv6Address(
            (0x64FF9B0001 << 80) | (value >> 16) << 64 | (value & 0xFFFF) << 40
        ),
        "6to4": IPv6Address((0x2002 << 112) | value << 80),
        "teredo client": IPv6Address((0x20010000 << 96) | (value ^ 0xFFFFFFFF)),
        "teredo server": IPv6Address((0x20010000 << 96) | value << 64),
    }


@pytest.mark.parametrize(
    "text",
    [
        "127.0.0.1",
        "127.255.255.254",
        "0.0.0.0",
        "0.1.2.3",
        "10.0.0.1",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.0.1",
        "100.64.0.1",
        "169.254.169.254",
        "169.254.170.2",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "192.0.2.1",
        "192.88.99.1",
        "198.18.0.1",
        "198.19.255.255",
        "198.51.100.1",
        "203.0.113.1",
        "224.0.0.1",
        "239.255.255.255",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::7f00:1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "::ffff:0:127.0.0.1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b::7f00:1",
        "64:ff9b:1::a9fe:a9fe",
        "64:ff9b:1::808:808",
        "2002:a9fe:a9fe::",
        "2002:7f00:1::1",
        "2001:0:4136:e378:8000:63bf:5601:5601",
        "2001:db8::1",
        "3fff::1",
        "100::1",
        "5f00::1",
        "fc00::1",
        "fd00:ec2::254",
        "fe80::1",
        "fe80::1%eth0",
        "fec0::1",
        "ff02::1",
    ],
)
def test_n2_what_is_not_public_is_refused(text: str) -> None:
    assert why_not(ip_address(text))


@pytest.mark.parametrize(
    "text",
    [
        "8.8.8.8",
        "93.184.216.34",
        "1.1.1.1",
        "172.15.255.255",
        "172.32.0.1",
        "100.63.255.255",
        "100.128.0.1",
        "223.255.255.255",
        "2606:2800:220:1:248:1893:25c8:1946",
        "2a00:1450:4001::1",
        "::ffff:8.8.8.8",
        "64:ff9b::808:808",
        "2002:808:808::1",
    ],
)
def test_what_is_public_may_be_called(text: str) -> None:
    assert why_not(ip_address(text)) is None


@given(V4)
def test_an_address_that_carries_a_refused_one_is_refused(inner: IPv4Address) -> None:
    if why_not(inner):
        for form, carrier in carriers(inner).items():
            assert why_not(carrier), f"{carrier} carries {inner} ({form})"


@given(st.sampled_from(sorted(n for n in SPECIAL if n.version == 4)), st.integers(0, 2**32 - 1))
def test_no_form_of_a_special_address_is_called(network: object, draw: int) -> None:
    assert isinstance(network, type(ip_network("10.0.0.0/8")))
    inner = network[draw % network.num_addresses]
    assert isinstance(inner, IPv4Address)
    assert why_not(inner)
    assert all(why_not(carrier) for carrier in carriers(inner).values())


@given(V4 | st.integers(0, 2**128 - 1).map(IPv6Address))
def test_nothing_is_called_that_the_standard_library_finds_private(
    address: IPv4Address | IPv6Address,
) -> None:
    is_a_form = isinstance(address, IPv6Address) and address.ipv4_mapped is not None
    if why_not(address) is None and not is_a_form:
        assert address.is_global
        assert not address.is_multicast


def test_the_operators_networks_are_open_and_nothing_beside_them() -> None:
    networks = [ip_network("10.1.0.0/16"), ip_network("fd12::/16")]
    assert why_not(ip_address("10.1.2.3"), networks) is None
    assert why_not(ip_address("::ffff:10.1.2.3"), networks) is None
    assert why_not(ip_address("fd12::1"), networks) is None
    assert why_not(ip_address("10.2.0.1"), networks) == "private"
    assert why_not(ip_address("::ffff:10.2.0.1"), networks) == "private"


@pytest.mark.parametrize("address", METADATA, ids=str)
def test_no_list_opens_a_metadata_service(address: IPv4Address | IPv6Address) -> None:
    everything = [ip_network("0.0.0.0/0"), ip_network("::/0")]
    assert why_not(address, everything) == "metadata service"
    if isinstance(address, IPv4Address):
        assert all(why_not(carrier, everything) for carrier in carriers(address).values())
