"""What a route declares, and that it is kept.

Authorisation hangs on the route object: who may call it is decided when it is defined and looked up
nowhere else, least of all in the path. The factory refuses to start with a route that declares
nothing. A request is identified, allowed, counted and read, in this order, before its endpoint runs;
what it changed is in the audit log before it is answered.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from datetime import datetime
from email.utils import format_datetime
from typing import Any

from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from podium.contracts.scopes import Scope
from podium.domains.access.limits import Allowance
from podium.domains.access.model import Caller, Entry, Kind
from podium.domains.access.service import Access, refuse_without
from podium.http import bodies, errors
from podium.http.callers import address_of, cookie_of, token_of
from podium.kernel.clock import Clock
from podium.kernel.errors import PodiumError
from podium.kernel.telemetry import Metrics, logger

SAFE_METHODS = {"GET", "HEAD"}
INTERNAL_PATHS = "/api/internal/"
VERSION = re.compile(r";\s*version\s*=\s*\"?([^;,\s\"]*)")
VERSIONS = {"1"}
TARGET_CHARACTERS_MAX = 300
MEBIBYTE = 1024 * 1024

log = logger(__name__)

Endpoint = Callable[..., Awaitable[Any]]


class Undeclared(Exception):
    """A route that says nothing about who may call it."""


@dataclass(frozen=True, slots=True)
class Open:
    """Anybody may: the reason is said, because there should be few."""

    why: str


@dataclass(frozen=True, slots=True)
class Declared:
    """One route, with everything that must be known before a request for it is answered."""

    method: str
    path: str
    endpoint: Endpoint
    needs: Scope | Open
    takes: str | None = None
    """The one content type of its body; None: no body."""
    body_bytes_max: int | None = None
    streams_body: bool = False
    """The endpoint reads the body itself, and keeps the limit itself."""
    mutates: bool | None = None
    """None: what is not a GET changes something."""
    status: int = 200
    is_for_browsers: bool = False
    """A session cookie will do."""
    sunset_at: datetime | None = None
    successor: str | None = None
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def is_audited(self) -> bool:
        changes = self.method not in SAFE_METHODS if self.mutates is None else self.mutates
        return changes or self.path.startswith(INTERNAL_PATHS)


def get(path: str, endpoint: Endpoint, *, needs: Scope | Open, **more: Any) -> Declared:
    return Declared("GET", path, endpoint, needs, **more)


def post(
    path: str,
    endpoint: Endpoint,
    *,
    needs: Scope | Open,
    takes: str | None = bodies.JSON,
    **more: Any,
) -> Declared:
    return Declared("POST", path, endpoint, needs, takes, **more)


def delete(path: str, endpoint: Endpoint, *, needs: Scope | Open, **more: Any) -> Declared:
    return Declared("DELETE", path, endpoint, needs, **more)


class Gate:
    """Everything a guarded route asks of the house."""

    def __init__(
        self,
        access: Access,
        *,
        clock: Clock,
        metrics: Metrics,
        body_bytes_max: int,
        behind_proxy: bool,
    ) -> None:
        self.access = access
        self.clock = clock
        self.metrics = metrics
        self.body_bytes_max = body_bytes_max
        self.behind_proxy = behind_proxy

    async def identify(self, request: Request, *, with_cookie: bool = False) -> Caller:
        address = address_of(request, behind_proxy=self.behind_proxy)
        text = token_of(request)
        if text is None and with_cookie and request.method in SAFE_METHODS:
            cookie = cookie_of(request)
            if cookie is not None:
                return await self.access.identify(cookie, address=address, kind=Kind.SESSION)
        return await self.access.identify(text, address=address)

    def answer(self, error: PodiumError, request: Request) -> Response:
        return errors.answer(error, now=self.clock.now(), trace_id=trace_of(request))


class GuardedRoute(APIRoute):
    """A route of the framework that keeps its declaration."""

    declared: Declared | None = None
    gate: Gate

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def guarded(request: Request) -> Response:
            assert self.declared is not None, "the factory declares every route"
            return await _serve(self.declared, self.gate, request, handle)

        return guarded


async def _serve(
    declared: Declared,
    gate: Gate,
    request: Request,
    handle: Callable[[Request], Coroutine[Any, Any, Response]],
) -> Response:
    allowance: Allowance | None = None
    began = gate.clock.monotonic()
    try:
        allowance = await _admit(declared, gate, request)
        refuse_version(request)
        await _take_body(declared, gate, request)
        response = await handle(request)
    except PodiumError as error:
        response = gate.answer(error, request)
        if response.status_code >= 500:
            log.error(
                "a request failed", route=declared.path, trace_id=trace_of(request), trace=error
            )
    except RequestValidationError as error:
        response = gate.answer(errors.from_validation(error), request)
    except HTTPException as error:
        response = gate.answer(errors.from_framework(error), request)
    except Exception as error:
        # A mistake of ours: the caller gets a number to quote, the log gets the rest.
        log.error("a request failed", route=declared.path, trace_id=trace_of(request), trace=error)
        response = gate.answer(PodiumError(errors.INTERNAL), request)
    caller: Caller | None = request.scope.get("podium.caller")
    if caller is not None and declared.is_audited:
        response = await _audited(declared, gate, request, caller, response)
    _stamp(declared, gate, response, allowance)
    labels = gate.metrics.http_requests.labels(declared.method, declared.path, response.status_code)
    labels.inc()
    gate.metrics.http_seconds.labels(declared.path).observe(gate.clock.monotonic() - began)
    return response


async def _admit(declared: Declared, gate: Gate, request: Request) -> Allowance | None:
    request.scope["podium.address"] = address_of(request, behind_proxy=gate.behind_proxy)
    if isinstance(declared.needs, Open):
        return None
    caller = await gate.identify(request, with_cookie=declared.is_for_browsers)
    request.scope["podium.caller"] = caller
    refuse_without(caller, declared.needs)
    return await gate.access.count(caller, request.scope["podium.address"])


async def _take_body(declared: Declared, gate: Gate, request: Request) -> None:
    override = request.headers.get("x-http-method-override")
    if override is not None and override.upper() != request.method:
        raise errors.MethodRefused("a method is not overridden by a header; send that method")
    if declared.takes is None:
        bodies.refuse_body(request)
        return
    bodies.refuse_media_type(request, declared.takes)
    if declared.streams_body:
        return
    data = await bodies.read(request, declared.body_bytes_max or gate.body_bytes_max)
    # The framework finds the body already read, and parsed by our rules instead of its own.
    request._body = data
    if declared.takes == bodies.JSON:
        request._json = bodies.loads(data)


async def _audited(
    declared: Declared, gate: Gate, request: Request, caller: Caller, response: Response
) -> Response:
    entry = Entry(
        actor=caller.actor,
        address=request.scope["podium.address"],
        service=_printable(request.headers.get("x-service-name")),
        method=declared.method,
        route=declared.path,
        target=_printable(request.scope["path"]) or "",
        status=response.status_code,
        trace_id=trace_of(request),
    )
    try:
        await gate.access.audit.record(entry)
    except PodiumError as error:
        # It happened, but it could not be recorded: not an answer to be proud of, so none is given.
        log.error("the audit log cannot be written", route=declared.path, trace=error)
        return gate.answer(error, request)
    return response


def _stamp(declared: Declared, gate: Gate, response: Response, allowance: Allowance | None) -> None:
    if allowance is not None:
        reset_at = gate.clock.now().timestamp() + allowance.reset_seconds
        response.headers["x-ratelimit-limit"] = str(allowance.limit)
        response.headers["x-ratelimit-remaining"] = str(allowance.remaining)
        response.headers["x-ratelimit-reset"] = str(round(reset_at))
    if declared.sunset_at is not None:
        response.headers["sunset"] = format_datetime(declared.sunset_at, usegmt=True)
        if declared.successor is not None:
            response.headers["link"] = f'<{declared.successor}>; rel="successor-version"'


def refuse_version(request: Request) -> None:
    """`Accept: application/json; version=1`: a version that we do not speak is not guessed at."""
    for version in VERSION.findall(request.headers.get("accept", "").lower()):
        if version not in VERSIONS:
            raise errors.VersionRefused(
                f"version {version[:20]!r} is not spoken here; version=1 is",
                versions=sorted(VERSIONS),
            )


def caller_of(request: Request) -> Caller:
    caller: Caller = request.scope["podium.caller"]
    return caller


def trace_of(request: Request) -> str:
    trace: str = request.scope["podium.trace"]
    return trace


def _printable(text: str | None) -> str | None:
    if text is None:
        return None
    return "".join(c if c.isprintable() else "�" for c in text[:TARGET_CHARACTERS_MAX])
