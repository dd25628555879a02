"""A file that is locked, held, read-only, full, damaged, or on a disk that fails.

P4: what cannot be stored is not acknowledged, and service resumes by itself.
"""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from podium.backends.sqlite import SQLiteStore
from podium.contracts.errors import Code
from podium.kernel.clock import ManualClock, SystemClock
from podium.kernel.errors import StoreHeld, Unavailable
from podium.kernel.migrate import SQL
from podium.kernel.queries import SQLITE, Queries
from podium.kernel.store import Tx
from tests.conformance.disk import Disk, disk

DEADLINE_SECONDS = 10.0


class Notes:
    def __init__(self, store: SQLiteStore, clock: Any) -> None:
        self.store = store
        self.clock = clock
        store.queries.add("notes.add", "insert into notes (id, text) values (:id, :text)")
        store.queries.add("notes.all", "select id from notes order by id")

    async def add_body(self, tx: Tx, id: str, size: int) -> str:
        await tx.rows("notes.add", id=id, text="x" * size)
        tx.ring("notes")
        return id

    async def add(self, id: str, size: int = 1) -> str:
        return await self.store.write(self.add_body, id, size)

    async def ids(self) -> list[str]:
        return [row.id for row in await self.store.read(all_notes)]

    @property
    def writer(self) -> apsw.Connection:
        writer = self.store._writer
        assert writer is not None
        return writer


async def all_notes(tx: Tx) -> list[Any]:
    return await tx.rows("notes.all")


async def make_table(tx: Tx) -> None:
    await tx.script("create table if not exists notes (id text primary key, text text)")


@asynccontextmanager
async def notes_in(path: Path, clock: Any = None) -> AsyncIterator[Notes]:
    clock = clock or SystemClock()
    store = SQLiteStore(path, clock=clock, queries=Queries(SQLITE, [SQL]))
    await store.open()
    try:
        await store.write(make_table)
        yield Notes(store, clock)
    finally:
        await store.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "podium.db"


@pytest.fixture
async def notes(path: Path) -> AsyncIterator[Notes]:
    async with notes_in(path, ManualClock()) as notes:
        yield notes


def stored(path: Path) -> list[str]:
    """What a program that comes later finds in the file."""
    with closing(apsw.Connection(str(path))) as db:
        return [id for (id,) in db.execute("select id from notes order by id")]


