"""Clients of a server that may die at any moment, and what they were told.

A submitter repeats a call until it is answered, under the same `Idempotency-Key` or the same id. A
worker takes, holds and reports; now and then it falls asleep for longer than its lease, or fails. Only what was
*answered* goes into the book: the rest is nobody's promise.
"""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.kill.house import Announced
from tests.kill.line import Line, Lost

QUEUE = "kill"
SUBMITTERS = 3
WORKERS = 4
LEASE_SECONDS = 1.0
"""The shortest there is."""
KNOCK_SECONDS = 0.02
WAIT_SECONDS = 0.5
ANSWERS_SECONDS_MAX = 60.0
BUSY = (429, 503)


class Call(NamedTuple):
    """A call that was answered with yes."""

    what: str
    began_at: float
    ended_at: float
    trace_id: str
    sent: Any
    said: Any


class Grant(NamedTuple):
    id: str
    epoch: int


@dataclass(slots=True)
class Book:
    """What all callers were told."""

    calls: list[Call] = field(default_factory=list)
    keys: dict[str, set[str]] = field(default_factory=dict)
    """The ids that each key was answered with."""
    finished: set[str] = field(default_factory=set)
    """The ids whose end somebody was told of."""
    lost_count: int = 0
    busy_count: int = 0
    problems: list[str] = field(default_factory=list)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def add(self, call: Call) -> None:
        self.calls.append(call)
        self._changed.set()

    def of(self, what: str) -> list[Call]:
        return [call for call in self.calls if call.what == what]

    async def reach(self, calls: int) -> None:
        async with asyncio.timeout(ANSWERS_SECONDS_MAX):
            while len(self.calls) < calls:
                self._changed.clear()
                await self._changed.wait()

    @property
    def acknowledged(self) -> set[str]:
        return {id for ids in self.keys.values() for id in ids}


class Caller:
    def __init__(self, name: str, at: Announced, book: Book, rng: random.Random) -> None:
        self.name = name
        self.book = book
        self.rng = rng
        self._line = Line(at.port, at.token)

    async def ask(self, what: str, path: str, body: Any, headers: dict[str, str]) -> Any:
        """Again and again until there is an answer, as a client does whose work must not be lost."""
        while True:
            trace_id = f"{self.rng.getrandbits(128) | 1:032x}"
            trace = {"traceparent": f"00-{trace_id}-{'1' * 16}-01"}
            began_at = time.monotonic()
            try:
                answer = await self._line.ask("POST", path, body, {**trace, **headers})
            except Lost:
                self.book.lost_count += 1
                await asyncio.sleep(KNOCK_SECONDS)
                continue
            if answer.status in (200, 201):
                said = answer.json
                self.book.add(Call(what, began_at, time.monotonic(), trace_id, body, said))
                return said
            if answer.status not in BUSY or "retry-after" not in answer.headers:
                self.book.problems.append(f"{what} was answered {answer.status}: {answer.body!r}")
            self.book.busy_count += 1
            await asyncio.sleep(KNOCK_SECONDS)

    def close(self) -> None:
        self._line.close()


class Submitter(Caller):
    async def run(self, quiet: asyncio.Event) -> None:
        number = 0
        while not quiet.is_set():
            number += 1
            await self.submit(f"{self.name}-{number}")

    async def submit(self, key: str) -> None:
        item: dict[str, Any] = {
            "queue": QUEUE,
            "payload": {"key": key},
            "lease_seconds": LEASE_SECONDS,
            "attempts_max": 1_000,
        }
        headers = {}
        if self.rng.random() < 0.5:
            headers["Idempotency-Key"] = key
        else:
            item["id"] = f"id-{key}"
        said = await self.ask("submit", "/api/work", {"items": [item]}, headers)
        self.book.keys.setdefault(key, set()).update(it["id"] for it in said["items"])


class Worker(Caller):
    """Between two lives of the server it is the same holder: its leases may still be good."""

    async def run(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            body = {
                "queues": [QUEUE],
                "holder": self.name,
                "n": self.rng.randint(1, 4),
                "wait_seconds": WAIT_SECONDS,
            }
            said = await self.ask("claim", "/api/work/claim", body, {})
            for item in said["items"]:
                await self.handle(item["payload"]["key"], Grant(item["id"], item["epoch"]))

    async def handle(self, key: str, grant: Grant) -> None:
        fate = self.rng.random()
        if fate < 0.02:
            # Longer than its lease: somebody else gets it, and what we say then must be refused.
            await asyncio.sleep(1.5 * LEASE_SECONDS)
        elif fate < 0.2:
            await self.ask("renew", "/api/work/renew", {"grants": [grant._asdict()]}, {})
        if 0.2 < fate < 0.3:
            failed = {**grant._asdict(), "error": "so it goes", "delay_seconds": 0.0}
            await self.ask("fail", "/api/work/report", {"failed": [failed]}, {})
            return
        done = {**grant._asdict(), "result": {"key": key, "by": self.name, "epoch": grant.epoch}}
        said = await self.ask("done", "/api/work/report", {"done": [done]}, {})
        if said["verdicts"][0]["verdict"] in ("ok", "done"):
            self.book.finished.add(grant.id)


class Load:
    """All callers at once, over many lives of one server."""

    def __init__(self, at: Announced, rng: random.Random) -> None:
        self.book = Book()
        self._quiet = asyncio.Event()
        self._stop = asyncio.Event()
        self._submitters = [Submitter(f"s{n}", at, self.book, _own(rng)) for n in range(SUBMITTERS)]
        self._workers = [Worker(f"w{n}", at, self.book, _own(rng)) for n in range(WORKERS)]
        self._submitting = [asyncio.create_task(each.run(self._quiet)) for each in self._submitters]
        self._working = [asyncio.create_task(each.run(self._stop)) for each in self._workers]

    async def drain(self) -> bool:
        """No new work; whether everything that was acknowledged came to its end."""
        self._quiet.set()
        try:
            async with asyncio.timeout(ANSWERS_SECONDS_MAX):
                await asyncio.gather(*self._submitting)
                while not self.book.acknowledged <= self.book.finished:
                    await self.book.reach(len(self.book.calls) + 1)
                self._stop.set()
                await asyncio.gather(*self._working)
        except TimeoutError:
            return False
        return True

    async def close(self) -> None:
        tasks = [*self._submitting, *self._working]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for caller in (*self._submitters, *self._workers):
            caller.close()


def _own(rng: random.Random) -> random.Random:
    return random.Random(rng.getrandbits(64))
