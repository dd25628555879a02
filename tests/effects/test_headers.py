"""A caller writes headers, not messages (row N6)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podium.effects.http import Request
from podium.effects.http.messages import check_headers, check_request
from podium.kernel.errors import Invalid, TooLarge
from tests.effects.strangers import answers, caller, egress_to, listening


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("X", "a\r\nHost: e"),
        ("X", "a\nb"),
        ("X", "a\rb"),
        ("X", "a\0b"),
        ("X", "a\x0bb"),
        ("X", "a\x7f"),
        ("X", " a"),
        ("X", "a "),
        ("X", "é"),
        ("X", "\udc80"),
        ("X", "\u2028"),
        ("X\r\nHost", "e"),
        ("X\0", "e"),
        ("X:", "e"),
        ("X Y", "e"),
        ("", "e"),
        (":authority", "e"),
        ("é", "e"),
        ("Host", "e"),
        ("hOST", "e"),
        ("Transfer-Encoding", "chunked"),
        ("Content-Length", "0"),
        ("Connection", "close"),
        ("Upgrade", "h2c"),
        ("Expect", "100-continue"),
        ("TE", "trailers"),
        ("Accept-Encoding", "gzip"),
        ("Proxy-Authorization", "x"),
    ],
    ids=lambda part: f"N6 {part!r}",
)
def test_n6_a_header_that_would_change_the_message_is_refused(name: str, value: str) -> None:
    with pytest.raises(Invalid) as refused:
        check_request(Request("GET", "https://h", headers=((name, value),)))
    assert refused.value.details["field"] == "headers"


def test_a_value_is_not_repeated_in_the_refusal() -> None:
    with pytest.raises(Invalid) as refused:
        check_headers([("Authorization", "Bearer hunter2\n")])
    assert "hunter2" not in str(refused.value)


def test_headers_have_a_number_and_a_size() -> None:
    check_headers([("X", "y")] * 64)
    with pytest.raises(Invalid):
        check_headers([("X", "y")] * 65)
    with pytest.raises(TooLarge):
        check_headers([("X", "y" * 17_000)])


@pytest.mark.parametrize(
    "bad",
    [
        Request("get", "https://h"),
        Request("TRACE", "https://h"),
        Request("CONNECT", "https://h"),
        Request("GET / HTTP/1.1\r\nX: ", "https://h"),
        Request("GET", "https://h", redirects_max=4),
        Request("GET", "https://h", redirects_max=-1),
        Request("GET", "https://h", seconds_max=0),
        Request("GET", "https://h", seconds_max=float("nan")),
        Request("GET", "https://h", answer_bytes_max=-1),
        Request("POST", "https://h", body=b"x" * (16 * 1024 * 1024 + 1)),
    ],
    ids=lambda request: repr(request)[:60],
)
def test_a_request_beyond_its_limits_is_refused(bad: Request) -> None:
    with pytest.raises(Invalid):
        check_request(bad)


def test_a_request_does_not_show_its_secrets_by_accident() -> None:
    request = Request("POST", "https://h/hunter2", (("Authorization", "hunter2"),), b"hunter2")
    assert "hunter2" not in repr(request)


NEARLY = st.tuples(
    st.text("Xx-_!~aZ09 :", min_size=1, max_size=12), st.text("a \t~!\r\n:,é", max_size=12)
)


@settings(deadline=None, max_examples=50)  # a real server each time, on a machine that is shared
@given(NEARLY | st.tuples(st.text(max_size=20), st.text(max_size=20)))
async def test_a_header_is_refused_or_arrives_as_it_is(header: tuple[str, str]) -> None:
    try:
        check_headers([header])
    except Invalid:
        return
    name, value = header
    async with listening(answers()) as stranger:
        async with caller(egress_to(stranger)) as client:
            await client.send(Request("GET", stranger.url(), headers=(header,)))
    lines = stranger.heads[0].decode().split("\r\n")
    assert f"{name}: {value}" in lines
    assert len(lines) == 7, "the request line, three headers of ours, this one, and two ends"


async def test_what_is_sent_is_what_was_asked_for() -> None:
    async with listening(answers(204)) as stranger:
        async with caller(egress_to(stranger)) as client:
            request = Request(
                "POST",
                stranger.url("/a//b/../c?x=%2F&y"),
                (("Content-Type", "application/json"), ("X-Two", "1"), ("X-Two", "2")),
                b'{"a": 1}',
            )
            response = await client.send(request)
    assert response.status == 204
    head = stranger.heads[0].decode()
    assert head.startswith("POST /a//b/../c?x=%2F&y HTTP/1.1\r\n")
    assert f"\r\nHost: 127.0.0.1:{stranger.port}\r\n" in head
    assert "\r\nAccept-Encoding: identity\r\n" in head
    assert "\r\nX-Two: 1\r\nX-Two: 2\r\n" in head
    assert "\r\nContent-Length: 8\r\n" in head
    assert stranger.bodies == [b'{"a": 1}']
