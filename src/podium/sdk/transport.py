"""One call over HTTP, tried again where that is safe.

What never reached the server may always be sent again, and so may what it refused because there was
too much (429). What may have been carried out is sent again only if a second time does no harm:
reading, and calls that carry a key or name their grant. Pauses grow, and vary so that many callers
do not come back together; `Retry-After` is obeyed. All of it ends at the deadline.
"""

from __future__ import annotations

import asyncio
import math
import os
import random
import ssl
from collections.abc import Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from podium.contracts.errors import Code
from podium.sdk.errors import (
    AnswerLost,
    ApiError,
    NotConfigured,
    RateLimited,
    Unavailable,
    Unreachable,
    api_error,
)
from podium.sdk.where import Place

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import httpx

DEADLINE_SECONDS = 30.0
TRY_SECONDS = 10.0
"""An answer that has not come by then is taken for lost. Long polls add what they wait."""
CONNECT_SECONDS = 5.0
# Shorter than any server keeps an idle connection: otherwise a request now and then meets a closed one.
IDLE_SECONDS = 30.0
# The pool of httpx looks at every connection for every request: few connections, and an orderly queue
# in front of them, are faster than many.
CALLS_AT_ONCE_MAX = 10
PAUSE_SECONDS = 0.1
PAUSE_SECONDS_MAX = 5.0
JSON = "application/json"

# Proxies answer with these, without our envelope.
CODE_OF_STATUS = {
    401: Code.AUTH_INVALID_TOKEN,
    403: Code.AUTHZ_INSUFFICIENT_PERMISSIONS,
    404: Code.RESOURCE_NOT_FOUND,
    405: Code.METHOD_NOT_ALLOWED,
    413: Code.PAYLOAD_TOO_LARGE,
    429: Code.RATE_LIMIT_EXCEEDED,
    502: Code.SERVICE_UNAVAILABLE,
    503: Code.SERVICE_UNAVAILABLE,
    504: Code.SERVICE_UNAVAILABLE,
}


@dataclass(frozen=True, slots=True)
class Ask:
    method: str
    path: str
    query: Mapping[str, Any] = field(default_factory=dict)
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    is_repeatable: bool = False
    """A second time does no harm, even if the first was carried out."""
    wait_seconds: float = 0.0
    """How long the server itself may take its time."""


class Answer(NamedTuple):
    body: bytes
    is_repeat: bool
    """An earlier try may have been carried out: its answer was lost on the way."""


