"""The channel from both ends, with a well-behaved peer and with one that is not."""

from __future__ import annotations

import asyncio
import socket
import time

import orjson
import pytest

from podium.app.channel import CALLS_AT_ONCE_MAX, Call, serve_channel, work_calls
from podium.contracts.errors import Code
from podium.contracts.work import Claim, Claimed, Enqueue, NewWork
from podium.sdk import errors
from podium.sdk.channel import FRAME_BYTES_MAX, ChannelDesk, Heard, Hello, frame, read_frame
from podium.testing.suites.desk import put, take
from tests.sdk.served import Served
from tests.sdk.test_desks import channel_to


class Peer:
    """The other end, by hand."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock

    async def __aenter__(self) -> Peer:
        self.reader, self.writer = await asyncio.open_unix_connection(sock=self.sock)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.close()

    async def ask(self, content: bytes) -> object:
        self.writer.write(frame(content))
        return await self.hear()

    async def hear(self) -> object:
        async with asyncio.timeout(5):
            return await read_frame(self.reader)


async def _fails(_: Hello) -> Heard:
    raise RuntimeError("a bug of ours")


CALLS = {"broken": Call(Hello, _fails)}


class TestParent:
    @pytest.mark.parametrize(
        ("said", "code"),
        [
            ({"call": "enqueue", "body": {"items": "many"}}, Code.VALIDATION_INVALID_PARAMS),
            ({"call": "enqueue", "body": {"items": []}}, Code.VALIDATION_INVALID_PARAMS),
            ({"call": "enqueue"}, Code.VALIDATION_INVALID_PARAMS),
            (
                {"call": "start", "body": {"grants": [{"id": "a", "epoch": "1"}]}},
                Code.VALIDATION_INVALID_PARAMS,
            ),
            ({"call": "start", "body": {"grants": [], "more": 1}}, Code.VALIDATION_INVALID_PARAMS),
            ({"call": "drop_everything", "body": {}}, Code.METHOD_NOT_ALLOWED),
            ({"call": ["enqueue"], "body": {}}, Code.METHOD_NOT_ALLOWED),
            ({"body": {}}, Code.METHOD_NOT_ALLOWED),
            ({"call": "broken", "body": {"pid": 1}}, Code.INTERNAL_ERROR),
        ],
    )
    async def test_a_bad_call_is_answered_and_the_channel_lives_on(
        self, server: Served, said: dict[str, object], code: Code
    ) -> None:
        ours, theirs = socket.socketpair()
        serving = asyncio.create_task(serve_channel(ours, {**work_calls(server.desk), **CALLS}))
        async with Peer(theirs) as peer:
            answer = await peer.ask(orjson.dumps({"n": 7, **said}))
            assert isinstance(answer, dict)
            assert (answer["n"], answer["error"]["code"]) == (7, code)
            assert "bug of ours" not in str(answer)
            good = {"n": 8, "call": "enqueue", "body": {"items": [{"queue": "q"}]}}
            answer = await peer.ask(orjson.dumps(good))
            assert isinstance(answer, dict)
            assert answer["ok"]["items"][0]["created"] is True
        await serving

    @pytest.mark.parametrize(
        "said",
        [
            b"\xff\xff\xff\xff",
            (FRAME_BYTES_MAX + 1).to_bytes(4, "big"),
            frame(b"not json"),
            frame(b"[]"),
            frame(b'{"n":"1"}'),
            frame(b""),
            b"\x00\x00",
        ],
    )
    async def test_what_is_no_frame_ends_the_channel(self, said: bytes) -> None:
        ours, theirs = socket.socketpair()
        serving = asyncio.create_task(serve_channel(ours, CALLS))
        async with Peer(theirs) as peer:
            peer.writer.write(said)
            peer.writer.write_eof()
            assert await peer.hear() is None
        async with asyncio.timeout(5):
            await serving

    async def test_only_so_many_calls_are_begun_at_a_time(self) -> None:
        begun, full, go_on = 0, asyncio.Event(), asyncio.Event()

        async def wait(_: Hello) -> Heard:
            nonlocal begun
            begun += 1
            if begun >= CALLS_AT_ONCE_MAX:
                full.set()
            await go_on.wait()
            return Heard()

        ours, theirs = socket.socketpair()
        serving = asyncio.create_task(serve_channel(ours, {"wait": Call(Hello, wait)}))
        async with Peer(theirs) as peer:
            for n in range(3 * CALLS_AT_ONCE_MAX):
                peer.writer.write(frame(b'{"n":%d,"call":"wait","body":{"pid":1}}' % n))
            await peer.writer.drain()
            async with asyncio.timeout(5):
                await full.wait()
            for _ in range(50):
                await asyncio.sleep(0)
            assert begun == CALLS_AT_ONCE_MAX
            go_on.set()
            answers = [await peer.hear() for _ in range(3 * CALLS_AT_ONCE_MAX)]
            assert len(answers) == begun == 3 * CALLS_AT_ONCE_MAX
        await serving

    async def test_a_claim_that_waits_ends_with_the_child_and_grants_nothing(
        self, server: Served
    ) -> None:
        ours, theirs = socket.socketpair()
        serving = asyncio.create_task(serve_channel(ours, work_calls(server.desk)))
        async with Peer(theirs) as peer:
            body = {"queues": ["desk"], "holder": "h", "wait_seconds": 30.0}
            peer.writer.write(frame(orjson.dumps({"n": 1, "call": "claim", "body": body})))
            good = {"n": 2, "call": "enqueue", "body": {"items": [{"queue": "other"}]}}
            await peer.ask(orjson.dumps(good))  # by then the claim is waiting
        async with asyncio.timeout(5):
            await serving
        await put(server.desk, 1)
        [item] = await take(server.desk)
        assert item.epoch == 1, "nobody had it before"

    async def test_a_claim_that_does_not_fit_into_a_frame_gives_the_rest_back(
        self, server: Served
    ) -> None:
        async with channel_to(server.desk) as desk:
            text = "x" * 900_000
            for n in range(24):
                await put(desk, {"n": n, "text": text})
            first = await take(desk, 24)
            assert 15 <= len(first) < 24
            second = await take(desk, 24)
            assert [item.payload["n"] for item in [*first, *second]] == list(range(24))
            assert {item.attempts for item in second} == {1}, "going back cost no attempt"


class TestChild:
    async def test_when_the_parent_is_gone_whoever_waits_is_told(self) -> None:
        ours, theirs = socket.socketpair()
        desk = await ChannelDesk.open(theirs)
        waiting = [
            asyncio.create_task(desk.claim(Claim(queues=["q"], holder="h", wait_seconds=30.0)))
            for _ in range(3)
        ]
        async with Peer(ours) as parent:
            assert await parent.hear() is not None
        for each in waiting:
            with pytest.raises(errors.ChannelClosed):
                async with asyncio.timeout(5):
                    await each
        assert desk.gone.is_set()
        with pytest.raises(errors.ChannelClosed):
            await desk.claim(Claim(queues=["q"], holder="h"))
        await desk.close()

    async def test_answers_may_come_in_any_order(self) -> None:
        ours, theirs = socket.socketpair()
        desk = await ChannelDesk.open(theirs)
        async with Peer(ours) as parent:
            calls = [
                asyncio.create_task(desk.enqueue(Enqueue(items=[NewWork(queue=f"q{n}")])))
                for n in range(3)
            ]
            heard = [await parent.hear() for _ in range(3)]
            for said in reversed(heard):
                assert isinstance(said, dict)
                id = said["body"]["items"][0]["queue"]
                answer = {"n": said["n"], "ok": {"items": [{"id": id, "created": True}]}}
                parent.writer.write(frame(orjson.dumps(answer)))
            ids = [(await call).items[0].id for call in calls]
        assert ids == ["q0", "q1", "q2"]
        await desk.close()

    async def test_what_is_too_large_for_a_frame_is_refused_before_it_is_sent(self) -> None:
        ours, theirs = socket.socketpair()
        desk = await ChannelDesk.open(theirs)
        huge = Enqueue(items=[NewWork(queue="q", payload="x" * FRAME_BYTES_MAX)])
        with pytest.raises(errors.TooLarge):
            await desk.enqueue(huge)
        ours.close()
        await desk.close()

    async def test_an_answer_with_a_field_we_do_not_know_is_understood(self) -> None:
        ours, theirs = socket.socketpair()
        desk = await ChannelDesk.open(theirs)
        async with Peer(ours) as parent:
            call = asyncio.create_task(desk.claim(Claim(queues=["q"], holder="h")))
            said = await parent.hear()
            assert isinstance(said, dict)
            answer = {"n": said["n"], "ok": {"items": [], "mood": "good"}}
            parent.writer.write(frame(orjson.dumps(answer)))
            assert await call == Claimed(items=[])
        await desk.close()


async def test_a_thousand_items_go_through_quickly(server: Served) -> None:
    """Not a measurement: it would notice a channel that sends them one by one."""
    async with channel_to(server.desk) as desk:
        began = time.perf_counter()
        await put(desk, *range(1_000))
        assert len(await take(desk, 1_000)) == 1_000
        assert time.perf_counter() - began < 10
