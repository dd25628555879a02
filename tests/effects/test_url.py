"""A URL has one reading, or none (rows N1, N5, N8)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podium.contracts.errors import Code
from podium.effects.http import Egress, Url
from podium.effects.http.url import parse
from podium.kernel.errors import Invalid

ANYWHERE = Egress()
EVERYWHERE = Egress.of(networks=["0.0.0.0/0", "::/0"])

N1 = [
    "http://127.0.0.1",
    "http://0.0.0.0",
    "http://[::]",
    "http://[::1]",
    "http://localhost",
    "http://localhost.",
    "http://LOCALHOST",
    "http://a.localhost",
    "http://127.1",
    "http://0x7f.1",
    "http://0x7f000001",
    "http://2130706433",
    "http://017700000001",
    "http://0177.0.0.1",
    "http://0",
    "http://127.0.0.1.",
]
N2 = [
    "http://169.254.169.254/latest/meta-data/",
    "http://[::ffff:169.254.169.254]",
    "http://[::ffff:a9fe:a9fe]",
    "http://[fd00:ec2::254]",
    "http://100.100.100.200",
    "http://192.0.0.192",
    "http://[64:ff9b::a9fe:a9fe]",
    "http://[2002:a9fe:a9fe::]",
]
N5 = [
    "file:///etc/passwd",
    "gopher://h/1",
    "ftp://h/",
    "unix:///run/x.sock",
    "data:text/plain,x",
    "javascript:alert(1)",
    "http://user:p@h",
    "http://user@h",
    "http://@h",
    "http://h#@e",
    "http://h/#x",
    "http://h\\@e",
    "http://h/\\e",
    "http://h\t.e/",
    "http://h/a\nb",
    "http://h/a\r\nHost: e",
    " http://h",
    "http://h ",
    "http://h/a b",
    "http://h/\x00",
    "http://h/\x7f",
    "http://gооgle.com",
    "http://münchen.example",
    "http://１２７.0.0.1",
    "http://ⓛocalhost",
    "http://h%2ee/",
    "http://h:22",
    "http://h:25",
    "http://h:6379",
    "http://h:4222",
    "http://h:5432",
    "http://h:0",
    "http://h:65536",
    "http://h:",
    "http://h:８０",
    "http://h:80:80",
    "http://h:+80",
    "http://",
    "http:///path",
    "http:/h",
    "http:h",
    "//h/path",
    "h/path",
    "",
    "http://a..b",
    "http://-a.b",
    "http://a-.b",
    "http://.",
    "http://[::1",
    "http://[::1]x",
    "http://[fe80::1%25eth0]",
    "http://[fe80::1%eth0]",
    "http://[1.2.3.4]",
    "http://1.2.3",
    "http://1.2.3.4.5",
    "http://256.1.1.1",
    "http://a.0x",
    "http://089.1.1.1",
    "http://h/%zz",
    "http://h/{id}",
    "http://h/é",
    "http://" + "a" * 64,
    "http://" + "a." * 130 + "b",
    "http://h/" + "a" * 2048,
]


@pytest.mark.parametrize("text", N1, ids=lambda text: f"N1 {text}")
def test_n1_loopback_in_any_spelling_is_refused_at_registration(text: str) -> None:
    with pytest.raises(Invalid):
        ANYWHERE.check(text, "callback_url")


@pytest.mark.parametrize("text", N2, ids=lambda text: f"N2 {text}")
def test_n2_metadata_in_any_form_is_refused_at_registration(text: str) -> None:
    with pytest.raises(Invalid) as refused:
        ANYWHERE.check(text, "callback_url")
    assert refused.value.details["field"] == "callback_url"
    with pytest.raises(Invalid):
        EVERYWHERE.check(text)


@pytest.mark.parametrize("text", N5, ids=lambda text: f"N5 {text[:40]!r}")
def test_n5_what_has_two_readings_or_leads_elsewhere_is_refused(text: str) -> None:
    for egress in (ANYWHERE, EVERYWHERE):
        with pytest.raises(Invalid) as refused:
            egress.check(text, "callback_url")
        assert refused.value.code == Code.VALIDATION_INVALID_PARAMS
        assert refused.value.details["field"] == "callback_url"
        assert str(refused.value).startswith("callback_url ")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("http://gооgle.com", "xn--ggle-55da.com"),
        ("http://１２７.0.0.1", "127.0.0.1"),
        ("http://0x7f.1", "127.0.0.1"),
        ("http://134744072", "8.8.8.8"),
        ("http://h:8080", "80, 443"),
        ("http://u:hunter2@h", "header"),
        ("ftp://h", "http and https"),
    ],
)
def test_a_refusal_says_what_to_write_instead(text: str, told: str) -> None:
    with pytest.raises(Invalid, match="url ") as refused:
        ANYWHERE.check(text)
    assert told in str(refused.value)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "origin", "target"),
    [
        ("https://example.com", "https://example.com", "/"),
        ("HTTPS://Example.COM:443/A?b=c%20d", "https://example.com", "/A?b=c%20d"),
        ("http://example.com:443/", "http://example.com:443", "/"),
        ("https://example.com./x", "https://example.com", "/x"),
        ("https://xn--mnchen-3ya.example/", "https://xn--mnchen-3ya.example", "/"),
        ("https://8.8.8.8/", "https://8.8.8.8", "/"),
        ("https://[2606:4700::0:1111]/", "https://[2606:4700::1111]", "/"),
        ("https://a_b.example?q", "https://a_b.example", "/?q"),
        ("https://1a.example", "https://1a.example", "/"),
        ("https://example.com//a/../b", "https://example.com", "//a/../b"),
        ("https://example.com/@x?u=http://127.0.0.1", "https://example.com", "/@x?u=http://127.0.0.1"),
    ],
)  # fmt: skip
def test_a_plain_url_is_read(text: str, origin: str, target: str) -> None:
    url = ANYWHERE.check(text)
    assert (url.origin, url.target) == (origin, target)
    assert parse(str(url)) == url


def test_configured_ports_are_added() -> None:
    egress = Egress.of(ports=[8443])
    assert egress.check("https://h:8443").port == 8443
    assert egress.check("https://h").port == 443


def test_allowed_networks_open_plain_spellings_only() -> None:
    egress = Egress.of(networks=["127.0.0.0/8"])
    assert egress.check("http://127.0.0.1").host == "127.0.0.1"
    assert egress.check("http://localhost.").host == "localhost"
    with pytest.raises(Invalid):
        egress.check("http://127.1")


@pytest.mark.parametrize("text", ["10.0.0.1/8", "x", "10.0.0.0/33"])
def test_a_network_that_is_none_is_refused_when_the_operator_writes_it(text: str) -> None:
    with pytest.raises(Invalid, match="network"):
        Egress.of(networks=[text])


class TestOwnOrigin:
    """N8: our own API may be called at exactly its public URL, if the operator gave one."""

    def test_n8_without_a_public_url_our_own_api_is_refused(self) -> None:
        for text in ("http://127.0.0.1:8437/callback/1", "http://localhost:8437/callback/1"):
            with pytest.raises(Invalid):
                ANYWHERE.check(text)

    def test_n8_exactly_the_public_origin_is_allowed(self) -> None:
        egress = Egress.of(public_url="http://127.0.0.1:8437")
        assert egress.is_own(egress.check("http://127.0.0.1:8437/callback/1"))

    @pytest.mark.parametrize(
        "text",
        [
            "https://127.0.0.1:8437/",
            "http://127.0.0.1/",
            "http://127.0.0.1:8438/",
            "http://127.0.0.2:8437/",
            "http://localhost:8437/",
            "http://[::ffff:127.0.0.1]:8437/",
            "http://127.1:8437/",
            "http://a@127.0.0.1:8437/",
        ],
    )
    def test_n8_what_is_only_like_it_is_refused(self, text: str) -> None:
        with pytest.raises(Invalid):
            Egress.of(public_url="http://127.0.0.1:8437").check(text)

    def test_n8_its_name_may_lead_inside_but_never_to_metadata(self) -> None:
        egress = Egress.of(public_url="https://podium.example")
        own = egress.check("https://podium.example/callback/1")
        assert [str(a) for a in egress.check_addresses(own, ["10.0.0.7"])] == ["10.0.0.7"]
        with pytest.raises(Invalid):
            egress.check_addresses(own, ["169.254.169.254"])
        plain = egress.check("http://podium.example/callback/1")
        with pytest.raises(Invalid):
            egress.check_addresses(plain, ["10.0.0.7"])


def test_a_url_does_not_show_its_path_by_accident() -> None:
    url = parse("https://hooks.example/T0/SECRET?key=SECRET")
    assert "SECRET" not in repr(url)
    assert "SECRET" not in url.origin


@given(
    st.text(max_size=60)
    | st.text("htp:/@#?[]\\%.0123456789xabc", max_size=60).map("http://".__add__)
)
def test_any_text_is_read_the_same_twice_or_refused(text: str) -> None:
    try:
        url = parse(text)
    except Invalid:
        return
    assert isinstance(url, Url)
    assert parse(str(url)) == url
    assert str(url).isascii()
