"""Connections are kept and shared, and one bad destination does not take them all (P26)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import h2.config
import h2.connection
import h2.events
import httpcore
import pytest

from podium.effects.http import (
    AnswerTooLarge,
    BreakerSettings,
    OutgoingHttp,
    Request,
    Response,
    Settings,
    TimedOut,
)
from tests.effects.certificates import issue
from tests.effects.strangers import (
    Names,
    Stranger,
    answers,
    caller,
    egress_to,
    listening,
    says_nothing,
    serving,
)


async def test_calls_one_after_another_share_a_connection_and_a_lookup() -> None:
    names = Names({"a.example": [["127.0.0.1"]]})
    async with listening(answers(200, b"hi")) as stranger:
        async with caller(egress_to(stranger), names=names) as client:
            for _ in range(20):
                await client.send(Request("POST", stranger.url(host="a.example"), body=b"x"))
    assert stranger.connections == 1
    assert len(stranger.heads) == 20
    assert names.lookups == ["a.example"]


async def test_calls_at_once_to_one_destination_are_few_and_the_rest_wait_their_turn() -> None:
    busiest = 0
    under_way = 0

    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal busiest, under_way
        under_way += 1
        busiest = max(busiest, under_way)
        await asyncio.sleep(0.01)
        under_way -= 1
        await answers()(reader, writer)

    async with listening(reply) as stranger:
        settings = Settings(per_destination_max=3)
        async with caller(egress_to(stranger), settings=settings) as client:
            sent = [client.send(Request("GET", stranger.url())) for _ in range(20)]
            assert [r.status for r in await asyncio.gather(*sent)] == [200] * 20
            assert len(client._lanes) == 0
    assert busiest == 3
    assert stranger.connections == 3


async def test_a_destination_that_hangs_delays_no_other() -> None:
    async with listening(says_nothing) as dead, listening(answers()) as healthy:
        settings = Settings(per_destination_max=4, connections_max=8)
        async with caller(egress_to(dead, healthy), settings=settings) as client:
            stuck = [
                asyncio.ensure_future(client.send(Request("POST", dead.url()))) for _ in range(50)
            ]
            await dead.until(lambda: dead.connections == 4)
            async with asyncio.timeout(5):
                for _ in range(20):
                    assert (await client.send(Request("POST", healthy.url()))).status == 200
            assert not any(call.done() for call in stuck)
            assert dead.connections == 4
            for call in stuck:
                call.cancel()
            await asyncio.gather(*stuck, return_exceptions=True)
            assert len(client._lanes) == 0
            assert len(client._pool.connections) <= 1


async def test_whoever_waits_for_a_turn_waits_on_his_own_time() -> None:
    async with listening(says_nothing) as dead:
        settings = Settings(per_destination_max=1)
        async with caller(egress_to(dead), settings=settings) as client:
            first = asyncio.ensure_future(client.send(Request("GET", dead.url(), seconds_max=30)))
            await dead.until(lambda: len(dead.heads) == 1)
            with pytest.raises(TimedOut) as failed:
                await client.send(Request("GET", dead.url(), seconds_max=0.05))
            assert failed.value.reason == "lane"
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)


async def test_a_call_that_is_cancelled_hangs_up() -> None:
    async with listening(says_nothing) as dead:
        async with caller(egress_to(dead)) as client:
            call = asyncio.ensure_future(client.send(Request("GET", dead.url())))
            await dead.until(lambda: len(dead.heads) == 1)
            call.cancel()
            await dead.until(lambda: dead.hung_up_count == 1)
            with pytest.raises(asyncio.CancelledError):
                await call
            assert client._pool.connections == []


class Keeping(httpcore.AnyIOBackend):
    """Holds on to its streams, so that none is closed just because nobody remembers it."""

    def __init__(self) -> None:
        self.streams: list[httpcore.AsyncNetworkStream] = []

    async def connect_tcp(self, *args: Any, **kwargs: Any) -> httpcore.AsyncNetworkStream:
        self.streams.append(await super().connect_tcp(*args, **kwargs))
        return self.streams[-1]


async def test_a_call_that_is_cancelled_in_the_handshake_hangs_up() -> None:
    """A server that takes the connection and never says its part of the handshake."""
    stranger = Stranger("127.0.0.1")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        stranger.heads.append(await reader.read(65536))
        stranger.moved.set()
        await says_nothing(reader, writer)

    async with (
        serving(stranger, serve),
        caller(egress_to(stranger), network=Keeping()) as client,
    ):
        url = stranger.url(scheme="https")
        call = asyncio.ensure_future(client.send(Request("GET", url)))
        await stranger.until(lambda: len(stranger.heads) == 1)
        call.cancel()
        await stranger.until(lambda: stranger.hung_up_count == 1)
        with pytest.raises(asyncio.CancelledError):
            await call


async def test_a_full_house_is_no_failure_of_whom_we_could_not_call() -> None:
    async with listening(says_nothing) as dead, listening(answers()) as healthy:
        few = Settings(connections_max=1, breaker=BreakerSettings(failures_max=1))
        async with caller(egress_to(dead, healthy), settings=few) as client:
            stuck = asyncio.ensure_future(client.send(Request("GET", dead.url())))
            await dead.until(lambda: len(dead.heads) == 1)
            with pytest.raises(TimedOut) as failed:
                await client.send(Request("GET", healthy.url(), seconds_max=0.05))
            assert failed.value.reason == "lane"
            stuck.cancel()
            await asyncio.gather(stuck, return_exceptions=True)
            assert (await client.send(Request("GET", healthy.url()))).status == 200


# --- HTTP/2 --------------------------------------------------------------------------------------


@dataclass
class Modern(Stranger):
    """A server that speaks HTTP/2: /pour never ends, /hang never answers, /large is 15,000 bytes."""

    requests: list[str] = field(default_factory=list)


async def speak(modern: Modern, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    state = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
    state.initiate_connection()
    pouring: set[int] = set()
    while True:
        writer.write(state.data_to_send())
        await writer.drain()
        data = await reader.read(65536)
        if not data:
            return
        for event in state.receive_data(data):
            if isinstance(event, h2.events.RequestReceived):
                respond(modern, state, event, pouring)
        for stream in pouring:
            while size := min(state.local_flow_control_window(stream), 16384):
                state.send_data(stream, bytes(size))
                writer.write(state.data_to_send())
                await writer.drain()


def respond(
    modern: Modern,
    state: h2.connection.H2Connection,
    event: h2.events.RequestReceived,
    pouring: set[int],
) -> None:
    headers = {bytes(k): bytes(v) for k, v in event.headers or []}
    path = headers[b":path"].decode()
    modern.requests.append(f"{headers[b':authority'].decode()} {path}")
    modern.moved.set()
    assert event.stream_id is not None
    if path == "/hang":
        return
    state.send_headers(event.stream_id, [(":status", "200"), ("x-many", "y" * 100)])
    if path == "/pour":
        pouring.add(event.stream_id)
    elif path == "/large":
        for is_last in (False, False, True):
            state.send_data(event.stream_id, bytes(5000), end_stream=is_last)
    else:
        state.send_data(event.stream_id, b"hi", end_stream=True)


@asynccontextmanager
async def modern_world(folder: Path) -> AsyncIterator[tuple[Modern, OutgoingHttp, str]]:
    authority = issue("authority.example")
    tls = issue("a.example", authority).server_context(folder, ("h2", "http/1.1"))
    modern = Modern("127.0.0.1")
    async with serving(modern, partial(speak, modern), tls=tls):
        egress = egress_to(modern)
        names = {"a.example": [["127.0.0.1"]]}
        settings = Settings(extra_ca_pem=authority.pem)
        async with caller(egress, names=names, settings=settings) as client:
            yield modern, client, f"https://a.example:{modern.port}"


async def test_many_calls_share_one_connection_where_the_server_can(tmp_path: Path) -> None:
    async with modern_world(tmp_path) as (modern, client, url):
        sent = [client.send(Request("POST", f"{url}/{n}", body=b"x")) for n in range(20)]
        got: list[Response] = await asyncio.gather(*sent)
    assert {(r.status, r.body, r.http_version) for r in got} == {(200, b"hi", "HTTP/2")}
    assert modern.connections == 1
    assert sorted(modern.requests)[0] == f"a.example:{modern.port} /0"


async def test_whoever_reads_for_all_does_not_pay_for_all(tmp_path: Path) -> None:
    """One exchange may read what came for the others; that is not the size of its own answer."""
    async with modern_world(tmp_path) as (modern, client, url):
        await client.send(Request("GET", f"{url}/first"))
        large = Request("GET", f"{url}/large", answer_bytes_max=15_000)
        for _ in range(5):
            got = await asyncio.gather(*(client.send(large) for _ in range(8)))
            assert {len(r.body) for r in got} == {15_000}
    assert modern.connections == 1


async def test_an_endless_answer_is_cut_and_its_connection_takes_no_more(tmp_path: Path) -> None:
    async with modern_world(tmp_path) as (modern, client, url):
        for n in range(1, 4):
            with pytest.raises(AnswerTooLarge):
                await client.send(Request("GET", f"{url}/pour"))
            assert (await client.send(Request("GET", f"{url}/x"))).body == b"hi"
            assert modern.connections == n + 1
            assert len(client._pool.connections) == 1


async def test_calls_under_way_end_well_beside_one_that_is_cut(tmp_path: Path) -> None:
    async with modern_world(tmp_path) as (modern, client, url):
        await client.send(Request("GET", f"{url}/first"))
        slow = asyncio.ensure_future(client.send(Request("GET", f"{url}/hang", seconds_max=0.5)))
        await modern.until(lambda: f"a.example:{modern.port} /hang" in modern.requests)
        with pytest.raises(AnswerTooLarge):
            await client.send(Request("GET", f"{url}/pour"))
        assert not slow.done(), "the one beside it is still waiting for its answer"
        assert (await client.send(Request("GET", f"{url}/x"))).body == b"hi"
        assert modern.connections == 2
        with pytest.raises(TimedOut):
            await slow
        assert (await client.send(Request("GET", f"{url}/x"))).body == b"hi"
        assert len(client._pool.connections) == 1, "and the old connection is gone"
