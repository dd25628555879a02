"""A worker at work, and a desk that keeps count and can be out of order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from podium.contracts.work import (
    Claim,
    Claimed,
    Enqueue,
    Enqueued,
    Grants,
    NewWork,
    Report,
    Verdicts,
    WorkShown,
)
from podium.runners.worker import Worker
from podium.sdk import HandlerContext, HandlerResult
from podium.sdk.client import Client
from podium.sdk.desk import WorkDesk
from podium.sdk.handlers import Registered

Q = "q"
GOOD = HandlerResult(success=True)


class Desk:
    """A desk that keeps count, and is out of order when told so."""

    def __init__(self, desk: WorkDesk) -> None:
        self._desk = desk
        self.claimed = asyncio.Event()
        self.calls: list[tuple[str, int]] = []
        self.faults: dict[str, list[Exception]] = {}

    def _count(self, name: str, n: int) -> None:
        self.calls.append((name, n))
        if self.faults.get(name):
            raise self.faults[name].pop(0)

    def sizes(self, name: str) -> list[int]:
        return [n for called, n in self.calls if called == name]

    async def enqueue(self, body: Enqueue, /) -> Enqueued:
        return await self._desk.enqueue(body)

    async def claim(self, body: Claim, /) -> Claimed:
        self._count("claim", body.n)
        self.claimed.set()
        return await self._desk.claim(body)

    async def start(self, body: Grants, /) -> Verdicts:
        self._count("start", len(body.grants))
        return await self._desk.start(body)

    async def renew(self, body: Grants, /) -> Verdicts:
        self._count("renew", len(body.grants))
        return await self._desk.renew(body)

    async def release(self, body: Grants, /) -> Verdicts:
        self._count("release", len(body.grants))
        return await self._desk.release(body)

    async def report(self, body: Report, /) -> Verdicts:
        self._count("report", len(body.done) + len(body.failed))
        return await self._desk.report(body)


def handled_by(
    function: Callable[[HandlerContext], Any], *, timeout_seconds: float | None = None
) -> dict[str, Registered]:
    return {"h": Registered("h", Q, timeout_seconds, function)}


@asynccontextmanager
async def working(
    desk: Desk, handlers: dict[str, Registered], **settings: Any
) -> AsyncIterator[Worker]:
    settings = {"concurrency": 8, "wait_seconds": 0.2, "grace_seconds": 1.0, **settings}
    worker = Worker(desk, handlers, holder="worker", **settings)
    running = asyncio.create_task(worker.run())
    try:
        yield worker
    finally:
        worker.ask_to_stop()
        async with asyncio.timeout(15):
            await running


async def put(client: Client, *payloads: Any, **terms: Any) -> list[str]:
    enqueued = await client.enqueue([NewWork(queue=Q, payload=it, **terms) for it in payloads])
    return [item.id for item in enqueued.items]


async def until_state(client: Client, id: str, state: str) -> WorkShown:
    async with asyncio.timeout(15):
        while True:
            shown = await client.show(id)
            if shown.state == state:
                return shown
            await asyncio.sleep(0.01)
