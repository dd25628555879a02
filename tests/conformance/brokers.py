"""What the tests of a broker share: plain clients that know nothing of Podium, and patience."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import nats
from nats.aio.client import Client
from nats.js import JetStreamContext

from podium.backends.nats import names
from podium.kernel.work import DeadLetter
from podium.testing.suites.bus import Post
from tests.worlds import NatsWorld

R = TypeVar("R")
DEADLINE_SECONDS = 40.0


@asynccontextmanager
async def stranger(world: NatsWorld) -> AsyncIterator[Stranger]:
    client = await nats.connect(world.link.settings.url)
    try:
        yield Stranger(world, client)
    finally:
        await client.close()


class Stranger:
    """Somebody with nothing but a NATS client."""

    def __init__(self, world: NatsWorld, client: Client) -> None:
        self.js: JetStreamContext = client.jetstream()
        self.stream = world.link.settings.stream
        self._prefix = world.link.settings.prefix

    async def publish(self, source: str, data: bytes, **headers: str) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        await self.js.publish(names.subject(self._prefix, source), data, headers=named or None)

    async def fetch(self, source: str, n: int = 1) -> list[Any]:
        """From the consumer that ours share, without any claim."""
        durable = names.durable(source)
        reader = await self.js.pull_subscribe_bind(durable, stream=self.stream)
        found = await reader.fetch(n, timeout=5)
        await reader.unsubscribe()
        return found

    async def count(self) -> int:
        return (await self.js.stream_info(self.stream)).state.messages

    async def published_count(self) -> int:
        return (await self.js.stream_info(self.stream)).state.last_seq


async def until(ask: Callable[[], Awaitable[R]]) -> R:
    """Ask until the answer is something."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        while True:
            answer = await ask()
            if answer:
                return answer
            await asyncio.sleep(0.02)


async def letters(post: Post, source: str) -> list[DeadLetter]:
    return await post.store.read(post.bus.dead_letters, source)