class Transport:
    def __init__(
        self,
        place: Place,
        *,
        deadline_seconds: float = DEADLINE_SECONDS,
        try_seconds: float = TRY_SECONDS,
        rng: random.Random | None = None,
    ) -> None:
        self.place = place
        self.deadline_seconds = deadline_seconds
        self._try_seconds = try_seconds
        self._rng = rng or random.Random()
        self._places = asyncio.Semaphore(CALLS_AT_ONCE_MAX)
        self._http: httpx.AsyncClient | None = None

    async def close(self) -> None:
        if self._http is not None:
            await self._http.aclose()
            self._http = None

    async def send(self, ask: Ask) -> Answer:
        """The body of a good answer; ApiError for any other, after the tries that are worth it."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self.deadline_seconds + ask.wait_seconds
        is_repeat, tries = False, 0
        while True:
            try:
                return Answer(await self._try_in_turn(ask, until), is_repeat)
            except ApiError as error:
                tries += 1
                is_repeat = is_repeat or may_have_happened(error)
                pause_seconds = self.pause_seconds(error, tries)
                if not is_worth_another(error, ask) or loop.time() + pause_seconds >= until:
                    raise
            await asyncio.sleep(pause_seconds)

    def pause_seconds(self, error: ApiError, tries: int) -> float:
        grown = min(PAUSE_SECONDS * 2.0 ** min(tries - 1, 20), PAUSE_SECONDS_MAX)
        pause = grown * (0.5 + self._rng.random())
        return max(pause, error.retry_after_seconds or 0.0)

    async def _try_in_turn(self, ask: Ask, until: float) -> bytes:
        if ask.wait_seconds:
            # A long poll mostly does nothing, and must not keep others from asking.
            return await self._try(ask, until)
        try:
            async with asyncio.timeout_at(until):
                await self._places.acquire()
        except TimeoutError:
            raise Unreachable("too many calls are under way in this client") from None
        try:
            return await self._try(ask, until)
        finally:
            self._places.release()

    async def _try(self, ask: Ask, until: float) -> bytes:
        limit = asyncio.get_running_loop().time() + self._try_seconds + ask.wait_seconds
        try:
            async with asyncio.timeout_at(min(until, limit)):
                async with self.stream(ask) as response:
                    return await response.aread()
        except TimeoutError:
            raise AnswerLost(f"{self.place.url} did not answer in time") from None

    @asynccontextmanager
    async def stream(
        self, ask: Ask, *, silence_seconds: float | None = None
    ) -> AsyncIterator[httpx.Response]:
        """The answer while it comes. ApiError if it is a refusal, or if it breaks off."""
        import httpx

        # Deadlines are kept by whoever calls; httpx keeps only what it alone can tell apart.
        timeout = httpx.Timeout(silence_seconds, connect=CONNECT_SECONDS, pool=CONNECT_SECONDS)
        try:
            async with self._pool().stream(
                ask.method,
                ask.path,
                params={key: value for key, value in ask.query.items() if value is not None},
                content=ask.body,
                headers={**ask.headers, **({} if ask.body is None else {"content-type": JSON})},
                timeout=timeout,
            ) as response:
                if not 200 <= response.status_code < 300:
                    raise refusal(response.status_code, response.headers, await response.aread())
                yield response
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            raise Unreachable(
                f"{self.place.url} cannot be reached: {str(error) or type(error).__name__}"
            ) from None
        except httpx.TransportError as error:
            raise AnswerLost(
                f"the answer of {self.place.url} was lost: {str(error) or type(error).__name__}"
            ) from None

    def _pool(self) -> httpx.AsyncClient:
        if self._http is None:
            import httpx

            headers = {"accept": JSON}
            if self.place.token is not None:
                headers["authorization"] = f"Bearer {self.place.token}"
            self._http = httpx.AsyncClient(
                base_url=self.place.url,
                headers=headers,
                limits=httpx.Limits(
                    max_connections=None,
                    max_keepalive_connections=CALLS_AT_ONCE_MAX,
                    keepalive_expiry=IDLE_SECONDS,
                ),
                # A proxy from the environment has no business between a process and its own machine.
                trust_env=not self.place.is_local,
                verify=_certificates(),
            )
        return self._http


def is_worth_another(error: ApiError, ask: Ask) -> bool:
    if isinstance(error, RateLimited):
        return True
    if isinstance(error, Unavailable):
        return ask.is_repeatable or not may_have_happened(error)
    return False


def may_have_happened(error: ApiError) -> bool:
    """Also a 503: the commit, or the record of what was done, may be what was not available."""
    return isinstance(error, AnswerLost) or (error.status or 0) >= 500


def refusal(status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    said = _envelope(body)
    code = said.get("code") or CODE_OF_STATUS.get(status)
    if code is None:
        code = Code.INTERNAL_ERROR if status >= 500 else Code.VALIDATION_INVALID_PARAMS
    return api_error(
        str(code),
        str(said.get("message") or f"the server answered {status}"),
        said.get("details") if isinstance(said.get("details"), dict) else None,
        said.get("traceId"),
        status,
        _retry_after(headers.get("retry-after")),
    )


def _envelope(body: bytes) -> dict[str, Any]:
    try:
        said = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    error = said.get("error") if isinstance(said, dict) else None
    return error if isinstance(error, dict) else {}


def _retry_after(text: str | None) -> float | None:
    """Seconds; a date is not worth a parser here, the pauses grow anyway."""
    try:
        seconds = float(text or "")
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def _certificates() -> ssl.SSLContext | bool:
    """The system's, or those of PODIUM_CA_FILE: for a server with a certificate of its own making."""
    file = os.environ.get("PODIUM_CA_FILE")
    try:
        return ssl.create_default_context(cafile=file) if file else True
    except (OSError, ssl.SSLError) as error:
        raise NotConfigured(f"PODIUM_CA_FILE {file} cannot be used: {error}") from None
