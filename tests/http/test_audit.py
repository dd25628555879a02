"""The audit log: one line per call that changes something, on the disk before it is answered."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from podium.contracts.scopes import Scope
from podium.domains.access import audit
from podium.domains.access.model import Entry
from podium.http.guard import get
from podium.kernel.errors import Unavailable
from tests.http.calls import ask, bearer
from tests.http.conftest import MakeHome
from tests.http.houses import HERE, Home, sqlite_home, with_policy

WORK = {"items": [{"queue": "q"}]}


async def lines(home: Home) -> list[Any]:
    return await home.query("select * from audit_log order by seq")


async def test_a_call_that_changes_something_is_one_line(
    home: Home, admin: httpx.AsyncClient
) -> None:
    answer = await admin.post("/api/work", json=WORK, headers={"X-Service-Name": "billing"})
    (line,) = await lines(home)
    assert line.actor == home.admin.split("_")[1]
    assert line.address == HERE
    assert line.service == "billing"
    assert (line.method, line.route, line.target) == ("POST", "/api/work", "/api/work")
    assert line.status == answer.status_code == 201
    assert len(line.trace_id) == 32


async def test_what_was_refused_is_a_line_too_if_we_know_whose(
    home: Home, admin: httpx.AsyncClient
) -> None:
    reader = await home.token(Scope.READ)
    async with home.caller(reader) as caller:
        assert (await caller.post("/api/work", json=WORK)).status_code == 403
    assert (await admin.post("/api/work", json={})).status_code == 400
    assert (await admin.post("/api/work", content=b"x")).status_code == 415
    assert (await admin.delete(f"/api/tokens/{'0' * 12}")).status_code == 404
    assert [(it.status, it.route) for it in await lines(home)] == [
        (403, "/api/work"),
        (400, "/api/work"),
        (415, "/api/work"),
        (404, "/api/tokens/{id}"),
    ]
    assert (await lines(home))[3].target == f"/api/tokens/{'0' * 12}"


async def test_strangers_and_readers_leave_no_line(home: Home, admin: httpx.AsyncClient) -> None:
    async with home.caller() as stranger:
        assert (await stranger.post("/api/work", json=WORK)).status_code == 401
    for path in ("/api/queues", "/api/tokens", "/api/audit", "/metrics", "/healthz"):
        assert (await admin.get(path)).status_code == 200
    assert await lines(home) == []


async def test_who_called_too_often_leaves_no_line(make_home: MakeHome) -> None:
    """The store is what the limit protects."""
    home = await make_home(policy=with_policy(requests_max=2))
    await home.next_minute()
    async with home.admin_caller() as admin:
        found = [(await admin.post("/api/work", json=WORK)).status_code for _ in range(4)]
    assert found == [201, 201, 429, 429]
    assert [it.status for it in await lines(home)] == [201, 201]


async def test_every_call_of_the_internal_side_is_a_line_even_a_get() -> None:
    async def look() -> dict[str, str]:
        return {}

    more = [get("/api/internal/jobs", look, needs=Scope.ORCHESTRATOR)]
    async with sqlite_home(more=more) as home:
        answer = await ask(home, "GET", "/api/internal/jobs", [bearer(home.admin)])
        assert answer.status == 200
        (line,) = await lines(home)
        assert (line.method, line.route) == ("GET", "/api/internal/jobs")


async def test_the_line_is_written_before_the_answer_is_sent(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    record = home.house.access.audit.record

    async def recorded(entry: Entry) -> None:
        await record(entry)
        order.append("recorded")

    monkeypatch.setattr(home.house.access.audit, "record", recorded)
    inner = home.app

    async def watched(scope: Any, receive: Any, send: Any) -> None:
        async def sending(message: Any) -> None:
            order.append(message["type"])
            await send(message)

        await inner(scope, receive, sending)

    home.app = watched
    async with home.admin_caller() as admin:
        await admin.post("/api/work", json=WORK)
    assert order == ["recorded", "http.response.start", "http.response.body"]


async def test_what_cannot_be_recorded_is_not_answered_with_success(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(entry: Entry) -> None:
        raise Unavailable("the disk is full at /var/lib/podium", cause="full")

    monkeypatch.setattr(home.house.access.audit, "record", refuse)
    async with home.admin_caller() as admin:
        answer = await admin.post("/api/work", json=WORK)
    assert answer.status_code == 503
    assert "/var/lib" not in answer.text


async def test_the_log_is_read_newest_first_and_page_by_page(
    home: Home, admin: httpx.AsyncClient
) -> None:
    for n in range(7):
        await admin.post("/api/work/cancel", json={"ids": [f"i{n}"]})
    other = await home.issue(Scope.SUBMIT)
    async with home.caller(other.text) as caller:
        await caller.post("/api/work", json=WORK)

    found: list[int] = []
    params: dict[str, Any] = {"limit": 3}
    for _ in range(5):
        page = (await admin.get("/api/audit", params=params)).json()
        found += [it["seq"] for it in page["entries"]]
        if page["next_cursor"] is None:
            break
        params["cursor"] = page["next_cursor"]
    assert len(found) == 8
    assert found == sorted(found, reverse=True)
    theirs = (await admin.get("/api/audit", params={"actor": other.token.id})).json()["entries"]
    assert [it["route"] for it in theirs] == ["/api/work"]
    assert theirs[0]["at"].startswith("20")


async def test_what_a_caller_says_of_itself_is_cut_and_made_printable(home: Home) -> None:
    odd = [
        bearer(home.admin),
        (b"content-type", b"application/json"),
        (b"x-service-name", b"a\x1b[31m\x07" + b"x" * 10_000),
    ]
    await ask(home, "POST", "/api/work", odd, b"{}")
    (line,) = await lines(home)
    assert len(line.service) <= 300
    assert line.service.isprintable()
    await ask(home, "DELETE", "/api/tokens/%0a%1b%5b31m%e2%80%ae", [bearer(home.admin)])
    assert (await lines(home))[1].target.isprintable()


async def test_a_query_is_not_recorded(home: Home, admin: httpx.AsyncClient) -> None:
    await admin.post("/api/work?token=hunter2", json=WORK)
    (line,) = await lines(home)
    assert "hunter2" not in str(line)


async def test_a_login_is_a_line_of_the_session_it_opened(
    home: Home, admin: httpx.AsyncClient
) -> None:
    url = (await admin.post("/api/login-links")).json()["url"]
    async with home.caller() as browser:
        assert (await browser.get(url)).status_code == 303
        assert (await browser.get(url)).status_code == 401
    invited, login = await lines(home)
    assert invited.route == "/api/login-links"
    assert (login.method, login.target, login.status) == ("GET", "/login", 303)
    sessions = await home.query("select id from access_tokens where kind = 'session'")
    assert [row.id for row in sessions] == [login.actor]


async def test_old_lines_are_forgotten(home: Home, admin: httpx.AsyncClient) -> None:
    await admin.post("/api/work", json=WORK)
    await home.advance(100)
    await admin.post("/api/work", json=WORK)
    assert await home.store.write(audit.prune, keep_seconds=50.0) == 1
    assert len(await lines(home)) == 1
