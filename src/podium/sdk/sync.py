"""The client without `await`: the async one, on a loop of its own in a thread of its own.

There is no second implementation. Each method below is the async method of the same name with its
parameters and its result, waited for.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from podium.sdk.client import Client
from podium.sdk.transport import DEADLINE_SECONDS

P = ParamSpec("P")
R = TypeVar("R")


def _door(
    method: Callable[Concatenate[Client, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[SyncClient, P], R]:
    def call(self: SyncClient, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._wait_for(method(self._client, *args, **kwargs))

    call.__doc__ = method.__doc__
    return call


def _stream(
    method: Callable[Concatenate[Client, P], AsyncIterator[R]],
) -> Callable[Concatenate[SyncClient, P], Iterator[R]]:
    def call(self: SyncClient, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[R]:
        return self._each(method(self._client, *args, **kwargs))

    call.__doc__ = method.__doc__
    return call


class SyncClient:
    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        deadline_seconds: float = DEADLINE_SECONDS,
    ) -> None:
        self._client = Client(url, token, deadline_seconds=deadline_seconds)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="podium client", daemon=True
        )
        self._thread.start()

    @property
    def url(self) -> str:
        return self._client.url

    enqueue = _door(Client.enqueue)
    cancel = _door(Client.cancel)
    claim = _door(Client.claim)
    start = _door(Client.start)
    renew = _door(Client.renew)
    release = _door(Client.release)
    report = _door(Client.report)
    show = _door(Client.show)
    queues = _door(Client.queues)
    dead_letters = _door(Client.dead_letters)
    all_dead_letters = _stream(Client.all_dead_letters)
    replay = _door(Client.replay)
    why = _door(Client.why)
    journal = _door(Client.journal)
    events = _stream(Client.events)
    download_link = _door(Client.download_link)
    upload_link = _door(Client.upload_link)
    blobs = _door(Client.blobs)
    create_token = _door(Client.create_token)
    tokens = _door(Client.tokens)
    rotate_token = _door(Client.rotate_token)
    revoke_token = _door(Client.revoke_token)
    login_link = _door(Client.login_link)
    audit = _door(Client.audit)
    violations = _door(Client.violations)
    ready = _door(Client.ready)

    def close(self) -> None:
        """Safe to call twice."""
        if self._loop.is_closed():
            return
        self._wait_for(self._client.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _wait_for(self, call: Coroutine[Any, Any, R]) -> R:
        future = asyncio.run_coroutine_threadsafe(call, self._loop)
        try:
            return future.result()
        except BaseException:
            # Ctrl-C while waiting: the call does not go on behind the caller's back.
            future.cancel()
            raise

    def _each(self, stream: AsyncIterator[R]) -> Iterator[R]:
        try:
            while True:
                yield self._wait_for(_next(stream))
        except StopAsyncIteration:
            return
        finally:
            close = getattr(stream, "aclose", None)
            if close is not None and not self._loop.is_closed():
                self._wait_for(close())


async def _next(stream: AsyncIterator[R]) -> R:
    return await anext(stream)
