"""A certificate is trusted for the name in the URL, or the call fails (row N9)."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from podium.effects.http import (
    AnswerTooLarge,
    OutgoingHttp,
    Refused,
    Request,
    Settings,
    Unreachable,
)
from podium.effects.http.client import tls_context
from tests.effects.certificates import Identity, issue
from tests.effects.strangers import Stranger, answers, caller, egress_to, listening, says, serving

NAMES = {"a.example": [["127.0.0.1"]], "b.example": [["127.0.0.1"]]}


@pytest.fixture(scope="module")
def authority() -> Identity:
    return issue("authority.example")


def trusting(authority: Identity) -> Settings:
    return Settings(extra_ca_pem=authority.pem)


async def test_a_certificate_for_the_name_is_trusted_at_the_checked_address(
    authority: Identity, tmp_path: Path
) -> None:
    server = issue("a.example", authority).server_context(tmp_path)
    asked: list[str | None] = []
    server.sni_callback = lambda _socket, name, _context: asked.append(name)
    async with listening(answers(200, b"hi"), tls=server) as stranger:
        egress = egress_to(stranger)
        async with caller(egress, names=NAMES, settings=trusting(authority)) as client:
            url = stranger.url(host="a.example", scheme="https")
            response = await client.send(Request("GET", url))
    assert response.body == b"hi"
    assert asked == ["a.example"], "the name, not the address, is asked for"
    assert f"Host: a.example:{stranger.port}\r\n".encode() in stranger.heads[0]


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        pytest.param("self-signed", "self-signed certificate", id="N9 self-signed"),
        pytest.param("unknown authority", "unable to get local issuer", id="N9 unknown authority"),
        pytest.param("expired", "expired", id="N9 expired"),
        pytest.param("wrong host", "Hostname mismatch", id="N9 wrong host"),
        pytest.param("for the address", "Hostname mismatch", id="N9 for the address only"),
    ],
)
async def test_n9_a_certificate_that_does_not_fit_is_a_failed_try(
    kind: str, told: str, authority: Identity, tmp_path: Path
) -> None:
    identity = {
        "self-signed": lambda: issue("a.example"),
        "unknown authority": lambda: issue("a.example", issue("somebody.example")),
        "expired": lambda: issue("a.example", authority, is_expired=True),
        "wrong host": lambda: issue("b.example", authority),
        "for the address": lambda: issue("127.0.0.1", authority),
    }[kind]()
    async with listening(answers(), tls=identity.server_context(tmp_path)) as stranger:
        egress = egress_to(stranger)
        async with caller(egress, names=NAMES, settings=trusting(authority)) as client:
            url = stranger.url(host="a.example", scheme="https")
            with pytest.raises(Unreachable) as failed:
                await client.send(Request("POST", url, body=b"secret"))
    assert failed.value.reason == "tls"
    assert told in str(failed.value)
    assert stranger.heads == [], "nothing was said to whom we do not trust"


async def test_n9_without_the_operators_authority_its_certificates_are_not_trusted(
    authority: Identity, tmp_path: Path
) -> None:
    server = issue("a.example", authority).server_context(tmp_path)
    async with listening(answers(), tls=server) as stranger:
        async with caller(egress_to(stranger), names=NAMES) as client:
            url = stranger.url(host="a.example", scheme="https")
            with pytest.raises(Unreachable):
                await client.send(Request("GET", url))
    assert stranger.heads == []


async def test_two_names_at_one_address_do_not_share_a_connection(
    authority: Identity, tmp_path: Path
) -> None:
    """A certificate that was checked for one name says nothing about the other."""
    server = issue("a.example", authority).server_context(tmp_path)
    async with listening(answers(), tls=server) as stranger:
        egress = egress_to(stranger)
        async with caller(egress, names=NAMES, settings=trusting(authority)) as client:
            await client.send(Request("GET", stranger.url(host="a.example", scheme="https")))
            with pytest.raises(Unreachable):
                await client.send(Request("GET", stranger.url(host="b.example", scheme="https")))


async def test_a_literal_address_is_trusted_if_its_certificate_says_so(
    authority: Identity, tmp_path: Path
) -> None:
    server = issue("127.0.0.1", authority).server_context(tmp_path)
    async with listening(answers(), tls=server) as stranger:
        async with caller(egress_to(stranger), settings=trusting(authority)) as client:
            response = await client.send(Request("GET", stranger.url(scheme="https")))
    assert response.status == 200


async def test_plain_http_where_tls_is_expected_is_a_failed_try() -> None:
    stranger = Stranger("127.0.0.1")
    plain = says(b"HTTP/1.1 400 Bad Request\r\n\r\n", and_hangs_up=True)
    async with serving(stranger, plain), caller(egress_to(stranger)) as client:
        with pytest.raises(Unreachable):
            await client.send(Request("GET", stranger.url(scheme="https")))


async def test_what_lies_around_an_answer_is_counted_behind_tls_too(
    authority: Identity, tmp_path: Path
) -> None:
    server = issue("127.0.0.1", authority).server_context(tmp_path)
    interim = says(b"HTTP/1.1 100 Continue\r\n\r\n" * 10_000)
    async with listening(interim, tls=server) as stranger:
        async with caller(egress_to(stranger), settings=trusting(authority)) as client:
            with pytest.raises(AnswerTooLarge) as failed:
                await client.send(Request("GET", stranger.url(scheme="https")))
    assert failed.value.reason == "bytes"


async def test_a_downgrade_to_plain_http_is_refused(authority: Identity, tmp_path: Path) -> None:
    server = issue("a.example", authority).server_context(tmp_path)
    async with listening(answers()) as plain:
        away = answers(302, headers=[("Location", plain.url(host="a.example"))])
        async with listening(away, tls=server) as stranger:
            egress = egress_to(stranger, plain)
            async with caller(egress, names=NAMES, settings=trusting(authority)) as client:
                url = stranger.url(host="a.example", scheme="https")
                with pytest.raises(Refused, match="from https to http"):
                    await client.send(Request("GET", url, redirects_max=3))
    assert plain.connections == 0


def test_n9_old_protocols_and_renegotiation_are_off() -> None:
    context = tls_context()
    assert context.verify_mode == ssl.CERT_REQUIRED
    assert context.check_hostname
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert context.options & ssl.OP_NO_RENEGOTIATION


def test_there_is_no_way_to_call_without_a_check() -> None:
    assert not {"verify", "insecure"} & set(OutgoingHttp.__init__.__annotations__)
    assert not {"verify", "insecure"} & set(Settings.__dataclass_fields__)
