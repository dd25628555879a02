"""Runs with competing owners, and intruders who cancel them.

Owners die, are paused and wake up believing that they still own; a cancel takes the run over,
leaves its command and withdraws what was not begun, in one transaction.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from podium.engine.auditor import WORK_CHECKS, Check
from podium.kernel.ownership import OwnedTable, Ownership
from podium.kernel.store import Tx
from podium.kernel.work import Work
from podium.sim.checkers import OwnershipChecker, WorkChecker
from podium.sim.parts import Parts
from podium.sim.scenarios.owner import Owner
from podium.sim.scenarios.scenario import Scenario
from podium.sim.scenarios.workers import Effects, consume
from podium.sim.world import Process, Role, World

STEPS = "steps"
RUNS = (4, 7)


@dataclass(slots=True)
class Request:
    id: str
    steps_count: int
    at_seconds: float
    cancel_at_seconds: float | None
    is_acknowledged: bool = False
    is_cancelled: bool | None = None
    """What the canceller was told; None while it waits, or if nobody wants it."""


class OwnershipScenario(Scenario):
    name = "ownership"

    def __init__(self, world: World, parts: Parts) -> None:
        super().__init__(world, parts)
        self.work = WorkChecker(world)
        self.checker = OwnershipChecker(world)
        world.checkers += [self.work, self.checker]
        self.ownership = Ownership(world.store.queries, OwnedTable("runs"))
        self.effects: Effects = {}
        self.requests = [self._draw(n) for n in range(self.rng.randint(*RUNS))]

    def _draw(self, n: int) -> Request:
        at_seconds = self.rng.uniform(0, self.horizon_seconds * 0.4)
        cancels = self.rng.random() < 0.4
        return Request(
            f"run-{n}",
            self.rng.randint(1, 4),
            at_seconds,
            at_seconds + self.rng.uniform(0, 100) if cancels else None,
        )

    def roles(self) -> list[Role]:
        return [
            self.engine(2),
            Role("owner", lambda p: Owner(p, self.ownership, STEPS).begin(), 3),
            Role("consumer", lambda p: consume(p, STEPS, self.effects), 2),
            Role("client", self._start_client, is_mortal=False),
        ]

    def _start_client(self, process: Process) -> None:
        for request in self.requests:
            process.spawn(self._submit(process, request))

    async def _submit(self, process: Process, request: Request) -> None:
        await asyncio.sleep(request.at_seconds)
        await self.insist(process, self._add, request)
        if request.id not in self.checker.runs:
            raise self.world.violate("acknowledged_is_stored", f"{request.id} is nowhere")
        request.is_acknowledged = True
        if request.cancel_at_seconds is not None:
            await asyncio.sleep(max(0.0, request.cancel_at_seconds - self.world.loop.time()))
            request.is_cancelled = await self.insist(
                process, self._cancel, request.id, process.work
            )

    async def _add(self, tx: Tx, request: Request) -> None:
        await tx.rows("runs.add", id=request.id, steps_count=request.steps_count)
        tx.ring(self.ownership.channel)

    async def _cancel(self, tx: Tx, id: str, work: Work) -> bool:
        """True when it is taken over and will be cancelled; False when it was over before."""
        if not await self.ownership.takeover(tx, [id]):
            return False
        await tx.rows("runs.command", run_id=id, name="cancel")
        await work.cancel_children(tx, id, reason="cancelled", unstarted_only=True)
        return True

    # The end ---------------------------------------------------------------------------------

    def left(self) -> str:
        waiting = [
            request.id
            for request in self.requests
            if not request.is_acknowledged
            or (request.cancel_at_seconds is not None and request.is_cancelled is None)
        ]
        if waiting:
            return f"not answered: {', '.join(waiting)}"
        if self.checker.live_count or self.work.live_count:
            runs = [id for id, run in self.checker.runs.items() if run.row.wake_at is not None]
            items = [f"{id} is {i.live.state}" for id, i in self.work.items.items() if i.live]
            return ", ".join(runs + items)
        return ""

    def finish(self) -> None:
        for id, item in self.work.items.items():
            self.judge_effect(id, item.finished, self.effects.get(id, []))
        for request in self.requests:
            state = self.checker.runs[request.id].row.state
            if request.is_cancelled and state != "cancelled":
                raise self.world.violate(
                    "cancelled_stays_cancelled", f"{request.id} was cancelled and is {state}"
                )
            if request.cancel_at_seconds is None and state != "completed":
                raise self.world.violate("everything_ends", f"{request.id} ended {state}")

    def audit_checks(self) -> tuple[Check, ...]:
        overdue = Check("runs_overdue", "ownership_runs.audit_overdue", {"grace_seconds": 60.0})
        return (*WORK_CHECKS, overdue)
