"""`podium up`, kill -9 under load, `podium up`: nothing acknowledged is lost, nothing is done twice."""

from __future__ import annotations

import asyncio
import random
import resource
import signal
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from podium.app.wiring import ROOMS
from podium.backends.sqlite.store import BUSY_SECONDS_MAX
from podium.kernel.migrate import migrations
from podium.testing.servers import free_port
from tests.kill.facts import rows_of
from tests.kill.house import LOOK_SECONDS, START_SECONDS_MAX, Up, up
from tests.kill.line import Line, Lost
from tests.kill.lives import kill_again_and_again, lives

KILLS = 4
GRACE_SECONDS = 5.0
CLOSE_SECONDS = 3.0
"""What a busy machine may take, beyond the grace, to close the store and end the interpreter."""
REFUSED_SECONDS_MAX = 3.0
ANSWER_SECONDS = 0.25
BEFORE_HANDLERS = -signal.SIGTERM
"""Nothing is open yet when the interpreter has not come to our code."""

# Whole servers boot here: on a busy machine that takes longer than tests usually may.
pytestmark = [pytest.mark.xdist_group("kill-up"), pytest.mark.timeout(240)]


async def test_a_server_killed_again_and_again_under_load_loses_nothing(
    tmp_path: Path, seed: int
) -> None:
    """Also: nobody it started outlives it, its token stays good, the audit log has each answered call."""
    report = await kill_again_and_again(tmp_path, KILLS, seed)
    print(report)
    assert report.lost_count, "no call was ever cut off: the kills came at no bad moment"
    assert report.takeover_count, "no lease was ever taken over"


async def test_a_server_asked_to_stop_under_load_answers_what_it_has_begun(
    tmp_path: Path, seed: int
) -> None:
    options = (f"--set=stop_seconds={GRACE_SECONDS}",)
    async with lives(tmp_path, *options, seed=seed) as many:
        await many.work_until_random_moment()
        assert await many.house.terminate(GRACE_SECONDS + CLOSE_SECONDS) == 0
        await many.start(*options)
        await many.work_until_random_moment()
        await many.drain_and_check()


async def test_whoever_waits_for_work_does_not_keep_a_server_from_stopping(tmp_path: Path) -> None:
    async with up(tmp_path / "data") as (house, at):
        line = Line(at.port, at.token)
        body = {"queues": ["nothing"], "holder": "h", "wait_seconds": 30.0}
        waiting = asyncio.create_task(line.ask("POST", "/api/work/claim", body))
        await _until_in_work(at.port, at.token)
        assert await house.terminate(CLOSE_SECONDS) == 0
        answer = await waiting
        line.close()
        assert answer.status == 200
        assert answer.json == {"items": []}


async def test_a_second_server_in_the_same_folder_is_refused_and_told_who_has_it(
    tmp_path: Path,
) -> None:
    async with up(tmp_path / "data") as (first, at):
        assert await _seconds_until_refused(tmp_path / "data") < REFUSED_SECONDS_MAX
        assert f"is in use by process {first.pid} on " in first.log_text()
        line = Line(at.port)
        assert (await line.ask("GET", "/readyz")).status == 200, "the first did not suffer from it"
        line.close()


async def test_it_is_not_ready_before_its_tables_are_there(tmp_path: Path) -> None:
    async with _held_back(tmp_path) as (house, port, release):
        asked = asyncio.create_task(_answers_until_ready(port, tmp_path / "data"))
        # It listens, it opens the file, and it waits for us.
        await _until_waiting(house)
        assert not asked.done(), "it said that it is ready before it could write its tables"
        release()
        before, applied = await asked
        await house.announced()
    assert set(before) <= {None, 503}
    assert applied == sum(len(migrations(room, "sqlite")) for room in ROOMS)


async def test_a_server_asked_to_stop_while_it_starts_stops(tmp_path: Path) -> None:
    async with _held_back(tmp_path) as (house, _, _release):
        await _until_waiting(house)
        assert await house.terminate(BUSY_SECONDS_MAX + CLOSE_SECONDS) == 0
    async with up(tmp_path / "data") as (_, at):
        line = Line(at.port)
        assert (await line.ask("GET", "/readyz")).status == 200
        line.close()


async def test_a_server_asked_to_stop_at_any_moment_of_its_start_leaves_nothing_broken(
    tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    async with up(tmp_path / "data") as (first, _):
        assert await first.terminate(GRACE_SECONDS + CLOSE_SECONDS) == 0
    for _ in range(KILLS):
        house = await Up.start(tmp_path / "data")
        await asyncio.sleep(rng.uniform(0.0, 2.0))
        assert await house.terminate(GRACE_SECONDS + CLOSE_SECONDS) in (0, BEFORE_HANDLERS)
    async with up(tmp_path / "data") as (_, at):
        line = Line(at.port, at.token)
        counted = await line.ask("GET", "/api/audit/violations")
        line.close()
        assert not any(counted.json["violations"].values())


async def _until_in_work(port: int, token: str) -> None:
    """What was sent before is read before: these answers come after the earlier request was begun."""
    line = Line(port, token)
    for _ in range(3):
        assert (await line.ask("GET", "/api/queues")).status == 200
    line.close()


async def _seconds_until_refused(data_dir: Path) -> float:
    """Of the processor: what else the machine has to do is not its fault."""
    began = _seconds_of_children()
    second = await Up.start(data_dir)
    assert await second.wait(START_SECONDS_MAX) != 0
    return _seconds_of_children() - began


def _seconds_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@asynccontextmanager
async def _held_back(folder: Path) -> AsyncIterator[tuple[Up, int, Callable[[], None]]]:
    """A server that starts while somebody else writes to its file: it cannot make its tables yet."""
    data_dir = folder / "data"
    data_dir.mkdir(mode=0o700)
    port = free_port()
    file = sqlite3.connect(data_dir / "podium.db", isolation_level=None)
    file.execute("pragma journal_mode = wal")
    file.execute("begin immediate")
    house = await Up.start(data_dir, port=port)
    try:
        yield house, port, file.rollback
    finally:
        file.close()
        if house.is_running:
            await house.kill()


async def _until_waiting(house: Up) -> None:
    loop = asyncio.get_running_loop()
    until = loop.time() + START_SECONDS_MAX
    while not any(name.endswith("podium.db-wal") for name in house.open_files()):
        assert loop.time() < until, house.tail()
        await asyncio.sleep(LOOK_SECONDS)


async def _answers_until_ready(port: int, data_dir: Path) -> tuple[list[int | None], int]:
    """What `/readyz` said before it said yes, and how many migrations the file had at that moment."""
    line = Line(port)
    answers: list[int | None] = []
    async with asyncio.timeout(START_SECONDS_MAX):
        while (status := await _status(line)) != 200:
            answers.append(status)
            await asyncio.sleep(LOOK_SECONDS)
    line.close()
    [(applied,)] = rows_of(str(data_dir / "podium.db"), "select count(*) from podium_migrations")
    return answers, applied


async def _status(line: Line) -> int | None:
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            return (await line.ask("GET", "/readyz")).status
    except (Lost, TimeoutError):
        return None
