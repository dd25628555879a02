"""The connection goes to the address that was checked (rows N1, N2, N3; Prefect's CVE-2026-7724)."""

from __future__ import annotations

import asyncio
import random
import socket
import threading
from pathlib import Path

import pytest

from podium.effects.http import (
    Egress,
    OutgoingHttp,
    Refused,
    Request,
    Settings,
    SystemResolver,
    TimedOut,
    Unreachable,
)
from podium.kernel.clock import SystemClock
from tests.effects.strangers import (
    PUBLIC,
    Names,
    Recorder,
    answers,
    caller,
    egress_to,
    hangs_up,
    listening,
)

GET = Request("GET", "http://name.example/secret-path?key=hunter2")


async def refusal_of(*answer: str) -> Refused:
    """What becomes of a call to a name with these addresses; nobody may be dialled."""
    network = Recorder()
    async with caller(Egress(), names={"name.example": [list(answer)]}, network=network) as client:
        with pytest.raises(Refused) as refused:
            await client.send(GET)
    assert network.dialled == []
    return refused.value


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "0.0.0.0", "::", "::1", "::ffff:127.0.0.1"],
    ids=lambda address: f"N1 {address}",
)
async def test_n1_a_name_that_leads_to_loopback_is_refused_at_connect(address: str) -> None:
    await refusal_of(address)


@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254",
        "::ffff:169.254.169.254",
        "fd00:ec2::254",
        "100.100.100.200",
        "192.0.0.192",
        "64:ff9b::a9fe:a9fe",
        "2002:a9fe:a9fe::",
        "fe80::1%eth0",
    ],
    ids=lambda address: f"N2 {address}",
)
async def test_n2_a_name_that_leads_to_metadata_is_refused_at_connect(address: str) -> None:
    await refusal_of(address)


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param([PUBLIC, "10.0.0.1"], id="N3 public first"),
        pytest.param(["10.0.0.1", PUBLIC], id="N3 private first"),
        pytest.param([PUBLIC, "::1"], id="N3 A public, AAAA private"),
        pytest.param(["2606:4700::1111", "127.0.0.1"], id="N3 AAAA public, A private"),
        pytest.param([PUBLIC] * 49 + ["10.0.0.1"], id="N3 the last of 50"),
        pytest.param([PUBLIC] * 65, id="N3 too many"),
        pytest.param([PUBLIC, "not an address"], id="N3 nonsense"),
    ],
)
async def test_n3_one_address_that_may_not_be_called_spoils_them_all(answer: list[str]) -> None:
    refused = await refusal_of(*answer)
    told = str(refused) + repr(refused.details)
    assert "10.0.0.1" not in told, "where our own names lead is not the caller's to know"
    assert "hunter2" not in told
    assert "secret-path" not in told


async def test_n3_fifty_public_addresses_are_checked_and_a_few_are_tried() -> None:
    network = Recorder()
    answer = [f"93.184.216.{n}" for n in range(50)]
    async with caller(Egress(), names={"name.example": [answer]}, network=network) as client:
        with pytest.raises(Unreachable):
            await client.send(GET)
    assert network.dialled == answer[:4], "by address, never by name"


async def test_n3_both_families_are_tried() -> None:
    network = Recorder()
    answer = ["2606:4700::1", "2606:4700::2", "2606:4700::3", "2606:4700::4", PUBLIC]
    async with caller(Egress(), names={"name.example": [answer]}, network=network) as client:
        with pytest.raises(Unreachable):
            await client.send(GET)
    assert network.dialled == ["2606:4700::1", PUBLIC, "2606:4700::2", "2606:4700::3"]


async def test_n3_a_name_that_changes_its_mind_is_checked_at_each_connection() -> None:
    names = Names({"name.example": [["127.0.0.2"], ["127.0.0.3"]]})
    async with listening(answers(headers=[("Connection", "close")]), host="127.0.0.2") as good:
        async with listening(answers(), host="127.0.0.3", port=good.port) as inner:
            egress = egress_to(good, networks=["127.0.0.2/32"])
            async with caller(egress, names=names) as client:
                url = good.url(host="name.example")
                assert (await client.send(Request("GET", url))).status == 200
                with pytest.raises(Refused):
                    await client.send(Request("GET", url))
    assert good.connections == 1
    assert inner.connections == 0
    assert names.lookups == ["name.example"] * 2, "one lookup for each connection"


