"""The smoke test: everything that needs more than one machine, and a few of them killed on the way."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import httpx

from podium.contracts.scopes import Scope
from podium.contracts.work import NewWork
from podium.sdk import Client, InvalidToken
from tests.fleet.processes import EVENTS, Fleet

WORK = "fleet-work"
ITEMS = 400
MESSAGES = 300
PER_CALL = 50
LEASE_SECONDS = 2.0
WAIT_SECONDS_MAX = 90.0
REVOKED_SECONDS_MAX = 5.0

Say = Callable[[str], None]


class Tally:
    """What the journal says through one server, for as long as it is followed."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self._changed = asyncio.Event()

    def hear(self, event: str, id: str) -> None:
        self.counts[event, id] += 1
        self._changed.set()

    def of(self, event: str) -> dict[str, int]:
        return {id: count for (said, id), count in self.counts.items() if said == event}

    async def until(self, event: str, least: int, say: Say) -> None:
        try:
            async with asyncio.timeout(WAIT_SECONDS_MAX):
                while len(self.of(event)) < least:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"{len(self.of(event))} of {least} {event}") from None
        say(f"{least} {event}")


async def smoke(fleet: Fleet, say: Say) -> None:
    began = time.monotonic()
    await fleet.migrate()
    one = await fleet.start_server("server-one")
    two = await fleet.start_server("server-two")
    await asyncio.gather(
        fleet.start_orchestrator("orchestrator-one"), fleet.start_orchestrator("orchestrator-two")
    )
    say(f"two servers and two orchestrators are up after {time.monotonic() - began:.1f} s")
    await tokens_are_shared(one, two, say)
    await blobs_are_shared(one, two, say)
    await work_is_done_once(fleet, one, two, say)
    await messages_are_handled_once(fleet, two, say)
    await nothing_is_broken(fleet, two, say)


async def tokens_are_shared(one: Client, two: Client, say: Say) -> None:
    made = await one.create_token("shared", [Scope.READ])
    async with _client(two.url, made.token) as there:
        await there.queues()
        await one.revoke_token(made.id)
        began = time.monotonic()
        while time.monotonic() - began < REVOKED_SECONDS_MAX:
            try:
                await there.queues()
            except InvalidToken:
                say(f"a token revoked here was dead there after {time.monotonic() - began:.2f} s")
                return
            await asyncio.sleep(0.05)
    raise AssertionError("a revoked token was still good after five seconds")


async def blobs_are_shared(one: Client, two: Client, say: Say) -> None:
    body = bytes(range(256)) * 4_096
    async with httpx.AsyncClient(trust_env=False) as http:
        put = await one.upload_link("fleet/one.bin")
        answer = await http.put(
            put.url, content=body, headers={"content-type": "application/x-test"}
        )
        assert answer.status_code == httpx.codes.CREATED, answer.text
        got = await http.get((await two.download_link("fleet/one.bin")).url)
        assert got.content == body
        assert got.headers["content-type"] == "application/x-test"
    say(
        f"{len(body):,} bytes put through one server came from the bucket through a link of the other"
    )


async def work_is_done_once(fleet: Fleet, one: Client, two: Client, say: Say) -> None:
    token = (await one.create_token("workers", [Scope.WORKER])).token
    async with following(two, "work") as tally:
        for start in range(0, ITEMS, PER_CALL):
            client = (one, two)[start // PER_CALL % 2]
            await client.enqueue([_item(n) for n in range(start, start + PER_CALL)])
        await fleet.start_worker("worker-one", at="server-one", token=token, queues=WORK)
        await fleet.start_worker("worker-two", at="server-two", token=token, queues=WORK)
        await tally.until("done", ITEMS // 4, say)
        for name in ("worker-one", "server-one", "orchestrator-one"):
            await fleet.kill(name)
        say("a worker, a server and an orchestrator were killed with -9")
        await fleet.start_server("server-one")
        await tally.until("done", ITEMS, say)
        assert set(tally.of("done").values()) == {1}, "an item was done twice"


async def messages_are_handled_once(fleet: Fleet, two: Client, say: Say) -> None:
    await fleet.start_listener("listener-one")
    await fleet.start_listener("listener-two")
    async with following(two, "fleet") as tally:
        sending = asyncio.create_task(_send(two))
        await tally.until("handled", MESSAGES // 4, say)
        fleet.ground.nats.kill()
        fleet.ground.nats.wipe()
        fleet.ground.nats.start()
        began = time.monotonic()
        say("NATS was killed, and its store wiped")
        sent = await sending
        await tally.until("handled", MESSAGES, say)
        say(f"which cost {time.monotonic() - began:.1f} s and no message")
        handled = tally.of("handled")
        assert set(handled.values()) == {1}, "a message was handled twice"
        assert set(handled) == set(sent)


async def nothing_is_broken(fleet: Fleet, two: Client, say: Say) -> None:
    violations = (await two.violations()).violations
    assert not any(violations.values()), violations
    dead = [queue for queue in (await two.queues()).queues if queue.counts.get("dead")]
    assert not dead, dead
    codes = await fleet.stop()
    assert set(codes.values()) == {0}, {n: (c, fleet.log(n)) for n, c in codes.items() if c}
    say(f"no broken promise, no dead letter; {len(codes)} processes ended well")


@asynccontextmanager
async def following(client: Client, kind: str) -> AsyncIterator[Tally]:
    tally = Tally()

    async def follow() -> None:
        async for line in client.events(kind=kind, after="0-0"):
            tally.hear(line.event, line.id)

    task = asyncio.create_task(follow())
    try:
        yield tally
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def _client(url: str, token: str) -> AsyncIterator[Client]:
    async with Client(url, token) as client:
        yield client


async def _send(client: Client) -> list[str]:
    """In small calls, so that the accident finds some sent and some not."""
    ids: list[str] = []
    for start in range(0, MESSAGES, 10):
        messages = [
            NewWork(queue=EVENTS, id=f"{EVENTS}//m{n}", payload={"n": n})
            for n in range(start, start + 10)
        ]
        await client.enqueue(messages)
        ids += [f"{EVENTS}//m{n}" for n in range(start, start + 10)]
        await asyncio.sleep(0.02)
    return ids


def _item(n: int) -> NewWork:
    return NewWork(
        queue=WORK,
        payload={"handler": "demo.count", "params": {"n": n}},
        lease_seconds=LEASE_SECONDS,
    )
