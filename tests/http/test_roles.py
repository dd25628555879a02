"""Who may do what: every route asked with every scope (B3, B5), and odd ids (B2, B6)."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from podium.contracts.scopes import Scope
from podium.http.guard import Declared, Open
from tests.http.calls import Answer, ask, bearer
from tests.http.houses import Home, declared_routes

JSON = (b"content-type", b"application/json")
BODIES: dict[str, Any] = {
    "/api/tokens": {"name": "n", "scopes": ["read"]},
    "/api/tokens/{id}/rotate": {},
    "/api/work": {"items": [{"queue": "q"}]},
    "/api/work/claim": {"queues": ["q"], "holder": "h"},
    "/api/work/start": {"grants": [{"id": "x", "epoch": 1}]},
    "/api/work/renew": {"grants": [{"id": "x", "epoch": 1}]},
    "/api/work/release": {"grants": [{"id": "x", "epoch": 1}]},
    "/api/work/report": {"done": [{"id": "x", "epoch": 1}]},
    "/api/work/cancel": {"ids": ["x"]},
    "/api/deadletters/replay": {"ids": ["x"]},
}
STREAMS = {"/api/events"}


def is_allowed(route: Declared, scope: Scope) -> bool:
    return isinstance(route.needs, Open) or scope in (route.needs, Scope.ADMIN)


async def call(home: Home, route: Declared, token: str) -> Answer:
    target = re.sub(r"\{[^}]+\}", "0123456789ab", route.path)
    headers = [bearer(token)]
    body = b""
    if route.takes is not None:
        headers.append(JSON)
        body = json.dumps(BODIES[route.path]).encode()
    return await ask(home, route.method, target, headers, body)


@pytest.mark.parametrize("scope", Scope)
async def test_b3_b5_a_scope_opens_its_routes_and_no_others(home: Home, scope: Scope) -> None:
    token = await home.token(scope)
    allowed = 0
    for route in declared_routes(home.app):
        if route.path in STREAMS and is_allowed(route, scope):
            continue  # it does not end by itself; test_events reads it
        if isinstance(route.needs, Open):
            continue
        answer = await call(home, route, token)
        if is_allowed(route, scope):
            allowed += 1
            assert answer.status in (200, 201, 404), (route.method, route.path, answer.body)
        else:
            assert answer.status == 403, (route.method, route.path)
            assert answer.error["code"] == "AUTHZ_INSUFFICIENT_PERMISSIONS"
            assert answer.error["details"] == {"scope": route.needs}
    expected = {
        Scope.ADMIN: 20,
        Scope.READ: 9,
        Scope.SUBMIT: 3,
        Scope.WORKER: 5,
        Scope.ORCHESTRATOR: 0,
        Scope.SSH_KEYS: 0,
    }
    assert allowed >= expected[scope]


async def test_b3_a_reader_changes_nothing(home: Home) -> None:
    """Whatever a viewer asks for: every table that it could have touched is as it was."""

    async def everything() -> list[Any]:
        tables = ("work", "work_finished", "access_tokens", "journal", "idempotency")
        return [await home.query(f"select count(*) as n from {table}") for table in tables]

    token = await home.token(Scope.READ)
    before = await everything()
    for route in declared_routes(home.app):
        if route.method != "GET" and not isinstance(route.needs, Open):
            assert (await call(home, route, token)).status == 403
    assert await everything() == before


async def test_scopes_of_a_token_add_up(home: Home) -> None:
    token = await home.token(Scope.SUBMIT, Scope.WORKER)
    for route in declared_routes(home.app):
        if not isinstance(route.needs, Open) and route.path not in STREAMS:
            may = route.needs in (Scope.SUBMIT, Scope.WORKER)
            assert ((await call(home, route, token)).status == 403) is not may, route.path


async def test_who_may_not_is_counted_all_the_same(home: Home) -> None:
    """A token of little scope cannot ask without end for what it may not have."""
    token = await home.token(Scope.READ)
    first = await call(home, _route(home, "POST", "/api/work"), token)
    second = await call(home, _route(home, "POST", "/api/work"), token)
    assert first.status == second.status == 403
    left = [int(it.headers["x-ratelimit-remaining"]) for it in (first, second)]
    assert left[1] == left[0] - 1


def _route(home: Home, method: str, path: str) -> Declared:
    return next(it for it in declared_routes(home.app) if (it.method, it.path) == (method, path))


ODD_IDS = [
    "%00",
    "a%00b",
    "x" * 300,
    "%20",
    "-1",
    "1.5",
    "0x1",
    str(2**63),
    "%7B01234567-89ab-cdef-0123-456789abcdef%7D",
    "..%2f..%2fetc%2fpasswd",
    "%ff%fe",
    "%e2%80%ae",
    "a'%20or%201=1--",
    "%ed%a0%80",
    "%F0%9F%98%80",
]


async def test_b2_an_odd_id_is_400_or_names_nothing(home: Home) -> None:
    for id in ODD_IDS:
        for target in (f"/api/work/{id}", f"/api/why/work/{id}", f"/api/journal/work/{id}"):
            answer = await ask(home, "GET", target, [bearer(home.admin)])
            if answer.status == 200:
                assert json.loads(answer.body) == {"lines": []}
                continue
            assert answer.status in (400, 404), (target, answer.body)
            assert max(map(len, re.findall(r"x+", answer.error["message"])), default=0) <= 64


async def test_b2_ids_with_nul_or_too_long_are_invalid(home: Home) -> None:
    for id in ("%00", "a%00b", "x" * 256):
        for target in (f"/api/work/{id}", f"/api/why/work/{id}", f"/api/journal/work/{id}"):
            answer = await ask(home, "GET", target, [bearer(home.admin)])
            assert answer.status == 400, target
            assert answer.error["code"] == "VALIDATION_INVALID_PARAMS"


async def test_b2_a_token_id_has_one_form(home: Home) -> None:
    for id in [*ODD_IDS, "0123456789AB", "0123456789a", "0123456789abc", "0123456789ai"]:
        answer = await ask(home, "DELETE", f"/api/tokens/{id}", [bearer(home.admin)])
        assert answer.status in (400, 404), id
        if "%2f" not in id:
            assert answer.error["code"] == "VALIDATION_INVALID_PARAMS", id


FILTERS = [
    "/api/deadletters?queue=a%00b",
    "/api/deadletters?queue=",
    "/api/deadletters?limit=0",
    "/api/deadletters?limit=501",
    "/api/deadletters?limit=-1",
    "/api/deadletters?limit=1e3",
    "/api/deadletters?limit=9223372036854775808",
    "/api/deadletters?cursor=x",
    "/api/deadletters?cursor=WzEsMiwzXQ",
    "/api/deadletters?cursor=" + "A" * 1_999,
    "/api/deadletters?cursor=" + "A" * 2_001,
    "/api/deadletters?cursor=%ff",
    "/api/tokens?cursor=%27",
    "/api/tokens?everything=perhaps",
    "/api/audit?cursor=-1",
    "/api/audit?cursor=9223372036854775808",
    "/api/audit?actor=%00",
    "/api/audit?actor=" + "a" * 101,
    "/api/journal/work/x?after=-1",
    "/api/journal/work/x?after=99999999999999999999",
    "/api/journal/" + "k" * 51 + "/x",
    "/api/events?after=x",
    "/api/events?after=1-x",
    "/api/events?kind=",
    "/api/events?after=" + "1" * 41,
]


async def test_b6_an_odd_filter_is_400(home: Home) -> None:
    for target in FILTERS:
        answer = await ask(home, "GET", target, [bearer(home.admin)])
        assert answer.status == 400, (target, answer.body)
        assert answer.error["code"] == "VALIDATION_INVALID_PARAMS"


async def test_b6_a_filter_nobody_knows_shows_no_more(home: Home) -> None:
    """There is no sort and no tenant: what is not a parameter changes nothing."""
    plain = await ask(home, "GET", "/api/tokens", [bearer(home.admin)])
    for query in ("sort=hash", "tenant=B", "owner_id[]=1", "fields=hash", "id=1&id=2"):
        other = await ask(home, "GET", f"/api/tokens?{query}", [bearer(home.admin)])
        assert other.body == plain.body