async def test_n3_the_name_is_not_looked_up_again_to_connect(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = Names({"name.example": [["127.0.0.2"], ["127.0.0.3"]]})

    def second_lookup(host: str, *args: object, **kwargs: object) -> object:
        raise AssertionError(f"{host} was looked up behind the guard's back")

    async with listening(answers(), host="127.0.0.2") as stranger:
        async with caller(egress_to(stranger), names=names) as client:
            monkeypatch.setattr(socket, "getaddrinfo", second_lookup)
            await client.send(Request("GET", stranger.url(host="name.example")))
    assert names.lookups == ["name.example"]
    assert f"Host: name.example:{stranger.port}".encode() in stranger.heads[0]


async def test_an_address_that_does_not_answer_is_followed_by_the_next() -> None:
    async with listening(answers(), host="127.0.0.3") as stranger:
        names = {"name.example": [["127.0.0.2", "127.0.0.3"]]}
        async with caller(egress_to(stranger), names=names) as client:
            response = await client.send(Request("GET", stranger.url(host="name.example")))
    assert response.status == 200


async def test_a_name_that_does_not_exist_is_unreachable() -> None:
    async with caller(Egress()) as client:
        with pytest.raises(Unreachable) as failed:
            await client.send(GET)
    assert failed.value.reason == "dns"
    assert "hunter2" not in str(failed.value) + repr(failed.value.details)


async def test_a_name_server_that_never_answers_costs_the_connect_time() -> None:
    async def never(host: str, port: int) -> list[str]:
        await asyncio.Event().wait()
        return []

    client = OutgoingHttp(
        egress=Egress(),
        clock=SystemClock(),
        rng=random.Random(1),
        settings=Settings(connect_seconds=0.05),
        resolve=never,
    )
    async with client:
        with pytest.raises(TimedOut) as failed:
            await client.send(GET)
    assert failed.value.reason == "connect"


async def test_names_that_never_resolve_hold_up_no_other_name() -> None:
    release = threading.Event()

    def lookup(host: str, port: int) -> list[str]:
        if host.startswith("slow"):
            release.wait(30)
        return [PUBLIC]

    resolver = SystemResolver(lookup)
    slow = [asyncio.ensure_future(resolver(f"slow-{n}", 80)) for n in range(16)]
    try:
        async with asyncio.timeout(10):
            assert await resolver("quick", 80) == [PUBLIC]
        assert not any(lookup.done() for lookup in slow)
    finally:
        release.set()
        await asyncio.gather(*slow)
        resolver.close()


async def test_the_machines_own_resolver_is_asked_by_default() -> None:
    async with listening(answers()) as stranger:
        client = OutgoingHttp(
            egress=egress_to(stranger, networks=["127.0.0.0/8", "::1/128"]),
            clock=SystemClock(),
            rng=random.Random(1),
        )
        async with client:
            response = await client.send(Request("GET", stranger.url(host="localhost")))
    assert response.status == 200


async def test_nothing_is_taken_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async with listening(hangs_up) as proxy, listening(answers()) as stranger:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url())
        netrc = tmp_path / "netrc"
        netrc.write_text("machine 127.0.0.1 login me password hunter2\n")
        netrc.chmod(0o600)
        monkeypatch.setenv("NETRC", str(netrc))
        async with caller(egress_to(stranger)) as client:
            await client.send(Request("GET", stranger.url()))
    assert proxy.connections == 0
    assert b"authorization" not in stranger.heads[0].lower()


async def test_our_own_public_url_is_called_inside() -> None:
    """N8: the name of our public URL may lead to a private address; no other name may."""
    async with listening(answers()) as stranger:
        egress = Egress.of(public_url=stranger.url(host="podium.example"))
        names = {"podium.example": [["127.0.0.1"]], "other.example": [["127.0.0.1"]]}
        async with caller(egress, names=names) as client:
            own = await client.send(Request("POST", stranger.url("/callback/1", "podium.example")))
            with pytest.raises(Refused):
                await client.send(Request("POST", "http://other.example/callback/1"))
    assert own.status == 200
    assert stranger.connections == 1
