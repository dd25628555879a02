"""An owner of runs: takes them, keeps them in memory, writes in batches through the gate.

Memory is a cache. A batch that fails, or whose outcome is not known, evicts its runs; the next
heartbeat says which of them are still owned here, and they are loaded again.
"""

from __future__ import annotations

from dataclasses import dataclass

from podium.kernel import journal
from podium.kernel.errors import Unavailable
from podium.kernel.ownership import Owned, Ownership
from podium.kernel.store import Tx
from podium.kernel.work import NewItem
from podium.sim.scenarios.scenario import SAFETY_POLL_SECONDS
from podium.sim.world import Process

HEARTBEAT_SECONDS = 30.0
RUNS_PER_TAKE = 3
PATIENT = 200
MOVED = "moved"
"""The owner's own bell: something in its memory can move."""


@dataclass(slots=True)
class Run:
    id: str
    epoch: int
    steps_count: int
    begun_count: int
    done_count: int
    is_cancelled: bool
    is_being_written: bool = False

    @property
    def owned(self) -> Owned:
        return Owned(self.id, self.epoch)

    @property
    def step(self) -> str:
        """The id of the step that is under way, and of its work item."""
        return f"{self.id}/{self.begun_count}"

    @property
    def waits(self) -> bool:
        return self.begun_count > self.done_count and not self.is_cancelled


@dataclass(frozen=True, slots=True)
class Progress:
    """What one batch does to one run."""

    run: Run
    step_done: str | None = None
    dispatch: int | None = None
    close: str | None = None


