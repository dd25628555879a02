"""Pulling from a durable consumer, one request at a time.

First: what is there now? The server answers at once, with messages or with "none". Only then: the
first one that comes within the time given, and whatever came with it. Messages carry the subject they
were published to and a request's end carries the request's own reply subject, so that the late end of
one request is never taken for the end of the next.
"""

from __future__ import annotations

import orjson
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import TimeoutError as NatsTimeoutError

ANSWER_SECONDS_MAX = 5.0
STATUS = "Status"
NO_RESPONDERS = "503"


class NoConsumer(Exception):
    """The server knows no such consumer."""


class Ear:
    def __init__(self, client: Client, subscription: Subscription, inbox: str, ask: str) -> None:
        self.client = client
        self._subscription = subscription
        self._inbox = inbox
        self._ask = ask
        self._requests = 0

    @classmethod
    async def opened(cls, client: Client, stream: str, durable: str) -> Ear:
        inbox = client.new_inbox()
        subscription = await client.subscribe(f"{inbox}.*")
        return cls(client, subscription, inbox, f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{durable}")

    async def hear(self, n: int, wait_seconds: float) -> list[Msg]:
        heard = await self._pull(n, 0.0)
        if not heard and wait_seconds > 0:
            heard = await self._pull(1, wait_seconds)
            if heard and n > 1:
                heard += await self._pull(n - 1, 0.0)
        return heard

    async def _pull(self, n: int, wait_seconds: float) -> list[Msg]:
        self._requests += 1
        reply = f"{self._inbox}.{self._requests}"
        how = {"no_wait": True} if wait_seconds <= 0 else {"expires": int(wait_seconds * 1e9)}
        await self.client.publish(self._ask, orjson.dumps({"batch": n, **how}), reply=reply)
        heard: list[Msg] = []
        while len(heard) < n:
            try:
                message = await self._subscription.next_msg(wait_seconds + ANSWER_SECONDS_MAX)
            except (TimeoutError, NatsTimeoutError):
                if heard:
                    return heard
                raise
            if message.reply:
                heard.append(message)
            elif message.subject == reply and _is_end(message):
                return heard
        return heard


def _is_end(message: Msg) -> bool:
    status = (message.headers or {}).get(STATUS)
    if status == NO_RESPONDERS:
        raise NoConsumer
    return status != "100"
