"""What every request passes first, whatever its path: is it for us, have we room, and a last resort.

Nothing here decides who may do what: that hangs on the routes. The Host header is compared with the
names that are ours and used for nothing else.
"""

from __future__ import annotations

import re
from ipaddress import ip_address

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from podium.http import errors
from podium.http.house import House
from podium.http.load import Load
from podium.kernel.errors import Invalid, PodiumError
from podium.kernel.telemetry import logger

HOST = re.compile(r"(?P<name>\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(?::(?P<port>[0-9]{1,5}))?")
TRACEPARENT = re.compile(rb"00-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")
POLICY = b"default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'; object-src 'none'"
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})

log = logger(__name__)


class Edge:
    def __init__(self, app: ASGIApp, house: House) -> None:
        self._app = app
        self._house = house
        self._hosts = LOOPBACK | house.front.hosts
        self._load = Load(house.clock, house.front.requests_at_once_max)
        self._headers = [
            (b"x-service-version", house.front.version.encode()),
            (b"x-content-type-options", b"nosniff"),
            (b"referrer-policy", b"no-referrer"),
            (b"content-security-policy", POLICY),
            (b"cache-control", b"no-store"),
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._other(scope, receive, send)
            return
        scope["podium.trace"] = self._trace(scope)
        send = self._stamped(scope, send)
        try:
            self._refuse_host(scope)
            self._refuse_overload()
        except PodiumError as error:
            await self._answer(error, scope, receive, send)
            return
        scope["podium.load"] = place = self._load.enter()
        try:
            await self._app(scope, receive, send)
        except Exception as error:
            log.error("a request failed", trace_id=scope["podium.trace"], trace=error)
            if not scope.get("podium.answered"):
                await self._answer(PodiumError(errors.INTERNAL), scope, receive, send)
        finally:
            place.end()

    async def _other(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            scope["podium.trace"] = self._trace(scope)
            try:
                self._refuse_host(scope)
            except Invalid:
                await send({"type": "websocket.close", "code": 1008})
                return
        await self._app(scope, receive, send)

    def _refuse_host(self, scope: Scope) -> None:
        sent = [value for name, value in scope["headers"] if name == b"host"]
        match = HOST.fullmatch(sent[0].decode("latin-1")) if len(sent) == 1 else None
        if match is None:
            raise Invalid("one Host header with a plain name is needed", field="Host")
        name = match["name"].strip("[]").lower().rstrip(".")
        if name not in self._hosts and not self._is_own_address(name, scope):
            raise Invalid(
                "this server is not known by that name; set public_url to the one it is reached by",
                field="Host",
            )

    def _is_own_address(self, name: str, scope: Scope) -> bool:
        """The very address that was connected to: no name was resolved, so none can be forged."""
        server = scope.get("server")
        try:
            return server is not None and ip_address(name) == ip_address(server[0])
        except ValueError:
            return False

    def _refuse_overload(self) -> None:
        if self._load.is_full:
            self._house.metrics.http_refused.labels("overload").inc()
            raise errors.Overloaded("too many requests are in work; try again in a second")

    def _trace(self, scope: Scope) -> str:
        for name, value in scope["headers"]:
            if name == b"traceparent":
                match = TRACEPARENT.fullmatch(value)
                if match is not None:
                    return match[1].decode()
        return f"{self._house.rng.getrandbits(128):032x}"

    def _stamped(self, scope: Scope, send: Send) -> Send:
        async def stamped(message: Message) -> None:
            if message["type"] == "http.response.start":
                scope["podium.answered"] = True
                headers = message["headers"]
                said = {name for name, _ in headers}
                headers.extend(pair for pair in self._headers if pair[0] not in said)
            await send(message)

        return stamped

    async def _answer(self, error: PodiumError, scope: Scope, receive: Receive, send: Send) -> None:
        response = errors.answer(error, now=self._house.clock.now(), trace_id=scope["podium.trace"])
        await response(scope, receive, send)