class Owner:
    def __init__(self, process: Process, ownership: Ownership, queue: str) -> None:
        self.runs: dict[str, Run] = {}
        self._process = process
        self._store = process.store
        self._work = process.work
        self._rng = process.rng
        self._ownership = ownership
        self._queue = queue

    def begin(self) -> None:
        for service in (Taker(self), Driver(self), Heart(self)):
            self._process.keep_ticking(service)

    # Having ----------------------------------------------------------------------------------

    async def take(self) -> None:
        self._remember(await self._store.write(self._take))

    async def _take(self, tx: Tx) -> list[Run]:
        owned = await self._ownership.take(tx, owner=self._process.name, n=RUNS_PER_TAKE)
        return await self._load(tx, [run.id for run in owned])

    async def heartbeat(self) -> None:
        owned = await self._store.write(self._ownership.heartbeat, owner=self._process.name)
        epochs = {run.id: run.epoch for run in owned}
        for id in [id for id, run in self.runs.items() if epochs.get(id) != run.epoch]:
            del self.runs[id]
        missing = [run for run in owned if run.id not in self.runs]
        if missing:
            self._remember(await self._store.write(self._reload, missing))

    async def _reload(self, tx: Tx, owned: list[Owned]) -> list[Run]:
        still = await self._ownership.gate(tx, owned, owner=self._process.name)
        return await self._load(tx, sorted(still))

    async def _load(self, tx: Tx, ids: list[str]) -> list[Run]:
        rows = await tx.rows("runs.load", ids=[(id,) for id in ids])
        return [Run(*row) for row in rows]

    def _remember(self, runs: list[Run]) -> None:
        for run in runs:
            known = self.runs.get(run.id)
            if known is None or known.epoch < run.epoch:
                self.runs[run.id] = run
        if runs:
            self._store.bell.ring(MOVED)

    # Moving ----------------------------------------------------------------------------------

    async def drive(self) -> None:
        """Look at the results, decide, and write what moved, without waiting for the answer."""
        waiting = [r.step for r in self.runs.values() if r.waits and not r.is_being_written]
        rows = await self._store.read(self._work.finished, waiting) if waiting else []
        done = {row.id for row in rows if row.state == "done"}
        idle = [run for run in self.runs.values() if not run.is_being_written]
        batch = [progress for run in idle if (progress := decide(run, done)) is not None]
        if batch:
            for progress in batch:
                progress.run.is_being_written = True
            self._process.spawn(self._write(batch))
        elif idle and self._rng.random() < 0.1:
            await self._let_go(self._rng.choice(idle))

    async def _write(self, batch: list[Progress]) -> None:
        owned = [progress.run.owned for progress in batch]
        try:
            passed = await self._store.write(self._apply, owned, batch)
        except Unavailable:
            passed = set()
        for progress in batch:
            run = progress.run
            run.is_being_written = False
            if run.id not in passed or progress.close:
                self._evict(run)
            elif progress.step_done:
                run.done_count += 1
            if progress.dispatch:
                run.begun_count = progress.dispatch
        self._store.bell.ring(MOVED)

    async def _apply(self, tx: Tx, owned: list[Owned], batch: list[Progress]) -> set[str]:
        passed = await self._ownership.gate(tx, owned, owner=self._process.name)
        mine = [progress for progress in batch if progress.run.id in passed]
        await tx.rows("runs.step_done", ids=[(p.step_done,) for p in mine if p.step_done])
        for progress in mine:
            await self._apply_one(tx, progress)
        return passed

    async def _apply_one(self, tx: Tx, progress: Progress) -> None:
        run = progress.run
        if progress.dispatch:
            step = f"{run.id}/{progress.dispatch}"
            await tx.rows("runs.dispatch", steps=[(step, run.id, progress.dispatch)])
            seconds = self._rng.choice((0.1, 1.0, 10.0, 40.0))
            item = NewItem(
                queue=self._queue,
                id=step,
                parent=run.id,
                payload={"seconds": seconds, "fails": 0},
                attempts_max=PATIENT,
                delay_seconds=self._rng.choice((0.0, 0.0, 5.0, 30.0)),
            )
            await self._work.enqueue(tx, [item])
        if progress.close:
            await self._work.cancel_children(tx, run.id, reason="the run is over")
            await tx.rows("runs.close", ids=[(run.id,)], state=progress.close)

    async def _let_go(self, run: Run) -> None:
        """Nothing will move in it for a while: nobody needs to own it."""
        self._evict(run)
        await self._store.write(self._release, [run.owned], self._rng.choice((20.0, 60.0)))

    async def _release(self, tx: Tx, owned: list[Owned], seconds: float) -> None:
        await self._ownership.release(
            tx, [(run, seconds) for run in owned], owner=self._process.name
        )

    def _evict(self, run: Run) -> None:
        if self.runs.get(run.id) is run:
            del self.runs[run.id]


def decide(run: Run, done: set[str]) -> Progress | None:
    """The next thing for this run, if anything can move."""
    if run.is_cancelled:
        return Progress(run, close="cancelled")
    if run.waits and run.step not in done:
        return None
    finished = run.step if run.waits else None
    if run.begun_count == run.steps_count:
        return Progress(run, step_done=finished, close="completed")
    return Progress(run, step_done=finished, dispatch=run.begun_count + 1)


class Taker:
    name = "taker"
    pause_seconds_max = SAFETY_POLL_SECONDS

    def __init__(self, owner: Owner) -> None:
        self.channels: tuple[str, ...] = (owner._ownership.channel,)
        self._owner = owner

    async def tick(self) -> float | None:
        await self._owner.take()
        return None


class Driver:
    name = "driver"
    channels: tuple[str, ...] = (journal.CHANNEL, MOVED)
    pause_seconds_max = SAFETY_POLL_SECONDS

    def __init__(self, owner: Owner) -> None:
        self._owner = owner

    async def tick(self) -> float | None:
        await self._owner.drive()
        return None


class Heart:
    name = "heart"
    channels: tuple[str, ...] = ()
    pause_seconds_max = HEARTBEAT_SECONDS

    def __init__(self, owner: Owner) -> None:
        self._owner = owner

    async def tick(self) -> float | None:
        await self._owner.heartbeat()
        return None
