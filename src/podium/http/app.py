"""The factory: every route declared, or nothing starts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from podium.contracts.refusals import Refused
from podium.http import errors
from podium.http.access import AccessApi
from podium.http.edge import Edge
from podium.http.events import EventsApi
from podium.http.guard import Declared, Gate, GuardedRoute, Open, Undeclared
from podium.http.health import HealthApi
from podium.http.house import House
from podium.http.reference import ReferenceApi
from podium.http.switchboard import Switchboard
from podium.http.work import WorkApi
from podium.kernel.errors import PodiumError

REFUSALS: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": Refused, "description": "It was refused; the code says why"},
    "5XX": {"model": Refused, "description": "It is not the caller's fault; try again later"},
}


def create_app(house: House, more: Iterable[Declared] = ()) -> ASGIApp:
    """The whole server as an ASGI application. `more` are routes of other rooms."""
    gate = make_gate(house)
    app = FastAPI(
        title="Podium",
        version=house.front.version,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    rooms = (
        HealthApi(house),
        AccessApi(house),
        WorkApi(house),
        EventsApi(house, gate),
        ReferenceApi(app),
    )
    for declared in [*(route for room in rooms for route in room.routes()), *more]:
        add(app, declared, gate)
    app.add_exception_handler(HTTPException, _Lost(gate))
    refuse_undeclared(app.router.routes)
    return Edge(Switchboard(app), house)


def make_gate(house: House) -> Gate:
    return Gate(
        house.access,
        clock=house.clock,
        metrics=house.metrics,
        body_bytes_max=house.front.body_bytes_max,
        behind_proxy=house.front.behind_proxy,
    )


def add(app: FastAPI, declared: Declared, gate: Gate) -> None:
    needs = declared.needs
    app.router.add_api_route(
        declared.path,
        declared.endpoint,
        methods=[declared.method],
        status_code=declared.status,
        route_class_override=GuardedRoute,
        responses={**REFUSALS, **declared.options.get("responses", {})},
        openapi_extra={
            "x-podium-needs": "nobody in particular" if isinstance(needs, Open) else str(needs),
            **({} if isinstance(needs, Open) else {"security": [{"bearer": []}]}),
        },
        **{name: value for name, value in declared.options.items() if name != "responses"},
    )
    route = app.router.routes[-1]
    assert isinstance(route, GuardedRoute)
    route.keep(declared, gate)


def refuse_undeclared(routes: Iterable[BaseRoute]) -> None:
    """Whatever answers requests must say who may send them; what does not say so does not start."""
    for route in routes:
        if getattr(route, "declared", None) is None:
            raise Undeclared(
                f"the route {getattr(route, 'path', route)} does not say who may call it"
            )


class _Lost:
    """No route, or not with this method. Strangers are not told which paths exist."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    async def __call__(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        try:
            caller = await self._gate.identify(request, with_cookie=True)
            await self._gate.access.count(caller, self._gate.address(request))
        except PodiumError as refusal:
            return self._gate.answer(refusal, request)
        response = self._gate.answer(errors.from_framework(error), request)
        response.headers.update(error.headers or {})
        return response
