"""The first act: a thousand items, two workers, one of them killed; and an item that cannot be done.

Every number is counted from the journal, which is followed from before the first item.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

from podium.cli.demo.show import Bar, Seen, Show
from podium.cli.demo.stage import Stage
from podium.cli.refusals import Refusal
from podium.contracts.work import JournalLine, NewWork

TITLE = "Work: leased items, a worker killed, a dead letter"
QUEUE = "demo"
HANDLERS = "podium.handlers.demo"
PER_CALL = 250
LEASE_SECONDS = 2.0
WAIT_SECONDS_MAX = 90.0


class Tally:
    """What the journal said, by item and event."""

    def __init__(self) -> None:
        self.done: Counter[str] = Counter()
        self.retried: Counter[str] = Counter()
        self.dead: Counter[str] = Counter()
        self._changed = asyncio.Event()

    def hear(self, line: JournalLine) -> None:
        if line.event == "done":
            self.done[line.id] += 1
        elif line.event == "dead":
            self.dead[line.id] += 1
        elif line.event == "retried":
            self.retried[line.id] += 1
        self._changed.set()

    async def until(self, is_so: Callable[[], bool], what: str) -> None:
        try:
            async with asyncio.timeout(WAIT_SECONDS_MAX):
                while not is_so():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise Refusal(f"the demo waited {WAIT_SECONDS_MAX:g} s in vain for {what}") from None


async def play(stage: Stage, show: Show, items: int) -> list[Seen]:
    tally = Tally()
    following = asyncio.create_task(_follow(stage, tally))
    try:
        return [
            *await _thousand(stage, show, tally, items),
            *await _poison(stage, show, tally),
            await _promises(stage),
        ]
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


async def _follow(stage: Stage, tally: Tally) -> None:
    async for line in stage.client.events(kind="work", after="0-0"):
        tally.hear(line)


async def _thousand(stage: Stage, show: Show, tally: Tally, items: int) -> list[Seen]:
    with show.bar("enqueued", items) as bar:
        for start in range(0, items, PER_CALL):
            numbers = range(start, min(start + PER_CALL, items))
            await stage.client.enqueue([_item(n) for n in numbers])
            bar.to(numbers.stop)
    with show.bar("done", items) as bar:
        await _start(stage, show, "worker A")
        # It is at work, with more in its hands, before the other one comes.
        await tally.until(lambda: _shown(bar, tally) >= items // 10, "worker A")
        await _start(stage, show, "worker B")
        await tally.until(lambda: _shown(bar, tally) >= items // 3, f"{items // 3} items")
        await stage.kill("worker A")
        show.say("worker A was killed with -9; what it held comes back when its leases end")
        await tally.until(lambda: _shown(bar, tally) >= items, f"{items} items")
    # Nothing fails here: who is tried again was held by the worker that died.
    lost, twice = len(tally.retried), sum(count > 1 for count in tally.done.values())
    show.say(f"worker B took over {lost} items of worker A")
    return [
        Seen("items enqueued and done", f"{items} and {len(tally.done)}", len(tally.done) == items),
        Seen("done twice", str(twice), twice == 0),
        Seen("taken over from the killed worker", str(lost)),
    ]


async def _start(stage: Stage, show: Show, name: str) -> None:
    pid = await stage.start_worker(name, queues=QUEUE, handlers=HANDLERS)
    show.say(f"{name} is process {pid}")


async def _poison(stage: Stage, show: Show, tally: Tally) -> list[Seen]:
    cure = stage.folder / "cure"
    params = {"until_exists": str(cure)}
    enqueued = await stage.client.enqueue(
        [
            NewWork(
                queue=QUEUE,
                payload={"handler": "demo.poison", "params": params},
                attempts_max=2,
                lease_seconds=LEASE_SECONDS,
            )
        ]
    )
    id = enqueued.items[0].id
    show.say(f"item {id} cannot be done")
    await tally.until(lambda: tally.dead[id] > 0, "the dead letter")
    letters = await stage.client.dead_letters(QUEUE)
    for letter in letters.items:
        show.say(f"dead letter: {letter.id}, {letter.attempts} attempts, {letter.error}")
    await _explain(stage, show, id)
    cure.touch()
    show.say("the cause is mended; the dead letter is replayed")
    await stage.client.replay([id])
    await tally.until(lambda: tally.done[id] > 0, "the replayed item")
    await _explain(stage, show, id)
    for line in (await stage.client.journal("work", id)).lines:
        show.say(f"journal: {line.at:%H:%M:%S} {line.event} {line.reason or ''}".rstrip())
    is_one = [letter.id for letter in letters.items] == [id]
    return [
        Seen("dead letters", str(len(letters.items)), is_one),
        Seen("replayed and done", str(tally.done[id]), tally.done[id] == 1),
    ]


async def _promises(stage: Stage) -> Seen:
    violations = (await stage.client.violations()).violations
    return Seen(
        "podium_audit_violations", str(sum(violations.values())), not any(violations.values())
    )


async def _explain(stage: Stage, show: Show, id: str) -> None:
    why = await stage.client.why("work", id)
    show.say(f"why: {why.text}; next: {why.next}")


def _item(n: int) -> NewWork:
    return NewWork(
        queue=QUEUE,
        payload={"handler": "demo.count", "params": {"n": n}},
        lease_seconds=LEASE_SECONDS,
    )


def _shown(bar: Bar, tally: Tally) -> int:
    bar.to(len(tally.done))
    return len(tally.done)
