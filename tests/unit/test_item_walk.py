"""Random walks of real items in the real store, beside a model that knows only the rules.

Whatever is asked of an item, in whatever order and at whatever time: its state moves only along the
table, its epoch only grows, its attempts stay within the limit, and only the holder that the model
names gets OK.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field

import pytest

from podium.kernel.retry import RetryPolicy
from podium.kernel.work import ITEM, Claimed, State, Verdict
from podium.testing.desk import Desk, item
from tests.worlds import sqlite_world

ATTEMPTS_MAX = 3
LEASE_SECONDS = 10.0
TTL_SECONDS = 300.0
STEPS = 120


@dataclass
class Model:
    """What must be true of one item, kept without SQL."""

    state: State | None = None
    epoch: int = 0
    attempts: int = 0
    lease_until: float = 0.0
    grants: list[Claimed] = field(default_factory=list)

    def is_held_by(self, grant: Claimed, now: float) -> bool:
        return (
            self.state in (State.LEASED, State.RUNNING)
            and grant.epoch == self.epoch
            and now < self.lease_until
        )


class Walk:
    def __init__(self, desk: Desk, rng: random.Random) -> None:
        self.desk = desk
        self.rng = rng
        self.now = 0.0
        self.models = {id: Model() for id in ("a", "b")}

    def some(self) -> tuple[str, Model]:
        id = self.rng.choice(sorted(self.models))
        return id, self.models[id]

    def some_grant(self) -> tuple[Model, Claimed] | None:
        """Usually the newest one; sometimes one from long ago."""
        _, model = self.some()
        if not model.grants:
            return None
        stale = self.rng.random() < 0.3
        return model, self.rng.choice(model.grants) if stale else model.grants[-1]

    async def enqueue(self) -> None:
        id, model = self.some()
        delay = self.rng.choice([0.0, 5.0])
        new = item(
            id,
            delay_seconds=delay,
            attempts_max=ATTEMPTS_MAX,
            lease_seconds=LEASE_SECONDS,
            ttl_seconds=TTL_SECONDS,
            retry=RetryPolicy(base_seconds=self.rng.choice([0.0, 3.0])),
        )
        (answer,) = await self.desk.enqueue(new)
        assert answer.created == (model.state is None)
        if answer.created:
            model.state = State.SCHEDULED if delay else State.READY

    async def claim(self) -> None:
        start = self.rng.random() < 0.5
        for grant in await self.desk.claim(self.rng.randint(1, 2), start=start):
            self.granted(grant, start)

    async def claim_ids(self) -> None:
        id, model = self.some()
        start = self.rng.random() < 0.5
        for grant in await self.desk.claim_ids(id, start=start):
            assert model.state in (State.READY, State.OFFERED)
            self.granted(grant, start)

    def granted(self, grant: Claimed, start: bool) -> None:
        model = self.models[grant.id]
        assert grant.epoch == model.epoch + 1, "the epoch grows by one with each grant"
        assert grant.attempts == model.attempts + start
        model.epoch, model.attempts = grant.epoch, grant.attempts
        model.state = State.RUNNING if start else State.LEASED
        model.lease_until = self.now + LEASE_SECONDS
        model.grants.append(grant)

    async def offer(self) -> None:
        for offered in await self.desk.offer():
            self.models[offered.id].state = State.OFFERED

    async def start(self) -> None:
        if found := self.some_grant():
            model, grant = found
            may = model.is_held_by(grant, self.now) and model.state is State.LEASED
            assert (await self.desk.start(grant) == [Verdict.OK]) == may
            if may:
                model.state, model.attempts = State.RUNNING, model.attempts + 1
                model.lease_until = self.now + LEASE_SECONDS

    async def renew(self) -> None:
        if found := self.some_grant():
            model, grant = found
            may = model.is_held_by(grant, self.now)
            assert ((await self.desk.renew(grant))[0].verdict == Verdict.OK) == may
            if may:
                model.lease_until = self.now + LEASE_SECONDS

    async def complete(self) -> None:
        if found := self.some_grant():
            model, grant = found
            may = model.is_held_by(grant, self.now) and model.state is State.RUNNING
            assert (await self.desk.complete(grant) == [Verdict.OK]) == may
            if may:
                model.state = State.DONE

    async def fail(self) -> None:
        if found := self.some_grant():
            model, grant = found
            retryable = self.rng.random() < 0.8
            may = model.is_held_by(grant, self.now)
            verdicts = await self.desk.fail(grant, retryable=retryable)
            assert (verdicts == [Verdict.OK]) == may
            if may:
                used = model.attempts + (model.state is State.LEASED)
                over = not retryable or used >= ATTEMPTS_MAX
                after = State(str(await self.desk.state(grant.id)))
                assert after in ([State.DEAD] if over else [State.READY, State.SCHEDULED])
                model.state = after
                model.attempts = model.attempts if over else used

    async def release(self) -> None:
        if found := self.some_grant():
            model, grant = found
            may = model.is_held_by(grant, self.now)
            assert (await self.desk.release(grant) == [Verdict.OK]) == may
            if may:
                model.attempts -= model.state is State.RUNNING
                model.state = State.READY

    async def cancel(self) -> None:
        id, model = self.some()
        may = model.state not in (None, State.DONE, State.DEAD, State.CANCELLED)
        assert (await self.desk.cancel(id) == [Verdict.OK]) == may
        if may:
            model.state = State.CANCELLED

    async def replay(self) -> None:
        id, model = self.some()
        assert await self.desk.replay(id) == [model.state is State.DEAD]
        if model.state is State.DEAD:
            model.state, model.attempts = State.READY, 0

    async def sweep(self) -> None:
        before = {id: model.state for id, model in self.models.items()}
        await self.desk.sweep()
        for id, model in self.models.items():
            after = await self.desk.state(id)
            model.state = None if after is None else State(after)
            if model.state != before[id]:
                held = before[id] in (State.LEASED, State.RUNNING)
                assert not held or self.now >= model.lease_until, "robbed of a live lease"

    async def check(self, before: dict[str, State | None]) -> None:
        for id, model in self.models.items():
            state = await self.desk.state(id)
            assert state == model.state
            if state in (None, before[id]):
                continue
            row = await (
                self.desk.finished(id)
                if state in (State.DONE, State.DEAD, State.CANCELLED)
                else self.desk.live(id)
            )
            assert row.epoch == model.epoch
            assert 0 <= row.attempts <= ATTEMPTS_MAX
            assert row.attempts == model.attempts


OPERATIONS = [
    "enqueue", "claim", "claim_ids", "offer", "start", "start", "renew", "complete",
    "fail", "fail", "release", "sweep", "sweep", "advance", "advance",
]  # fmt: skip
RARE = ["cancel", "replay"]


def reachable(before: State | None, after: State | None, steps: int) -> bool:
    """Along the table, in at most `steps` moves: a sweep may promote and then bury."""
    found = set(ITEM.start) if before is None else {before}
    if before is None and after is None:
        return True
    seen = set(found)
    for _ in range(steps):
        seen |= {state for state in ITEM.states if any(ITEM.allows(f, state) for f in seen)}
    return after in seen


@pytest.mark.parametrize("seed", range(25))
def test_no_walk_of_a_real_item_leaves_the_table(seed: int) -> None:
    async def run() -> None:
        rng = random.Random(seed)
        async with sqlite_world(":memory:") as world:
            walk = Walk(world.desk(), rng)
            for _ in range(STEPS):
                name = rng.choice(RARE if rng.random() < 0.05 else OPERATIONS)
                before = {id: model.state for id, model in walk.models.items()}
                if name == "advance":
                    seconds = rng.choice([0.5, 2.0, 6.0, 11.0, 400.0])
                    await world.advance(seconds)
                    walk.now += seconds
                else:
                    await getattr(walk, name)()
                await walk.check(before)
                for id, model in walk.models.items():
                    steps = 2 if name == "sweep" else 1
                    assert reachable(before[id], model.state, steps), (name, before[id], model)

    asyncio.run(run())
