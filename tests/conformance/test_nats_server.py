"""The server's side: the recipe that we recommend, who may do what, and a server that is not there."""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import nats as nats_py
import pytest
from nats.js.api import RetentionPolicy

from podium.backends.nats import Link, NatsBroker, NatsSettings
from podium.kernel.bus import Message
from podium.kernel.clock import SystemClock
from podium.kernel.errors import Unavailable
from podium.testing.broker_server import Nats, nats
from podium.testing.suites.bus import Post, bodies
from tests.conformance.brokers import until
from tests.worlds import NatsOnSQLite, _sqlite_world

GUIDE = Path(__file__).parents[2] / "docs/guides/nats.md"
RECIPE = re.compile(r"<!-- recipe: nats-server.conf -->\n```\n(?P<text>.*?)```\n<!-- end -->", re.S)


@pytest.fixture(scope="module")
def recipe() -> str:
    found = RECIPE.search(GUIDE.read_text())
    assert found, "the guide has no recipe"
    return found["text"]


@pytest.fixture
def server(recipe: str) -> Iterator[Nats]:
    with nats(config=recipe) as server:
        yield server


async def test_the_recipe_of_the_guide_serves_us_and_keeps_a_worker_to_its_queues(
    server: Nats, tmp_path: Path
) -> None:
    address = f"127.0.0.1:{server.port}"
    link = Link(NatsSettings(f"nats://podium:change-me@{address}"))
    async with _sqlite_world(NatsOnSQLite, tmp_path / "podium.db") as world:
        world.join(link)
        await link.open(wait_seconds=5)
        post = Post(world)
        await post.receive("jobs")
        await post.send("jobs", Message({"n": 1}))
        await world.relay_once()

        async def ignore(_: Exception) -> None:
            pass

        worker = await nats_py.connect(
            f"nats://worker:change-me-too@{address}", inbox_prefix="_INBOX_worker", error_cb=ignore
        )
        reader = await worker.jetstream().pull_subscribe_bind("jobs", stream="podium")
        (job,) = await reader.fetch(1, timeout=5)
        assert job.data == b'{"n":1}'
        await job.ack()
        await worker.jetstream().publish("podium.bus.results", b'{"ok": true}')
        assert bodies(await post.receive("results")) == [{"ok": True}]
        with pytest.raises(Exception):  # noqa: B017  (refused, as a timeout)
            await worker.jetstream(timeout=0.3).delete_stream("podium")
        with pytest.raises(Exception):  # noqa: B017
            await worker.jetstream(timeout=0.3).publish("podium.bus.jobs", b"{}", timeout=0.3)
        await worker.close()
        await link.close()


async def test_a_wrong_password_is_said_in_plain_words(
    server: Nats, caplog: pytest.LogCaptureFixture
) -> None:
    link = Link(NatsSettings(f"nats://podium:wrong@127.0.0.1:{server.port}"))
    with pytest.raises(Unavailable, match="is not one that the server knows") as refused:
        await link.open(wait_seconds=2)
    assert "wrong" not in str(refused.value), "no password in a message"
    await link.close()
    told = [record.__dict__["facts"]["error"] for record in caplog.records]
    assert len(told) == len(set(told)), "once, not at every attempt"


async def test_a_link_without_a_server_waits_and_connects_when_it_comes(tmp_path: Path) -> None:
    server = Nats(tmp_path / "nats")
    link = Link(NatsSettings(server.url))
    with pytest.raises(Unavailable, match="cannot be reached"):
        await link.open(wait_seconds=0.3)
    broker = NatsBroker(link, SystemClock())
    assert await broker.generation() is None
    assert await broker.fetch("orders", n=1, wait_seconds=1.0) is None
    server.start()
    try:
        await link.open(wait_seconds=10)
        assert await broker.generation() is not None
    finally:
        await link.close()
        server.stop()


async def test_a_stream_is_mended_and_one_that_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    with nats(tmp_path / "nats") as server:
        client = await nats_py.connect(server.url)
        js = client.jetstream()
        await js.add_stream(
            name="podium",
            subjects=["podium.bus.>"],
            retention=RetentionPolicy.WORK_QUEUE,
            max_bytes=10_000_000,
        )
        await js.add_stream(name="other", subjects=["other.>"])
        link = Link(NatsSettings(server.url))
        await link.open(wait_seconds=5)
        assert await NatsBroker(link, SystemClock()).generation() is not None
        mended = (await js.stream_info("podium")).config
        assert mended.allow_msg_ttl
        assert mended.max_bytes == 10_000_000, "the operator's own settings stay"
        theirs = Link(NatsSettings(server.url, stream="other", prefix="other"))
        await theirs.open(wait_seconds=5)
        assert await NatsBroker(theirs, SystemClock()).generation() is None
        assert (await js.stream_info("other")).config.retention == RetentionPolicy.LIMITS
        await theirs.close()
        await link.close()
        await client.close()


async def test_the_generation_is_another_one_after_a_wipe_and_the_same_after_a_restart(
    tmp_path: Path,
) -> None:
    with nats(tmp_path / "nats") as server:
        link = Link(NatsSettings(server.url))
        await link.open(wait_seconds=5)
        broker = NatsBroker(link, SystemClock())
        first = await broker.generation()
        assert first is not None
        server.kill()
        server.start()
        await until(lambda: _reconnected(link, 2))
        assert await until(broker.generation) == first
        server.stop()
        server.wipe()
        server.start()
        await until(lambda: _reconnected(link, 3))
        assert await until(broker.generation) != first
        await link.close()


async def _reconnected(link: Link, count: int) -> bool:
    return link.count >= count and link.client is not None


def test_a_server_dies_with_the_process_that_started_it(tmp_path: Path) -> None:
    program = (
        "import sys, time; from pathlib import Path; "
        "from podium.testing.broker_server import Nats; "
        f"server = Nats(Path({str(tmp_path / 'nats')!r})); server.start(); "
        "print(server.pid, flush=True); time.sleep(60)"
    )
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    pid = int(child.stdout.readline())
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()

    async def is_gone() -> bool:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        return state in "ZX"

    asyncio.run(until(is_gone))
    assert child.returncode == -signal.SIGKILL
