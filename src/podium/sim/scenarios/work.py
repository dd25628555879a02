"""The queue on a bad day, and the queue after an outage.

Clients submit items of many kinds, resend what was not answered and sometimes what was, cancel
some, and an operator replays dead letters. Engines sweep; workers of three kinds work.
"""

from __future__ import annotations

import asyncio
from typing import Any

from podium.kernel import idempotency
from podium.kernel.store import Tx
from podium.kernel.work import NewItem, Verdict, Work
from podium.sim.checkers import WorkChecker
from podium.sim.faults import NONE, Faults
from podium.sim.parts import Parts
from podium.sim.scenarios.scenario import Scenario
from podium.sim.scenarios.wishes import BACKOFF, PATIENT, QUEUES, Wish, draw_wish
from podium.sim.scenarios.workers import Effects, Worker, consume
from podium.sim.world import Process, Role, World

ITEMS = (10, 18)
OPERATOR_SECONDS = 90.0


class WorkScenario(Scenario):
    name = "work"

    def __init__(self, world: World, parts: Parts) -> None:
        super().__init__(world, parts)
        self.checker = WorkChecker(world)
        world.checkers.append(self.checker)
        self.effects: Effects = {}
        self.wishes = self.draw_wishes()

    def draw_wishes(self) -> list[Wish]:
        count = self.rng.randint(*ITEMS)
        return [draw_wish(n, self.rng, self.horizon_seconds) for n in range(count)]

    def roles(self) -> list[Role]:
        return [
            self.engine(self.rng.choice((2, 3))),
            Role("worker", lambda p: p.keep_ticking(Worker(p, "slow", self.effects)), 2),
            Role(
                "poller", lambda p: p.keep_ticking(Worker(p, "slow", self.effects, offers=True)), 1
            ),
            Role("consumer", lambda p: consume(p, "quick", self.effects), 2),
            Role("client", self._start_client, is_mortal=False),
            Role("operator", self._start_operator, is_mortal=False),
        ]

    # Clients ---------------------------------------------------------------------------------

    def _start_client(self, process: Process) -> None:
        for wish in self.wishes:
            process.spawn(self._submit(process, wish))

    async def _submit(self, process: Process, wish: Wish) -> None:
        await asyncio.sleep(wish.at_seconds)
        while True:
            id = await self.insist(process, self._enqueue, process.work, wish)
            if id not in self.checker.items:
                raise self.world.violate(
                    "acknowledged_is_stored", f"{id} was acknowledged and is nowhere"
                )
            if wish.is_acknowledged and wish.id != id:
                raise self.world.violate("one_item_per_key", f"{wish.key} is {wish.id} and {id}")
            if wish.cancel_at_seconds is not None and not wish.is_acknowledged:
                process.spawn(self._cancel(process, wish, wish.cancel_at_seconds))
            wish.id = id
            wish.is_acknowledged = True
            if process.rng.random() >= self.world.current_faults().resend:
                return
            await asyncio.sleep(process.rng.uniform(0, 60))

    async def _enqueue(self, tx: Tx, work: Work, wish: Wish) -> str:
        """Under its own id, or under a key that remembers the id it got."""

        async def enqueue() -> str:
            [answer] = await work.enqueue(tx, [wish.item])
            return answer.id

        if wish.key is None:
            return await enqueue()
        return str(await idempotency.once(tx, key=wish.key, body=b"{}", do=enqueue))

    async def _cancel(self, process: Process, wish: Wish, at_seconds: float) -> None:
        await asyncio.sleep(max(0.0, at_seconds - self.world.loop.time()))
        [wish.cancel_answer] = await self.insist(
            process, process.work.cancel, [wish.id], reason="changed my mind"
        )

    def _start_operator(self, process: Process) -> None:
        process.spawn(self._replay(process))

    async def _replay(self, process: Process) -> None:
        """Every dead letter that deserves it gets one more try."""
        replayed: set[str] = set()
        while self.world.has_faults:
            await asyncio.sleep(OPERATOR_SECONDS)
            wanted = {wish.id for wish in self.wishes if wish.is_replayed} - replayed
            for queue in QUEUES:
                letters = await self.insist(process, process.work.dead_letters, queue=queue)
                ids = [letter.id for letter in letters if letter.id in wanted]
                if ids:
                    await self.insist(process, process.work.replay, ids, actor="operator")
                    replayed |= set(ids)

    # The end ---------------------------------------------------------------------------------

    def left(self) -> str:
        waiting = sum(not wish.is_answered for wish in self.wishes)
        if waiting:
            return f"{waiting} wishes are not answered"
        if self.checker.live_count:
            live = [
                f"{id} is {item.live.state}" for id, item in self.checker.items.items() if item.live
            ]
            return ", ".join(live)
        return ""

    def finish(self) -> None:
        if self.checker.items.keys() != {wish.id for wish in self.wishes}:
            raise self.world.violate("one_item_per_key", "other items than were submitted")
        for wish in self.wishes:
            self._judge(wish, self.checker.items[wish.id].finished)

    def _judge(self, wish: Wish, end: Any) -> None:
        state, reason = end.state, end.reason
        text = f"{wish.key or wish.id} ended {state}, {reason}"
        ends = wish.ends
        if self.world.faults.database_clock_every_seconds:
            ends += wish.ends_when_clock_jumps
        if state not in ends or (state == "dead" and reason not in wish.reasons):
            raise self.world.violate("dead_letters_are_the_poisoned", text)
        self.judge_effect(wish.id, end, self.effects.get(wish.id, []))
        answer = wish.cancel_answer
        if answer in (Verdict.OK, Verdict.CANCELLED) and state != "cancelled":
            raise self.world.violate("cancelled_stays_cancelled", text)
        if answer is Verdict.DONE and state != "done":
            raise self.world.violate("ends_once", f"{text}; its canceller was told {answer}")


class OutageScenario(WorkScenario):
    """All workers are away for a while. Then the backlog drains, and hardly anything runs twice."""

    name = "outage"
    items_count = 24
    outage_at_seconds = 100.0

    def draw_wishes(self) -> list[Wish]:
        self.running_count = 0
        return [
            Wish(
                NewItem(
                    queue=self.rng.choice(QUEUES),
                    payload={"seconds": self.rng.choice((0.1, 1.0, 30.0, 80.0)), "fails": 0},
                    id=f"item-{n}",
                    attempts_max=PATIENT,
                    retry=BACKOFF,
                ),
                self.rng.uniform(0, 300),
            )
            for n in range(self.items_count)
        ]

    @staticmethod
    def limit(faults: Faults) -> Faults:
        return NONE

    async def prepare(self) -> None:
        loop = self.world.loop
        loop.create_task(self._strike(), context=loop.outside)

    async def _strike(self) -> None:
        await asyncio.sleep(self.outage_at_seconds)
        victims = [
            p for p in self.world.processes if p.role.name in ("worker", "poller", "consumer")
        ]
        self.running_count = sum(
            item.live is not None and item.live.state == "running"
            for item in self.checker.items.values()
        )
        seconds = self.world.rngs["nemesis"].choice((30.0, 120.0, 600.0))
        for process in victims:
            self.world.kill(process)
            self.world.loop.later(seconds, self.world.boot, process.role)

    def finish(self) -> None:
        super().finish()
        starts = sum(item.starts for item in self.checker.items.values())
        most = 1.05 * self.items_count + self.running_count
        if starts > most:
            raise self.world.violate(
                "executions_are_bounded",
                f"{starts} starts of {self.items_count} items, at most {most}",
            )
