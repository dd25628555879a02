"""The coalescer: many callers with one item each become one call with a list.

While a call is under way the next items gather; when it returns they go together. Nobody waits
for a timer, and under load the lists grow by themselves.

One bad item must not fail its neighbours: a list that is refused is split until the refusal
reaches only the item that caused it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from podium.kernel.errors import PodiumError, Unavailable

I = TypeVar("I")  # noqa: E741
O = TypeVar("O")  # noqa: E741


class Coalescer(Generic[I, O]):
    def __init__(self, call: Callable[[list[I]], Awaitable[list[O]]], items_max: int = 500) -> None:
        self._call = call
        self._items_max = items_max
        self._waiting: list[tuple[I, asyncio.Future[O]]] = []
        self._sender: asyncio.Task[None] | None = None

    async def __call__(self, item: I) -> O:
        answer: asyncio.Future[O] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, answer))
        if self._sender is None:
            self._sender = asyncio.create_task(self._send_all())
        return await answer

    async def _send_all(self) -> None:
        try:
            while self._waiting:
                batch = self._waiting[: self._items_max]
                del self._waiting[: self._items_max]
                await self._send([pair for pair in batch if not pair[1].done()])
        finally:
            self._sender = None
            self._fail(self._waiting, Unavailable("the call was stopped before it was sent"))
            self._waiting = []

    async def _send(self, batch: list[tuple[I, asyncio.Future[O]]]) -> None:
        if not batch:
            return
        try:
            answers = await self._call([item for item, _ in batch])
            if len(answers) != len(batch):
                raise RuntimeError(f"{len(batch)} items were sent, {len(answers)} were answered")
        except Unavailable as error:
            self._fail(batch, error)
        except PodiumError as error:
            if len(batch) == 1:
                self._fail(batch, error)
            else:
                middle = len(batch) // 2
                await self._send(batch[:middle])
                await self._send(batch[middle:])
        except BaseException as error:
            self._fail(batch, error)
            if not isinstance(error, Exception):
                raise
        else:
            for (_, future), answer in zip(batch, answers, strict=True):
                if not future.done():
                    future.set_result(answer)

    def _fail(self, batch: list[tuple[I, asyncio.Future[O]]], error: BaseException) -> None:
        if isinstance(error, asyncio.CancelledError):
            error = Unavailable("the call was stopped before it was answered")
        for _, future in batch:
            if not future.done():
                future.set_exception(error)
