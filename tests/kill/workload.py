"""What the program does all the time: submit, tick, read, execute, tell.

An item is submitted under an idempotency key that decides all about it; half of the items get
their id from the key, half from the engine. Its effect is recorded, and told on the bus, in the
transaction that completes it. A tick is a write that has no key of its own and must still happen
exactly once. Every answer is noted *after* the store gave it.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from typing import Any

import orjson

from podium.kernel import idempotency
from podium.kernel.bus import Delivery, Message, SqlBus
from podium.kernel.errors import CommitUnknown, PodiumError
from podium.kernel.retry import Backoff, RetryPolicy
from podium.kernel.store import Store, Tx
from podium.kernel.work import Claimed, Done, Failure, NewItem, Verdict, Work
from tests.kill.history import Outcome, Recorder

WORK = "work"
SLOW = "slow"
TOLD = "told"
SINK = "sink"
RETRY = RetryPolicy(backoff=Backoff.FIXED, base_seconds=0.05, jitter=0.0)
ATTEMPTS_MAX = 1_000
"""A kill costs an attempt; none of them may end as a dead letter because of that."""
SLOW_SECONDS_MAX = 1.2
PAUSE_SECONDS = 0.01


@dataclass(frozen=True, slots=True)
class Spec:
    """All about one item. The key decides it, so that asking again asks for the same."""

    key: str
    seconds: float = 0.0
    fails_first: bool = False
    is_stubborn: bool = False
    """Its handler does not stop when its lease is lost: it completes late."""
    delay_seconds: float = 0.0

    @classmethod
    def of(cls, key: str, lease_seconds: float) -> Spec:
        rng = random.Random(key)
        draw = rng.random()
        return cls(
            key,
            # Longer than a short lease: it lives on renewals.
            seconds=min(1.4 * lease_seconds, SLOW_SECONDS_MAX) if draw < 0.01 else 0.0,
            fails_first=0.1 < draw < 0.15,
            delay_seconds=rng.choice((0.05, 0.2)) if 0.2 < draw < 0.25 else 0.0,
        )

    @property
    def has_own_id(self) -> bool:
        return random.Random(self.key).getrandbits(1) == 0


class Workload:
    def __init__(
        self,
        store: Store,
        work: Work,
        bus: SqlBus,
        *,
        recorder: Recorder,
        effects: Path,
        holder: str,
        lease_seconds: float,
    ) -> None:
        self._store = store
        self._work = work
        self._bus = bus
        self._recorder = recorder
        self._effects = os.open(effects, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        self._holder = holder
        self._lease_seconds = lease_seconds

    # Asking ----------------------------------------------------------------------------------

    async def submit(self, spec: Spec) -> None:
        body = orjson.dumps(asdict(spec))
        facts = {"delay_seconds": spec.delay_seconds} if spec.delay_seconds else {}

        async def ask() -> dict[str, Any]:
            return {"item": await self._store.write(self._submit, spec, body)}

        await self._ask("submit", spec.key, ask, facts)

    async def _submit(self, tx: Tx, spec: Spec, body: bytes) -> str:
        async def enqueue() -> str:
            item = NewItem(
                SLOW if spec.seconds else WORK,
                asdict(spec),
                id=f"item-{spec.key}" if spec.has_own_id else None,
                delay_seconds=spec.delay_seconds,
                attempts_max=ATTEMPTS_MAX,
                retry=RETRY,
                lease_seconds=self._lease_seconds,
            )
            [enqueued] = await self._work.enqueue(tx, [item])
            return enqueued.id

        answer = await idempotency.once(tx, key=f"submit-{spec.key}", body=body, do=enqueue)
        return str(answer)

    async def tick(self, key: str) -> None:
        async def ask() -> dict[str, Any]:
            await self._store.write(self._tick, key)
            return {}

        await self._ask("tick", key, ask, {})

    async def _tick(self, tx: Tx, key: str) -> None:
        await tx.rows("kill.tick", key=key)

    async def read(self, key: str) -> None:
        async def ask() -> dict[str, Any]:
            return {"count": await self._store.read(unfinished)}

        await self._ask("read", key, ask, {})

    async def _ask(
        self,
        what: str,
        key: str,
        ask: Callable[[], Awaitable[dict[str, Any]]],
        facts: dict[str, Any],
    ) -> None:
        self._recorder.start(what, key, **facts)
        try:
            answer = await ask()
        except CommitUnknown as error:
            self._recorder.end(what, key, Outcome.UNKNOWN, **_told(error))
        except PodiumError as error:
            self._recorder.end(what, key, Outcome.FAIL, **_told(error))
        else:
            self._recorder.end(what, key, Outcome.OK, **answer)

    # Doing -----------------------------------------------------------------------------------

    async def handle(self, items: list[Claimed]) -> Sequence[Done | Failure]:
        """Settles by itself, because it records in the same transaction; returns what failed."""
        specs = {item.id: Spec(**item.body) for item in items}
        for item in items:
            self._note_execution(specs[item.id], item)
        fails = [item for item in items if _fails(specs[item.id], item)]
        does = [item for item in items if item not in fails]
        settling = self._settle([Done(item) for item in does], specs)
        if any(spec.is_stubborn for spec in specs.values()):
            await self._stay(settling, max(spec.seconds for spec in specs.values()))
        else:
            try:
                await asyncio.sleep(max(spec.seconds for spec in specs.values()))
            except asyncio.CancelledError:
                settling.close()
                raise
            await settling
        return [Failure(item, "it fails once") for item in fails]

    async def _stay(self, settling: Any, seconds: float) -> None:
        late = asyncio.create_task(_after(seconds, settling))
        await asyncio.shield(late)

    async def _settle(self, done: list[Done], specs: dict[str, Spec]) -> None:
        if not done:
            return
        verdicts = await self._store.write(self._complete, done, specs)
        for (lease, _), verdict in zip(done, verdicts, strict=True):
            self._recorder.note(
                "settle", specs[lease.id].key, item=lease.id, epoch=lease.epoch, verdict=verdict
            )

    async def _complete(self, tx: Tx, done: list[Done], specs: dict[str, Spec]) -> list[Verdict]:
        verdicts = await self._work.complete(tx, done)
        ours = [d.lease for d, v in zip(done, verdicts, strict=True) if v is Verdict.OK]
        if ours:
            rows = [(specs[i.id].key, i.id, i.epoch, self._holder) for i in ours]
            await tx.rows("kill.effect", effects=rows)
            await self._bus.publish(tx, TOLD, [Message({"key": key}, id=key) for key, *_ in rows])
        return verdicts

    async def hear(self, tx: Tx, delivery: Delivery) -> None:
        await tx.rows("kill.told", key=delivery.body["key"])

    def _note_execution(self, spec: Spec, item: Claimed) -> None:
        at = time.monotonic()
        how = "fails" if _fails(spec, item) else "does"
        line = f"{spec.key} {item.id} {item.epoch} {self._holder} {at:.6f} {how}\n"
        os.write(self._effects, line.encode())
        self._recorder.note("execute", spec.key, item=item.id, epoch=item.epoch)


class Intake:
    """The part that asks without end, until it is told to be quiet."""

    name = "intake"

    def __init__(
        self,
        workload: Workload,
        *,
        slot: str,
        first: int,
        again: Sequence[str],
        lease_seconds: float,
        submitters: int,
        tickers: int,
    ) -> None:
        self._workload = workload
        self._slot = slot
        self._numbers = count(first)
        self._again = again
        self._lease_seconds = lease_seconds
        self._submitters = submitters
        self._tickers = tickers
        self._quiet = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        self._tasks = [asyncio.create_task(self._repeat(self._again))]
        self._tasks += [asyncio.create_task(self._submit()) for _ in range(self._submitters)]
        self._tasks += [asyncio.create_task(self._tick()) for _ in range(self._tickers)]
        if self._submitters:
            self._tasks.append(asyncio.create_task(self._read()))

    def ask_to_stop(self) -> None:
        self._quiet.set()

    async def stop(self, grace_seconds: float) -> None:
        self.ask_to_stop()
        await asyncio.wait(self._tasks, timeout=grace_seconds)

    async def _repeat(self, keys: Sequence[str]) -> None:
        """What an earlier life asked for and never heard about: ask again, under the same key."""
        for key in keys:
            await self._workload.submit(Spec.of(key, self._lease_seconds))

    async def _submit(self) -> None:
        while not self._quiet.is_set():
            await self._workload.submit(Spec.of(self._key(), self._lease_seconds))
            await asyncio.sleep(PAUSE_SECONDS)

    async def _tick(self) -> None:
        while not self._quiet.is_set():
            await self._workload.tick(self._key())
            await asyncio.sleep(PAUSE_SECONDS / 4)

    async def _read(self) -> None:
        while not self._quiet.is_set():
            await self._workload.read(self._key())
            await asyncio.sleep(5 * PAUSE_SECONDS)

    def _key(self) -> str:
        return f"{self._slot}-{next(self._numbers)}"


async def unfinished(tx: Tx) -> int:
    found: int = (await tx.rows("kill.unfinished"))[0].count
    return found


def _fails(spec: Spec, item: Claimed) -> bool:
    return spec.fails_first and item.attempts == 1


async def _after(seconds: float, then: Awaitable[None]) -> None:
    await asyncio.sleep(seconds)
    await then


def _told(error: PodiumError) -> dict[str, Any]:
    return {
        "code": error.code,
        "error": type(error).__name__,
        "cause": error.details.get("cause", ""),
        "message": str(error)[:300],
    }