class TestOneEnginePerFile:
    async def test_a_second_store_is_refused_and_told_who_has_it(self, path: Path) -> None:
        holder = subprocess.Popen(
            [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == b"open\n"
            with pytest.raises(StoreHeld, match=f"process {holder.pid} on ") as refused:
                async with notes_in(path):
                    pass
            assert refused.value.code == Code.SERVICE_UNAVAILABLE
        finally:
            holder.kill()
            holder.communicate()
        async with notes_in(path) as notes:
            assert await notes.ids() == [], "the lock went with the process, also on kill -9"

    async def test_a_store_that_was_closed_lets_the_next_one_in(self, path: Path) -> None:
        async with notes_in(path) as first:
            await first.add("a")
            with pytest.raises(StoreHeld):
                async with notes_in(path):
                    pass
        async with notes_in(path) as second:
            assert await second.ids() == ["a"]

    async def test_a_second_store_is_refused_by_whatever_name_it_comes(self, path: Path) -> None:
        link = path.with_name("link.db")
        link.symlink_to(path)
        async with notes_in(path):
            with pytest.raises(StoreHeld):
                async with notes_in(link):
                    pass

    async def test_a_lock_that_has_no_room_for_a_name_holds_all_the_same(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(descriptor: int, data: bytes) -> int:
            raise OSError(errno.ENOSPC, "no space left on device")

        monkeypatch.setattr(os, "write", full)
        async with notes_in(path) as first:
            with pytest.raises(StoreHeld):
                async with notes_in(path):
                    pass
            await first.add("a")
        async with notes_in(path) as second:
            assert await second.ids() == ["a"]

    async def test_a_closed_store_takes_nothing(self, path: Path) -> None:
        async with notes_in(path) as notes:
            pass
        with pytest.raises(Unavailable):
            await notes.add("a")
        with pytest.raises(Unavailable):
            await notes.ids()


class TestALockedFile:
    @pytest.fixture
    def intruder(self, path: Path, notes: Notes) -> Iterator[apsw.Connection]:
        with closing(apsw.Connection(str(path))) as db:
            db.execute("begin immediate")
            yield db

    async def test_writes_wait_without_holding_up_the_loop(
        self, notes: Notes, intruder: apsw.Connection
    ) -> None:
        writes = [asyncio.create_task(notes.add(str(n))) for n in range(3)]
        turns = 0
        for _ in range(20):
            await asyncio.sleep(0.005)
            turns += 1
        assert turns == 20
        assert await notes.ids() == [], "reads go on meanwhile"
        assert not any(write.done() for write in writes)
        intruder.execute("rollback")
        async with asyncio.timeout(DEADLINE_SECONDS):
            assert await asyncio.gather(*writes) == ["0", "1", "2"]

    async def test_writes_are_refused_after_five_seconds_and_later_ones_are_not(
        self, notes: Notes, intruder: apsw.Connection
    ) -> None:
        early = asyncio.create_task(notes.add("early"))
        await asyncio.sleep(0.03)
        assert isinstance(notes.clock, ManualClock)
        notes.clock.advance(4)
        late = asyncio.create_task(notes.add("late"))
        await asyncio.sleep(0.03)
        assert not early.done()
        notes.clock.advance(1.5)
        with pytest.raises(Unavailable) as refused:
            async with asyncio.timeout(DEADLINE_SECONDS):
                await early
        assert refused.value.code == Code.SERVICE_UNAVAILABLE
        assert refused.value.details["cause"] == "BusyError"
        assert not late.done()
        intruder.execute("rollback")
        async with asyncio.timeout(DEADLINE_SECONDS):
            assert await late == "late"
        assert await notes.ids() == ["late"]


class TestAFileThatCannotBeUsed:
    async def test_a_file_that_is_no_database_is_refused(self, path: Path) -> None:
        path.write_bytes(b"a letter to my aunt, and long enough to be looked at. " * 100)
        with pytest.raises(Unavailable, match="not a database"):
            async with notes_in(path):
                pass
        path.unlink()
        async with notes_in(path):
            pass

    async def test_a_folder_that_is_not_there_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(Unavailable):
            async with notes_in(tmp_path / "nowhere" / "podium.db"):
                pass

    async def test_a_folder_in_place_of_the_file_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "podium.db").mkdir()
        with pytest.raises(Unavailable):
            async with notes_in(tmp_path / "podium.db"):
                pass

    async def test_a_store_that_could_not_be_opened_can_be_opened_later(self, path: Path) -> None:
        path.mkdir()
        store = SQLiteStore(path, clock=SystemClock(), queries=Queries(SQLITE, [SQL]))
        with pytest.raises(Unavailable):
            await store.open()
        path.rmdir()
        await store.open()
        try:
            await store.write(make_table)
            notes = Notes(store, SystemClock())
            assert await notes.add("a") == "a"
            assert len(await store.read_long(all_notes)) == 1, "in a thread"
        finally:
            await store.close()

    async def test_a_read_only_file_is_refused_with_a_code(self, path: Path) -> None:
        async with notes_in(path) as notes:
            await notes.add("a")
        with disk() as medium:
            medium.is_read_only = True
            with pytest.raises(Unavailable) as refused:
                async with notes_in(path) as notes:
                    await notes.add("b")
            assert refused.value.code == Code.SERVICE_UNAVAILABLE
        assert stored(path) == ["a"]


class TestAFullDisk:
    async def test_what_does_not_fit_is_not_acknowledged_and_what_fits_is(
        self, path: Path, notes: Notes
    ) -> None:
        pages = next(iter(notes.writer.execute("pragma page_count")))[0]
        notes.writer.execute(f"pragma max_page_count = {pages + 5}")
        outcomes = await asyncio.gather(
            notes.add("small"), notes.add("large", 500_000), return_exceptions=True
        )
        assert isinstance(outcomes[1], Unavailable)
        assert outcomes[1].code == Code.SERVICE_UNAVAILABLE
        acknowledged = [each for each in outcomes if isinstance(each, str)]
        assert await notes.ids() == acknowledged
        notes.writer.execute("pragma max_page_count = 1000000")
        assert await notes.add("large", 500_000) == "large"
        assert await notes.add("later") == "later"
        assert set(stored(path)) == {*acknowledged, "large", "later"}


class TestAFailingDisk:
    @pytest.fixture
    def medium(self) -> Iterator[Disk]:
        with disk() as medium:
            yield medium

    @pytest.fixture
    async def notes(self, medium: Disk, path: Path) -> AsyncIterator[Notes]:
        async with notes_in(path) as notes:
            yield notes

    async def test_nothing_is_acknowledged_until_the_disk_syncs_again(
        self, medium: Disk, notes: Notes, path: Path
    ) -> None:
        """P4: after a failed sync the store does not go on as if nothing had happened."""
        rung = notes.store.bell.listen("notes")
        assert await notes.add("before") == "before"
        assert await rung.wait(0)
        medium.sync_fails = True
        for id in ("during", "still"):
            with pytest.raises(Unavailable) as refused:
                await notes.add(id)
            assert refused.value.details["cause"] == "IOError"
        assert not await rung.wait(0), "no bell for what was not stored"
        assert await notes.ids() == ["before"]
        medium.sync_fails = False
        syncs = medium.syncs
        assert await notes.add("after") == "after"
        assert medium.syncs >= syncs + 2, "a checkpoint was synced before the commit was"
        assert stored(path) == ["after", "before"]

    async def test_all_callers_of_a_round_that_fails_are_told(
        self, medium: Disk, notes: Notes
    ) -> None:
        medium.sync_fails = True
        outcomes = await asyncio.gather(
            *(notes.add(str(n)) for n in range(10)), return_exceptions=True
        )
        assert {type(each) for each in outcomes} == {Unavailable}
        medium.sync_fails = False
        await asyncio.gather(*(notes.add(str(n)) for n in range(10)))
        assert len(await notes.ids()) == 10

    async def test_slow_commits_move_to_a_thread_and_leave_the_loop_free(
        self, medium: Disk, notes: Notes, path: Path
    ) -> None:
        committers: list[str] = []

        def note_committer() -> bool:
            committers.append(threading.current_thread().name)
            return False

        notes.writer.set_commit_hook(note_committer)
        await notes.add("fast")
        assert committers == ["MainThread"]
        medium.sync_seconds = 0.05
        for n in range(3):
            await notes.add(f"slow {n}")
        assert committers[-1].startswith("podium-sqlite")
        turns = 0
        slow = asyncio.create_task(notes.add("last"))
        while not slow.done():
            await asyncio.sleep(0.001)
            turns += 1
        assert turns > 5
        assert len(stored(path)) == 5

    async def test_a_sync_that_fails_in_the_thread_is_no_less_a_failure(
        self, medium: Disk, notes: Notes, path: Path
    ) -> None:
        medium.sync_seconds = 0.05
        for n in range(3):
            await notes.add(f"slow {n}")
        medium.sync_fails = True
        with pytest.raises(Unavailable):
            await notes.add("lost")
        medium.sync_fails = False
        assert await notes.add("after") == "after"
        assert "lost" not in stored(path)


class TestARoundThatBreaks:
    """Whatever goes wrong inside a round, every caller gets an answer and the next round runs."""

    @pytest.mark.parametrize("error", [apsw.IOError, apsw.FullError, apsw.AuthError, ValueError])
    async def test_every_caller_is_answered(self, notes: Notes, error: type[Exception]) -> None:
        seen = 0

        def break_the_second_savepoint(cursor: Any, sql: str, bindings: Any) -> bool:
            nonlocal seen
            seen += sql.startswith("savepoint")
            if sql.startswith("savepoint") and seen == 2:
                raise error("the second body")
            return True

        notes.writer.set_exec_trace(break_the_second_savepoint)
        async with asyncio.timeout(DEADLINE_SECONDS):
            outcomes = await asyncio.gather(
                *(notes.add(str(n)) for n in range(3)), return_exceptions=True
            )
        acknowledged = [each for each in outcomes if isinstance(each, str)]
        assert await notes.ids() == acknowledged
        async with asyncio.timeout(DEADLINE_SECONDS):
            assert await notes.add("next") == "next"

    async def test_a_body_that_awaits_something_else_is_refused_alone(self, notes: Notes) -> None:
        async def sleepy(tx: Tx) -> None:
            await notes.add_body(tx, "half", 1)
            await asyncio.sleep(0)

        outcomes = await asyncio.gather(
            notes.add("a"), notes.store.write(sleepy), notes.add("b"), return_exceptions=True
        )
        assert isinstance(outcomes[1], RuntimeError)
        assert await notes.ids() == ["a", "b"]

    async def test_a_caller_that_gave_up_before_its_round_is_not_run(self, notes: Notes) -> None:
        task = asyncio.create_task(notes.add("given up"))
        await asyncio.sleep(0)
        task.cancel()
        await notes.add("a")
        assert await notes.ids() == ["a"]
        assert task.cancelled()


HOLD = """
import asyncio, sys
from podium.backends.sqlite import SQLiteStore
from podium.kernel.clock import SystemClock
from podium.kernel.migrate import SQL
from podium.kernel.queries import SQLITE, Queries

async def main():
    store = SQLiteStore(sys.argv[1], clock=SystemClock(), queries=Queries(SQLITE, [SQL]))
    await store.open()
    print("open", flush=True)
    sys.stdin.read()

asyncio.run(main())
"""
