"""Many notices on their way at once, and which of them the broker has for sure.

The library can do this too, with a future, a random token and a semaphore per message; for a relay
whose lists are bounded anyway a running number does, at half the price.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import count

import orjson
from nats.aio.client import Client
from nats.aio.msg import Msg

from podium.backends.nats import letters, names
from podium.kernel.outbox import Notice

HEADERS_BYTES = 4_096
"""Kept free in each message for what we add to the body and its properties."""


class Receipts:
    def __init__(self, client: Client, prefix: str) -> None:
        self._client = client
        self._prefix = prefix
        self._inbox = f"{client.new_inbox()}."
        self._numbers = count(1)
        self._sent: dict[str, Sent] = {}
        """By the token of a receipt that is still to come."""

    @classmethod
    async def opened(cls, client: Client, prefix: str) -> Receipts:
        receipts = cls(client, prefix)
        await client.subscribe(f"{receipts._inbox}*", cb=receipts._receive)
        return receipts

    async def send(self, notices: Sequence[Notice], sent: Sent) -> None:
        """Everything is on its way, or as much as could be sent."""
        bytes_max = self._client.max_payload - HEADERS_BYTES
        for notice in notices:
            body, headers = letters.written(notice, bytes_max)
            token = str(next(self._numbers))
            sent.waiting[token] = notice
            self._sent[token] = sent
            try:
                await self._client.publish(
                    names.subject(self._prefix, notice.queue),
                    body,
                    reply=self._inbox + token,
                    headers=headers,
                )
            except Exception as error:
                # The connection: nobody behind this one will be luckier.
                sent.refuse(token, error)
                break
        sent.close()

    def forget(self, sent: Sent) -> None:
        for token in sent.waiting:
            self._sent.pop(token, None)

    async def _receive(self, message: Msg) -> None:
        token = message.subject[len(self._inbox) :]
        sent = self._sent.pop(token, None)
        if sent is not None:
            sent.receive(token, message)


class Sent:
    def __init__(self) -> None:
        self.waiting: dict[str, Notice] = {}
        self.accepted: list[Notice] = []
        self.error: str | None = None
        self.is_over = asyncio.Event()
        self._is_closed = False

    def close(self) -> None:
        """No more will be sent. Before that, having all answers means nothing."""
        self._is_closed = True
        self._settle()

    def receive(self, token: str, message: Msg) -> None:
        notice = self.waiting.pop(token)
        answer = orjson.loads(message.data) if message.data else {}
        if "seq" in answer:
            self.accepted.append(notice)
        else:
            # Without any answer: no stream listens to the subject.
            self.error = str(answer.get("error", {}).get("description", "the stream is gone"))
        self._settle()

    def refuse(self, token: str, error: Exception) -> None:
        self.waiting.pop(token, None)
        self.error = str(error) or repr(error)

    def _settle(self) -> None:
        if self._is_closed and not self.waiting:
            self.is_over.set()
