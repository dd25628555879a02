"""Workers as processes: killed, asked to stop, orphaned, shouting. P31, P33."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from podium.app.channel import work_calls
from podium.app.children import Child
from podium.kernel.errors import Unavailable
from podium.sdk.client import Client
from tests.runners.program import WORKER
from tests.runners.traces import environment, is_alive, item, read, until, until_done
from tests.sdk.served import Served

ROOT = Path(__file__).parents[2]
# Python processes boot here, on machines that may be busy.
pytestmark = pytest.mark.timeout(120)


@asynccontextmanager
async def remote_worker(server: Served, *options: str) -> AsyncIterator[Process]:
    process = await asyncio.create_subprocess_exec(
        *WORKER, *options, env=environment(server.url, server.token), cwd=ROOT, stdin=DEVNULL
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@asynccontextmanager
async def child_of(server: Served, **more: float) -> AsyncIterator[Child]:
    child = Child("worker", WORKER, work_calls(server.desk), **more)  # type: ignore[arg-type]
    await child.start()
    try:
        yield child
    finally:
        child.ask_to_stop()
        await child.stop(5.0)


class TestRemote:
    async def test_what_a_killed_worker_held_is_finished_by_another_and_nothing_twice(
        self, server: Served, client: Client, tmp_path: Path
    ) -> None:
        file = tmp_path / "trace"
        ids = [f"item-{n}" for n in range(60)]
        await client.enqueue(
            [item(id, "traced.work", file, seconds=0.05, lease_seconds=1.0) for id in ids]
        )
        async with remote_worker(server) as first:
            await until(lambda: len(read(file, "end")) >= 16)
            first.kill()
            await first.wait()
        states = {id: (await client.show(id)).state for id in ids}
        finished = {id for id, state in states.items() if state == "done"}
        assert finished
        assert len(finished) < len(ids)
        begun_before = len(read(file))
        async with remote_worker(server) as second:
            await until_done(client, ids)
            second.terminate()
            assert await second.wait() == 0
        again = {trace.id for trace in read(file)[begun_before:] if trace.what == "begin"}
        assert again & finished == set(), "what was finished is not begun again"
        assert again == set(ids) - finished
        per_epoch = Counter((trace.id, trace.epoch) for trace in read(file, "begin"))
        assert set(per_epoch.values()) == {1}, "one grant, one beginning"
        for id in ids:
            lines = (await client.journal("work", id)).lines
            assert [line.event for line in lines].count("done") == 1

    async def test_asked_to_stop_it_finishes_what_runs_and_takes_no_more(
        self, server: Served, client: Client, tmp_path: Path
    ) -> None:
        file = tmp_path / "trace"
        ids = [f"item-{n}" for n in range(30)]
        await client.enqueue([item(id, "traced.work", file, seconds=0.5) for id in ids])
        async with remote_worker(server) as worker:
            await until(lambda: read(file, "begin"))
            worker.terminate()
            assert await worker.wait() == 0
        begun, ended = read(file, "begin"), read(file, "end")
        assert {trace.id for trace in begun} == {trace.id for trace in ended}
        assert len(begun) < len(ids)
        [queue] = (await client.queues()).queues
        assert set(queue.counts) <= {"ready", "done"}, "nothing is held"
        done = [id for id in ids if (await client.show(id)).state == "done"]
        assert sorted(done) == sorted(trace.id for trace in begun), "what ended was reported"

    @pytest.mark.parametrize("handler", ["traced.work", "traced.thread", "traced.deaf"])
    async def test_what_does_not_end_in_the_grace_time_is_given_back(
        self, server: Served, client: Client, tmp_path: Path, handler: str
    ) -> None:
        file = tmp_path / "trace"
        await client.enqueue([item("long", handler, file, seconds=600.0)])
        async with remote_worker(server, "1.0") as worker:
            await until(lambda: read(file, "begin"))
            worker.terminate()
            async with asyncio.timeout(10):
                assert await worker.wait() == 0
        shown = await client.show("long")
        assert (shown.state, shown.attempts) == ("ready", 0), "somebody else may begin it at once"

    async def test_a_token_that_is_no_good_ends_it_with_a_reason(self, server: Served) -> None:
        process = await asyncio.create_subprocess_exec(
            *WORKER,
            env=environment(server.url, "pod_wrong"),
            cwd=ROOT,
            stdin=DEVNULL,
            stderr=PIPE,
        )
        _, said = await process.communicate()
        assert process.returncode == 1
        assert "AUTH_INVALID_TOKEN" in said.decode()


class TestChild:
    async def test_it_is_ready_when_the_child_is_and_works(
        self, server: Served, client: Client, tmp_path: Path
    ) -> None:
        file = tmp_path / "trace"
        async with child_of(server) as child:
            await client.enqueue([item("a", "traced.work", file)])
            await until_done(client, ["a"])
            [begun] = read(file, "begin")
            assert begun.pid == child.pid
            pid = begun.pid
        assert not is_alive(pid)

    async def test_a_child_that_died_is_started_again(
        self, server: Served, client: Client, tmp_path: Path
    ) -> None:
        file = tmp_path / "trace"
        async with child_of(server, pause_seconds=0.01) as child:
            await client.enqueue([item("a", "traced.work", file, seconds=0.5, lease_seconds=1.0)])
            await until(lambda: read(file, "begin"))
            first = child.pid
            assert first is not None
            os.kill(first, signal.SIGKILL)
            await until_done(client, ["a"])
            assert child.starts == 2
            assert [trace.epoch for trace in read(file, "end")] == [2]

    async def test_asked_to_stop_it_ends_well(
        self, server: Served, client: Client, tmp_path: Path
    ) -> None:
        file = tmp_path / "trace"
        child = Child("worker", WORKER, work_calls(server.desk))
        await child.start()
        await client.enqueue([item("a", "traced.work", file, seconds=0.5)])
        await until(lambda: read(file, "begin"))
        child.ask_to_stop()
        await child.stop(20.0)
        assert (await client.show("a")).state == "done"
        assert child.starts == 1
        await child.stop(0.0)  # safe to call twice

    async def test_one_that_does_not_stop_is_killed_with_its_offspring(
        self, server: Served, client: Client, tmp_path: Path
    ) -> None:
        file = tmp_path / "trace"
        child = Child("worker", WORKER, work_calls(server.desk))
        await child.start()
        await client.enqueue([item("a", "traced.busy", file, seconds=600.0)])
        await until(lambda: read(file, "begin"))
        pid = child.pid
        assert pid is not None
        child.ask_to_stop()
        async with asyncio.timeout(10):
            await child.stop(0.2)
        assert not is_alive(pid)

    async def test_what_a_killed_child_had_started_ends_too(
        self, server: Served, client: Client, tmp_path: Path
    ) -> None:
        file = tmp_path / "trace"
        async with child_of(server) as child:
            await client.enqueue([item("a", "traced.offspring", file)])
            [begun] = await until(lambda: read(file, "begin"))
            assert is_alive(int(begun.more))
            assert child.pid is not None
            os.kill(child.pid, signal.SIGKILL)
            await until(lambda: not is_alive(int(begun.more)), 5.0)
            await client.cancel(["a"])

    async def test_one_that_cannot_start_says_so(
        self, server: Served, caplog: pytest.LogCaptureFixture
    ) -> None:
        command = [sys.executable, "-c", "raise SystemExit('no such module as yours')"]
        child = Child("worker", command, work_calls(server.desk))
        with caplog.at_level(logging.INFO, "podium"):
            with pytest.raises(Unavailable, match="the worker did not start"):
                await child.start()
        said = [getattr(record, "facts", {}).get("line") for record in caplog.records]
        assert "no such module as yours" in said

    async def test_our_secrets_are_not_in_its_environment(
        self, server: Served, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setenv("PODIUM_MASTER_KEY", "canary")
        async with child_of(server) as child:
            found = Path(f"/proc/{child.pid}/environ").read_bytes()
        assert b"canary" not in found
        assert b"PODIUM_CHANNEL_FD=" in found

    async def test_a_flood_of_words_is_survived_and_cut_short(
        self,
        server: Served,
        client: Client,
        tmp_path: Path,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        file = tmp_path / "trace"
        with caplog.at_level(logging.INFO, "podium"):
            async with child_of(server) as child:
                await client.enqueue([item("a", "traced.flood", file, lines=100_000)])
                await until_done(client, ["a"])
                assert child.starts == 1
        dropped = [
            getattr(record, "facts", {}).get("lines_dropped", 0) for record in caplog.records
        ]
        assert sum(dropped) > 90_000


class TestOrphans:
    @pytest.mark.parametrize("handler", [None, "traced.busy"])
    async def test_a_child_is_gone_two_seconds_after_its_parent_was_killed(
        self, tmp_path: Path, handler: str | None
    ) -> None:
        parent = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.runners.program",
            "parent",
            str(tmp_path / "data"),
            cwd=ROOT,
            stdin=DEVNULL,
            stdout=PIPE,
        )
        assert parent.stdout is not None
        facts = json.loads(await parent.stdout.readline())
        assert is_alive(facts["child"])
        if handler is not None:
            file = tmp_path / "trace"
            async with Client(facts["url"], facts["token"]) as client:
                await client.enqueue([item("a", handler, file, seconds=600.0)])
                await until(lambda: read(file, "begin"))
        parent.kill()
        await parent.wait()
        await until(lambda: not is_alive(facts["child"]), 2.0)
