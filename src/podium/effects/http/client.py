"""One call out, from a checked request to a bounded answer.

    check → for each hop: breaker, lane, connection, answer head, answer body → Response

The caller gets a `Response` (of any status) or one of the errors in `errors`. Nothing of the machine's
surroundings takes part: no proxy, no .netrc, no cookies.
"""

from __future__ import annotations

import asyncio
import random
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import NoReturn

import httpcore
import httpx

from podium import __version__
from podium.effects.http import answer, breaker, redirects
from podium.effects.http.breaker import Breakers, BreakerSettings
from podium.effects.http.dial import METER, Dialer, Meter
from podium.effects.http.egress import Egress
from podium.effects.http.errors import AnswerTooLarge, BadAnswer, CallFailed, TimedOut, Unreachable
from podium.effects.http.lanes import Lanes
from podium.effects.http.messages import HEADER_BYTES_MAX, Request, Response, check_request
from podium.effects.http.pool import EXCHANGE, Exchange, Pool
from podium.effects.http.resolve import Resolve, SystemResolver
from podium.effects.http.url import Url
from podium.kernel.clock import Clock
from podium.kernel.errors import PodiumError
from podium.kernel.telemetry import logger

log = logger(__name__)

HEADERS_TOO_LARGE = 431
"""How the parser of HTTP/1.1 marks a head or trailer that has no end."""
BODY_METHODS = frozenset({"POST", "PUT", "PATCH"})


@dataclass(frozen=True, slots=True)
class Settings:
    connect_seconds: float = 5.0
    """Resolving and connecting, and again as much for the TLS handshake."""
    connections_max: int = 512
    """Calls at once, all together."""
    per_destination_max: int = 8
    """Calls at once to one scheme, host and port. The next one waits, on its own time."""
    keepalive_seconds: float = 15.0
    """How long a connection waits for the next call. Servers close idle ones after some time, and a
    call that meets the closing is a failed try."""
    extra_ca_pem: str | None = None
    """Certificates to trust beside the public ones."""
    breaker: BreakerSettings = breaker.DEFAULT


DEFAULT = Settings()


class OutgoingHttp:
    def __init__(
        self,
        *,
        egress: Egress,
        clock: Clock,
        rng: random.Random,
        settings: Settings = DEFAULT,
        resolve: Resolve | None = None,
        network: httpcore.AsyncNetworkBackend | None = None,
    ) -> None:
        self.egress = egress
        self.settings = settings
        self._resolve: Resolve = resolve or SystemResolver()
        self._network = network or httpcore.AnyIOBackend()
        self._breakers = Breakers(clock, rng, settings.breaker)
        self._lanes = Lanes(settings.per_destination_max, settings.connections_max)
        self._pool = Pool(
            self._dialer,
            tls_context(settings.extra_ca_pem),
            connections_max=settings.connections_max,
            keepalive_seconds=settings.keepalive_seconds,
        )

    async def send(self, request: Request) -> Response:
        """The answer, whatever its status; Invalid before anything is sent, Refused or CallFailed."""
        check_request(request)
        url = self.egress.check(request.url)
        deadline = asyncio.get_running_loop().time() + request.seconds_max
        hops = 0
        while True:
            response = await self._hop(request, url, deadline)
            if request.redirects_max == 0:
                return response
            following = redirects.next_request(request, url, response, self.egress)
            if following is None:
                return response
            hops += 1
            if hops > request.redirects_max:
                raise BadAnswer(
                    f"{url.origin} redirects more than {request.redirects_max} times",
                    destination=url.origin,
                    reason="redirects",
                )
            request, url = following

    async def close(self) -> None:
        await self._pool.aclose()
        if isinstance(self._resolve, SystemResolver):
            self._resolve.close()

    async def __aenter__(self) -> OutgoingHttp:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _hop(self, request: Request, url: Url, deadline: float) -> Response:
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout_at(deadline):
                    await stack.enter_async_context(self._lanes.enter(url.origin))
            except TimeoutError:
                # Other calls took the time: that says nothing new about the place.
                raise TimedOut(
                    f"no turn to call {url.origin} within {request.seconds_max} s",
                    destination=url.origin,
                    reason="lane",
                ) from None
            return await self._watched(request, url, deadline)

    async def _watched(self, request: Request, url: Url, deadline: float) -> Response:
        """One exchange, its outcome told to the breaker."""
        ticket = self._breakers.admit(url.origin)
        try:
            async with asyncio.timeout_at(deadline):
                response = await self._exchange(request, url)
        except (CallFailed, TimeoutError) as error:
            self._breakers.failed(url.origin, ticket)
            if isinstance(error, CallFailed):
                log.info("call failed", destination=url.origin, reason=error.reason)
                raise
            log.info("call failed", destination=url.origin, reason="time")
            raise TimedOut(
                f"{url.origin} did not answer in full within {request.seconds_max} s",
                destination=url.origin,
                reason="time",
            ) from None
        except BaseException:
            self._breakers.abandoned(url.origin, ticket)
            raise
        if response.status >= 500:
            self._breakers.failed(url.origin, ticket)
        else:
            self._breakers.succeeded(url.origin, ticket)
        return response

    async def _exchange(self, request: Request, url: Url) -> Response:
        try:
            async with self._answered(request, url) as answered:
                return await answer.read(answered, url, request.answer_bytes_max)
        except PodiumError:
            raise
        except Exception as error:
            _translate(error, url)

    @asynccontextmanager
    async def _answered(self, request: Request, url: Url) -> AsyncIterator[httpcore.Response]:
        """The head of an answer, on a connection that is left in order whatever happens."""
        exchange = Exchange()
        # Twice the body, for what lies around it: chunk sizes, trailers, interim answers.
        meter = METER.set(Meter(HEADER_BYTES_MAX + 2 * request.answer_bytes_max))
        is_cut = True
        try:
            async with self._pool.stream(
                request.method,
                httpcore.URL(scheme=url.scheme, host=url.host, port=url.port, target=url.target),
                headers=_headers(request, url),
                content=request.body or (b"" if request.method in BODY_METHODS else None),
                extensions={
                    "timeout": {"connect": self.settings.connect_seconds},
                    EXCHANGE: exchange,
                },
            ) as answered:
                yield answered
            is_cut = False
        finally:
            METER.reset(meter)
            await exchange.end(is_cut=is_cut)

    def _dialer(self, url: Url) -> Dialer:
        return Dialer(url, self.egress, self._resolve, self._network)


