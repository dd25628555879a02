"""Every route says who may call it, and nothing answers that does not (P38)."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from fastapi import APIRouter, FastAPI
from starlette.responses import Response
from starlette.routing import Match, Mount, Route, WebSocketRoute

from podium.app.settings import Settings
from podium.app.wiring import http, wire
from podium.contracts.scopes import Scope
from podium.http.app import refuse_undeclared
from podium.http.guard import Declared, Open, Undeclared, get
from tests.http.calls import ask, scope_of
from tests.http.houses import Home, declared_routes, framework_of, sqlite_home

OPEN = {
    ("GET", "/livez"),
    ("GET", "/healthz"),
    ("GET", "/readyz"),
    ("HEAD", "/livez"),
    ("HEAD", "/healthz"),
    ("HEAD", "/readyz"),
    ("GET", "/login"),
    ("GET", "/"),
    ("GET", "/static/{name}"),
    # The signature in the link is the key.
    ("GET", "/blobs/{key:path}"),
    ("HEAD", "/blobs/{key:path}"),
    ("PUT", "/blobs/{key:path}"),
}


@pytest.fixture
def whole_app(tmp_path: Path) -> Any:
    """The server as it is wired for real; nothing is opened."""
    return http(wire(Settings(data_dir=str(tmp_path))))


async def anything() -> Response:
    return Response()


def test_the_open_routes_are_those_and_no_others(whole_app: Any) -> None:
    routes = declared_routes(whole_app)
    assert {(it.method, it.path) for it in routes if isinstance(it.needs, Open)} == OPEN


def test_every_open_route_says_why(whole_app: Any) -> None:
    for route in declared_routes(whole_app):
        if isinstance(route.needs, Open):
            assert len(route.needs.why) > 10


def test_no_two_routes_are_declared_for_one_call(whole_app: Any) -> None:
    calls = [(it.method, it.path) for it in declared_routes(whole_app)]
    assert len(calls) == len(set(calls))


@pytest.mark.parametrize(
    "route",
    [
        Route("/health", anything),
        WebSocketRoute("/ws", anything),
        Mount("/static", FastAPI()),
        Mount("/old", routes=[Route("/x", anything)]),
    ],
    ids=["route", "websocket", "mount", "mounted routes"],
)
def test_a_route_without_a_declaration_does_not_start(route: Any) -> None:
    with pytest.raises(Undeclared):
        refuse_undeclared([route])


def test_neither_does_a_route_of_the_framework() -> None:
    router = APIRouter()
    router.add_api_route("/x", anything)
    with pytest.raises(Undeclared):
        refuse_undeclared(router.routes)


def test_the_framework_adds_no_route_of_its_own(whole_app: Any) -> None:
    """No /docs, /redoc or /openapi.json beside ours, which ask for a token."""
    needs = {it.path: it.needs for it in declared_routes(whole_app)}
    assert needs["/docs"] == needs["/openapi.json"] == needs["/metrics"] == Scope.READ
    assert "/redoc" not in needs
    assert "/docs/oauth2-redirect" not in needs


async def test_a_websocket_that_nobody_declared_is_closed_before_it_is_accepted(
    embedded: Home,
) -> None:
    sent: list[str] = []

    async def receive() -> dict[str, str]:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        sent.append(message["type"])

    await embedded.app(scope_of("GET", "/api/events", kind="websocket"), receive, send)
    assert sent == ["websocket.close"]


async def test_another_room_adds_routes_by_declaring_them() -> None:
    async def hello() -> dict[str, str]:
        return {"hello": "you"}

    mine = get("/api/hello", hello, needs=Scope.SUBMIT)
    async with sqlite_home(more=[mine]) as home:
        assert (await ask(home, "GET", "/api/hello")).status == 401
        async with home.admin_caller() as admin:
            assert (await admin.get("/api/hello")).json() == {"hello": "you"}


def test_what_is_audited_follows_from_the_declaration() -> None:
    def declared(method: str, path: str, **more: Any) -> Declared:
        return Declared(method, path, anything, Scope.READ, **more)

    assert not declared("GET", "/api/x").is_audited
    assert not declared("HEAD", "/api/x").is_audited
    assert declared("POST", "/api/x").is_audited
    assert declared("DELETE", "/api/x").is_audited
    assert declared("GET", "/api/x", mutates=True).is_audited
    assert not declared("POST", "/api/x", mutates=False).is_audited
    assert declared("GET", "/api/internal/x").is_audited
    assert declared("POST", "/api/internal/x", mutates=False).is_audited


async def test_the_shortcut_to_a_route_finds_what_the_framework_would_find(
    embedded: Home,
) -> None:
    """Whatever the path: the same route, or the same refusal, as if all were asked in turn."""
    rng = random.Random(4)
    words = ["api", "work", "claim", "queues", "why", "journal", "tokens", "", "x", "login", "{id}"]
    routes = framework_of(embedded.app).router.routes
    switchboard: Any = embedded.app._app  # type: ignore[attr-defined]
    for _ in range(2_000):
        path = "/" + "/".join(rng.choice(words) for _ in range(rng.randrange(5)))
        scope = scope_of("GET", path)
        wanted = next((r for r in routes if r.matches(scope)[0] is Match.FULL), None)
        candidates = switchboard._candidates(path)
        found = next((r for r in candidates if r.matches(scope)[0] is Match.FULL), None)
        assert found is wanted, path
