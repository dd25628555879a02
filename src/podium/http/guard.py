"""What a route declares, and that it is kept.

Authorisation hangs on the route object: who may call it is decided when it is defined and looked up
nowhere else, least of all in the path. The factory refuses to start with a route that declares
nothing. A request is identified, counted, allowed and read, in this order, before its endpoint runs;
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
from prometheus_client import Counter
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from podium.contracts.scopes import Scope
from podium.domains.access.limits import Allowance
from podium.domains.access.model import Caller, Entry, Kind
from podium.domains.access.service import Access, refuse_too_often, refuse_without
from podium.http import bodies, errors
from podium.http.callers import address_of, cookie_of, token_of
from podium.http.load import load_of
from podium.kernel.clock import Clock
from podium.kernel.errors import Invalid, PodiumError
from podium.kernel.telemetry import Metrics, logger

SAFE_METHODS = {"GET", "HEAD"}
INTERNAL_PATHS = "/api/internal/"
VERSION = re.compile(r";\s*version\s*=\s*\"?([^;,\s\"]*)")
VERSIONS = {"1"}
OVERRIDES = {b"x-http-method-override", b"x-http-method", b"x-method-override"}
TARGET_CHARACTERS_MAX = 300

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
        address = self.address(request)
        text = token_of(request)
        if text is None and with_cookie and request.method in SAFE_METHODS:
            cookie = cookie_of(request)
            if cookie is not None:
                return await self.access.identify(cookie, address=address, kind=Kind.SESSION)
        return await self.access.identify(text, address=address)

    def address(self, request: Request) -> str:
        known: str | None = request.scope.get("podium.address")
        if known is None:
            known = address_of(request, behind_proxy=self.behind_proxy)
            request.scope["podium.address"] = known
        return known

    def answer(self, error: PodiumError, request: Request) -> Response:
        return errors.answer(error, now=self.clock.now(), trace_id=trace_of(request))


class Meter:
    """The metrics of one route. Finding them by their labels costs more than counting, so it is done once."""

    def __init__(self, declared: Declared, metrics: Metrics) -> None:
        self._declared = declared
        self._requests = metrics.http_requests
        self._seconds = metrics.http_seconds.labels(declared.path)
        self._by_status: dict[int, Counter] = {}

    def count(self, status: int, seconds: float) -> None:
        counter = self._by_status.get(status)
        if counter is None:
            counter = self._requests.labels(self._declared.method, self._declared.path, status)
            self._by_status[status] = counter
        counter.inc()
        self._seconds.observe(seconds)


class GuardedRoute(APIRoute):
    """A route of the framework that keeps its declaration."""

    declared: Declared | None = None
    gate: Gate
    meter: Meter

    def keep(self, declared: Declared, gate: Gate) -> None:
        self.declared, self.gate = declared, gate
        self.meter = Meter(declared, gate.metrics)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def guarded(request: Request) -> Response:
            assert self.declared is not None, "the factory declares every route"
            return await _serve(self.declared, self.gate, self.meter, request, handle)

        return guarded


async def _serve(
    declared: Declared,
    gate: Gate,
    meter: Meter,
    request: Request,
    handle: Callable[[Request], Coroutine[Any, Any, Response]],
) -> Response:
    began = gate.clock.monotonic()
    try:
        await _admit(declared, gate, request)
        refuse_version(request)
        refuse_odd_target(request)
        await _take_body(declared, gate, request)
        response = await handle(request)
    except PodiumError as error:
        response = gate.answer(error, request)
        if response.status_code >= 500:
            _tell(declared, request, error, response.status_code)
        _let_go(error)
    except RequestValidationError as error:
        response = gate.answer(errors.from_validation(error), request)
        _let_go(error)
    except HTTPException as error:
        response = gate.answer(errors.from_framework(error), request)
    except Exception as error:
        # A mistake of ours: the caller gets a number to quote, the log gets the rest.
        log.error("a request failed", route=declared.path, trace_id=trace_of(request), trace=error)
        response = gate.answer(PodiumError(errors.INTERNAL), request)
    caller: Caller | None = request.scope.get("podium.caller")
    allowance: Allowance | None = request.scope.get("podium.allowance")
    # Who called too often was not let in: a line for each would cost the store what the limit saves.
    is_let_in = allowance is None or allowance.is_granted
    is_change = declared.is_audited and not request.scope.get("podium.changed_nothing")
    if caller is not None and is_let_in and is_change:
        response = await _audited(declared, gate, request, caller, response)
    _stamp(declared, gate, response, allowance)
    meter.count(response.status_code, gate.clock.monotonic() - began)
    return response


def _tell(declared: Declared, request: Request, error: PodiumError, status: int) -> None:
    """A mistake of ours with its trace; a store that is away in a line; a refusal under load not at all."""
    if status == 500:
        log.error("a request failed", route=declared.path, trace_id=trace_of(request), trace=error)
    elif not isinstance(error, errors.Overloaded):
        log.warning(
            "a request was refused",
            route=declared.path,
            trace_id=trace_of(request),
            error=str(error),
        )


def _let_go(error: Exception) -> None:
    """An error holds every frame that it came through, and the body in them, in circles: until the
    garbage is collected, which after a few large bodies is too late."""
    for each in (error, error.__cause__, error.__context__):
        if each is not None:
            each.__traceback__ = each.__cause__ = each.__context__ = None


async def _admit(declared: Declared, gate: Gate, request: Request) -> None:
    scope, address = request.scope, gate.address(request)
    if isinstance(declared.needs, Open):
        return
    caller = await gate.identify(request, with_cookie=declared.is_for_browsers)
    scope["podium.caller"] = caller
    # Counted first: who may not do a thing may not ask for it without end either.
    allowance = await gate.access.count(caller, address)
    scope["podium.allowance"] = allowance
    refuse_too_often(allowance)
    refuse_without(caller, declared.needs)


async def _take_body(declared: Declared, gate: Gate, request: Request) -> None:
    refuse_override(request)
    if declared.takes is None:
        bodies.refuse_body(request)
        return
    bodies.refuse_media_type(request, declared.takes)
    if declared.streams_body:
        return
    place = load_of(request)
    with place.waiting():
        bytes_max = declared.body_bytes_max or gate.body_bytes_max
        data = await bodies.read(request, bytes_max, expect=place.expect, on_part=place.read)
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
        response.raw_headers += [
            (b"x-ratelimit-limit", b"%d" % allowance.limit),
            (b"x-ratelimit-remaining", b"%d" % allowance.remaining),
            (b"x-ratelimit-reset", b"%d" % round(reset_at)),
        ]
    if declared.sunset_at is not None:
        response.headers["sunset"] = format_datetime(declared.sunset_at, usegmt=True)
        if declared.successor is not None:
            response.headers["link"] = f'<{declared.successor}>; rel="successor-version"'


def refuse_version(request: Request) -> None:
    """`Accept: application/json; version=1`: a version that we do not speak is not guessed at."""
    accept = request.headers.get("accept")
    if accept is None or "version" not in accept.lower():
        return
    for version in VERSION.findall(accept.lower()):
        if version not in VERSIONS:
            raise errors.VersionRefused(
                f"version {version[:20]!r} is not spoken here; version=1 is",
                versions=sorted(VERSIONS),
            )


def refuse_override(request: Request) -> None:
    method = request.method.encode()
    for name, value in request.scope["headers"]:
        if name in OVERRIDES and value.upper() != method:
            raise errors.MethodRefused("a method is not overridden by a header; send that method")


def refuse_odd_target(request: Request) -> None:
    """NUL is in no name of ours, and PostgreSQL cannot even look for it."""
    if "\0" in request.scope["path"] or b"%00" in request.scope["query_string"]:
        raise Invalid("the address has a NUL character", field="path")


def changed_nothing(request: Request) -> None:
    """Said by a call that might have changed something: an idle worker asks for work all day long."""
    request.scope["podium.changed_nothing"] = True


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