def tls_context(extra_ca_pem: str | None = None) -> ssl.SSLContext:
    """Certificates are always verified against the name in the URL; there is no switch to stop it."""
    context = httpx.create_ssl_context(trust_env=False)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    if extra_ca_pem is not None:
        context.load_verify_locations(cadata=extra_ca_pem)
    return context


def _headers(request: Request, url: Url) -> list[tuple[str, str]]:
    given = {name.lower() for name, _ in request.headers}
    ours = [("Host", url.authority), ("Accept-Encoding", "identity")]
    if "user-agent" not in given:
        ours.append(("User-Agent", f"podium/{__version__}"))
    return [*ours, *request.headers]


def _translate(error: Exception, url: Url) -> NoReturn:
    """What went wrong out there, in our words. Theirs may quote what the stranger sent."""
    causes = list(_causes(error))
    if broken := [cause for cause in causes if isinstance(cause, ssl.SSLError)]:
        why = getattr(broken[0], "verify_message", None) or "the handshake failed"
        raise Unreachable(
            f"{url.origin} is not trusted: {why}", destination=url.origin, reason="tls"
        ) from None
    if any(getattr(cause, "error_status_hint", None) == HEADERS_TOO_LARGE for cause in causes):
        raise AnswerTooLarge(
            f"{url.origin} answers with more headers than are taken",
            destination=url.origin,
            reason="headers",
        ) from None
    if isinstance(error, httpcore.TimeoutException):
        raise TimedOut(
            f"{url.origin} did not connect in time", destination=url.origin, reason="connect"
        ) from None
    if isinstance(error, httpcore.NetworkError):
        raise Unreachable(
            f"the connection to {url.origin} broke", destination=url.origin, reason="broken"
        ) from None
    if not isinstance(error, httpcore.RemoteProtocolError):
        # A parser that a stranger feeds may stumble over what nobody thought of. To the caller it
        # is a bad answer; to us it is worth a look.
        log.warning("answer broke the parser", destination=url.origin, kind=type(error).__name__)
    raise BadAnswer(
        f"{url.origin} did not answer with proper HTTP", destination=url.origin, reason="protocol"
    ) from None


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
