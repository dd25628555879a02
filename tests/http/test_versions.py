"""Versions: which one is spoken is said by Accept, and what will go away says when."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from podium.contracts.scopes import Scope
from podium.http.guard import get
from tests.http.calls import ask, bearer
from tests.http.houses import Home, sqlite_home


@pytest.mark.parametrize(
    "accept",
    [
        b"*/*",
        b"application/json",
        b"application/json; version=1",
        b'application/json;version="1"',
        b"application/json; VERSION = 1",
        b"text/html, application/json; version=1; q=0.9",
        b"application/json; conversion=7",
        b"",
        b"\xff\xfe",
        b";;;",
    ],
)
async def test_version_1_is_spoken(embedded: Home, accept: bytes) -> None:
    headers = [bearer(embedded.admin), (b"accept", accept)]
    assert (await ask(embedded, "GET", "/api/queues", headers)).status == 200


@pytest.mark.parametrize(
    "accept",
    [
        b"application/json; version=2",
        b"application/json; version=0",
        b"application/json; version=",
        b"application/json; version=1.0",
        b"application/json; version=1, application/json; version=2",
        b"application/json; version=" + b"9" * 1_000,
        b"application/json; version=\xff",
    ],
)
async def test_another_version_is_406_and_not_guessed_at(embedded: Home, accept: bytes) -> None:
    headers = [bearer(embedded.admin), (b"accept", accept)]
    answer = await ask(embedded, "GET", "/api/queues", headers)
    assert answer.status == 406
    assert answer.error["code"] == "NOT_ACCEPTABLE"
    assert answer.error["details"] == {"versions": ["1"]}
    assert b"9" * 65 not in answer.body
    body = [*headers, (b"content-type", b"application/json")]
    refused = await ask(embedded, "POST", "/api/work", body, b'{"items":[{"queue":"q"}]}')
    assert refused.status == 406
    assert await embedded.query("select id from work") == []


async def test_strangers_learn_nothing_of_versions(embedded: Home) -> None:
    accept = [(b"accept", b"application/json; version=2")]
    assert (await ask(embedded, "GET", "/api/queues", accept)).status == 401


async def test_what_will_go_away_says_when_and_what_comes_instead() -> None:
    async def old() -> dict[str, str]:
        return {}

    more = [
        get(
            "/api/old",
            old,
            needs=Scope.READ,
            sunset_at=datetime(2027, 3, 1, 12, 0, tzinfo=UTC),
            successor="/api/new",
        ),
        get("/api/new", old, needs=Scope.READ),
    ]
    async with sqlite_home(more=more) as home:
        headers = [bearer(home.admin)]
        answer = await ask(home, "GET", "/api/old", headers)
        assert answer.headers["sunset"] == "Mon, 01 Mar 2027 12:00:00 GMT"
        assert answer.headers["link"] == '</api/new>; rel="successor-version"'
        assert "sunset" not in (await ask(home, "GET", "/api/new", headers)).headers


async def test_a_trace_that_a_caller_brings_is_kept(embedded: Home) -> None:
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    good = [(b"traceparent", f"00-{trace}-00f067aa0ba902b7-01".encode())]
    assert (await ask(embedded, "GET", "/api/queues", good)).error["traceId"] == trace
    for bad in (b"00-" + b"x" * 32 + b"-00f067aa0ba902b7-01", b"hello", b"\xff" * 60, b""):
        answer = await ask(embedded, "GET", "/api/queues", [(b"traceparent", bad)])
        assert answer.error["traceId"] not in (trace, "x" * 32)
