"""Browsers: rows U1 to U4 and U6 as far as there are pages. A link signs in once, a cookie only looks."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest

from podium.contracts.scopes import Scope
from podium.domains.access.tokens import LOGIN_SECONDS, SESSION_SECONDS
from podium.http.guard import Open, post
from tests.http.calls import Header, ask, bearer
from tests.http.conftest import MakeHome
from tests.http.houses import Home, declared_routes, sqlite_home, with_front, with_policy

POLICY = (
    "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'; "
    "object-src 'none'"
)


async def link(home: Home) -> str:
    async with home.admin_caller() as admin:
        answer = await admin.post("/api/login-links")
        assert answer.status_code == 201
        url: str = answer.json()["url"]
        return url


async def signed_in(home: Home) -> str:
    """The session cookie that a browser gets."""
    async with home.caller() as browser:
        answer = await browser.get(await link(home))
        assert answer.status_code == 303
        return answer.cookies["podium_session"]


def cookie(session: str) -> Header:
    return b"cookie", f"podium_session={session}".encode()


async def test_a_link_works_once(home: Home) -> None:
    url = await link(home)
    async with home.caller() as browser:
        first = await browser.get(url)
        assert (first.status_code, first.headers["location"]) == (303, "/")
        again = await browser.get(url)
        assert again.status_code == 401
        assert "set-cookie" not in again.headers


async def test_a_link_works_for_ten_minutes(home: Home) -> None:
    early, late = await link(home), await link(home)
    async with home.caller() as browser:
        await home.advance(LOGIN_SECONDS - 1)
        assert (await browser.get(early)).status_code == 303
        await home.advance(2)
        assert (await browser.get(late)).status_code == 401


async def test_the_cookie_is_for_us_alone(home: Home) -> None:
    async with home.caller() as browser:
        answer = await browser.get(await link(home))
    set_cookie = answer.headers["set-cookie"]
    flags = {part.strip().lower() for part in set_cookie.split(";")[1:]}
    assert {"httponly", "samesite=lax", "path=/", f"max-age={int(SESSION_SECONDS)}"} <= flags
    assert "secure" not in flags


async def test_over_https_the_cookie_is_secure(make_home: MakeHome) -> None:
    front = with_front(
        public_url="https://podium.example.org", hosts=frozenset({"podium.example.org"})
    )
    home = await make_home(front=front)
    url = await link(home)
    assert url.startswith("https://podium.example.org/login?code=")
    answer = await ask(home, "GET", url.removeprefix("https://podium.example.org"))
    assert "secure" in answer.headers["set-cookie"].lower()


async def test_u1_a_cookie_only_looks(home: Home) -> None:
    """A page of another origin can make a browser send it; so it opens nothing that changes anything."""
    session = cookie(await signed_in(home))
    for route in declared_routes(home.app):
        if isinstance(route.needs, Open) or route.path == "/api/events":
            continue
        target = re.sub(r"\{[^}]+\}", "0123456789ab", route.path)
        for kind in (b"application/json", b"text/plain", b"application/x-www-form-urlencoded"):
            headers = [session, (b"content-type", kind), (b"origin", b"https://evil.example")]
            answer = await ask(home, route.method, target, headers, b'{"items":[{"queue":"q"}]}')
            if route.is_for_browsers and route.method == "GET":
                assert answer.status in (200, 405)
            else:
                assert answer.status == 401, (route.method, route.path)
    assert await home.query("select id from work") == []


async def test_u1_even_a_route_for_browsers_changes_nothing_for_a_cookie() -> None:
    async def change() -> dict[str, bool]:
        return {"changed": True}

    more = [post("/api/form", change, needs=Scope.READ, takes=None, is_for_browsers=True)]
    async with sqlite_home(more=more) as home:
        session = cookie(await signed_in(home))
        assert (await ask(home, "POST", "/api/form", [session])).status == 401
        assert (await ask(home, "POST", "/api/form", [bearer(home.admin)])).status == 200


async def test_u1_only_pages_are_for_browsers(home: Home) -> None:
    marked = {it.path for it in declared_routes(home.app) if it.is_for_browsers}
    assert marked == {"/docs", "/openapi.json", "/api/events"}
    assert all(it.method == "GET" for it in declared_routes(home.app) if it.is_for_browsers)


async def test_u2_what_others_wrote_is_shown_as_text(home: Home, admin: httpx.AsyncClient) -> None:
    hostile = [
        "<img src=x onerror=alert(1)>",
        "</td><script>alert(1)</script>",
        "{{7*7}}${7*7}",
        "javascript:alert(1)",
        "\"onmouseover='alert(1)'",
        "<svg/onload=alert(1)>",
    ]
    for text in hostile:
        items = [{"queue": text, "id": text}]
        assert (await admin.post("/api/work", json={"items": items})).status_code == 201
        await admin.post("/api/work/cancel", json={"ids": [text], "reason": text})
        assert (await admin.post("/api/work", json={"items": [{"queue": text}]})).status_code == 201
    session = cookie(await signed_in(home))
    page = (await ask(home, "GET", "/", [session])).body.decode()
    assert "javascript:alert(1)" in page, "they are shown"
    for tag in ("<img", "<svg", "<script>", "onerror=alert(1)>", '"onmouseover'):
        assert tag not in page
    assert re.findall(r"<script[^>]*>", page) == ['<script type="module" src="/static/podium.js">']


@pytest.mark.parametrize("path", ["/", "/docs", "/openapi.json", "/login", "/healthz", "/nowhere"])
async def test_u2_u3_no_page_is_framed_cached_or_runs_a_foreign_script(
    embedded: Home, path: str
) -> None:
    for headers in ([], [bearer(embedded.admin)]):
        answer = await ask(embedded, "GET", path, headers)
        assert answer.headers["content-security-policy"] == POLICY
        assert "unsafe" not in answer.headers["content-security-policy"]
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["x-service-version"] == "1.2.3"
        assert "server" not in answer.headers
        assert b"onclick" not in answer.body
        assert b"<style" not in answer.body


async def test_u3_after_the_session_is_over_nothing_is_shown(home: Home) -> None:
    session = cookie(await signed_in(home))
    assert (await ask(home, "GET", "/docs", [session])).status == 200
    await home.advance(SESSION_SECONDS + 1)
    assert (await ask(home, "GET", "/docs", [session])).status == 401
    page = await ask(home, "GET", "/", [session])
    assert b"Sign in" in page.body
    assert b"Queues" not in page.body


async def test_u4_after_signing_in_one_is_at_home_whatever_the_link_says(home: Home) -> None:
    for evil in ("//evil", "\\\\evil", "javascript:alert(1)", "https://evil.example"):
        url = await link(home)
        async with home.caller() as browser:
            answer = await browser.get(url, params={**httpx.URL(url).params, "next": evil})
        assert answer.status_code == 303
        assert answer.headers["location"] == "/"


async def test_u6_codes_cannot_be_guessed(make_home: MakeHome) -> None:
    home = await make_home(policy=with_policy(failures_max=5))
    await home.next_minute()
    shaped = "podium_0123456789ab_" + "A" * 43
    statuses, texts = [], set()
    for code in ["", "x", shaped, "é", shaped, "%00", "x" * 90]:
        answer = await ask(home, "GET", f"/login?code={code}")
        statuses.append(answer.status)
        if answer.status == 401:
            texts.add(answer.error["message"])
    assert statuses == [401] * 5 + [400, 429]
    assert len(texts) == 1, "a wrong code is a wrong code"
    good = await link_from_elsewhere(home)
    assert (await ask(home, "GET", good)).status == 429
    assert (await ask(home, "GET", good, address="198.51.100.9")).status == 303


async def link_from_elsewhere(home: Home) -> str:
    issued = await home.store.write(
        home.house.access.tokens.invite, scopes=[Scope.READ], actor="test"
    )
    return f"/login?code={issued.text}"


async def test_u6_junk_is_refused_without_a_write(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[Any] = []
    write = home.store.write

    async def counted(body: Any, *args: Any, **kwargs: Any) -> Any:
        written.append(body)
        return await write(body, *args, **kwargs)

    monkeypatch.setattr(home.store, "write", counted)
    await ask(home, "GET", "/login?code=junk")
    assert home.house.access.tokens.open_session not in written


async def test_u6_a_session_is_new_at_each_login_and_dies_with_its_token(home: Home) -> None:
    one, two = await signed_in(home), await signed_in(home)
    assert one != two
    fixed = "podium_0123456789ab_" + "A" * 43
    async with home.caller(cookies={"podium_session": fixed}) as browser:
        answer = await browser.get(await link(home))
        assert answer.cookies["podium_session"] != fixed
    await home.store.write(home.house.access.tokens.revoke, one.split("_")[1], actor="test")
    assert (await ask(home, "GET", "/docs", [cookie(one)])).status == 401
    assert (await ask(home, "GET", "/docs", [cookie(two)])).status == 200


async def test_u6_what_a_token_opened_ends_with_the_token(
    home: Home, admin: httpx.AsyncClient
) -> None:
    made = (await admin.post("/api/tokens", json={"name": "x", "scopes": ["admin"]})).json()
    async with home.caller() as maker:
        maker.headers["authorization"] = f"Bearer {made['token']}"
        links = [(await maker.post("/api/login-links")).json()["url"] for _ in range(2)]
    async with home.caller() as browser:
        session = (await browser.get(links[0])).cookies["podium_session"]
        browser.cookies.clear()
        assert (await ask(home, "GET", "/openapi.json", [cookie(session)])).status == 200
        await admin.delete(f"/api/tokens/{made['id']}")
        assert (await ask(home, "GET", "/openapi.json", [cookie(session)])).status == 401
        assert (await browser.get(links[1])).status_code == 401


async def test_a_session_may_do_what_its_maker_may(home: Home) -> None:
    """A link made by a token without `read` opens a session that sees nothing."""
    issued = await home.store.write(
        home.house.access.tokens.invite, scopes=[Scope.WORKER], actor="test"
    )
    answer = await ask(home, "GET", f"/login?code={issued.text}")
    session = re.match("podium_session=([^;]+)", answer.headers["set-cookie"])
    assert session is not None
    assert (await ask(home, "GET", "/docs", [cookie(session[1])])).status == 403


async def test_odd_cookies_are_nobody(home: Home) -> None:
    for value in (
        b"podium_session=",
        b"podium_session=\xff\xfe",
        b"podium_session",
        b"=;;=",
        b"\xff",
    ):
        assert (await ask(home, "GET", "/docs", [(b"cookie", value)])).status == 401


async def test_the_reference_page_says_what_each_call_needs(home: Home) -> None:
    page = (await ask(home, "GET", "/docs", [bearer(home.admin)])).body.decode()
    assert "<code>POST /api/work</code></td><td>submit</td>" in page
    assert "<script" not in page
