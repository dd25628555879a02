"""An answer is bounded in time, bytes and number, whatever the stranger does (row N7)."""

from __future__ import annotations

import asyncio
import gzip
import itertools
import tracemalloc
from datetime import UTC, datetime

import pytest

from podium.contracts.errors import Code
from podium.effects.http import (
    AnswerTooLarge,
    BadAnswer,
    CallFailed,
    Request,
    Response,
    TimedOut,
    Unreachable,
)
from tests.effects.strangers import (
    Reply,
    Stranger,
    answers,
    caller,
    egress_to,
    hangs_up,
    listening,
    says,
    says_nothing,
)

KIB = 1024
HEAD = b"HTTP/1.1 200 OK\r\n"


def pours(head: bytes, piece: bytes, tally: list[int] | None = None) -> Reply:
    """A head, then the same piece for ever, or until the caller hangs up."""

    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        while True:
            writer.write(piece)
            await writer.drain()
            if tally is not None:
                tally.append(len(piece))

    return reply


def drips(head: bytes, piece: bytes) -> Reply:
    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        while True:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.01)

    return reply


def bomb() -> bytes:
    """64 MiB of zeros in 64 KiB."""
    return gzip.compress(bytes(64 * KIB * KIB))


async def failure_of(reply: Reply, seconds_max: float = 5.0) -> tuple[CallFailed, Stranger]:
    async with listening(reply) as stranger:
        async with caller(egress_to(stranger)) as client:
            with pytest.raises(CallFailed) as failed:
                await client.send(
                    Request("POST", stranger.url("/hunter2"), seconds_max=seconds_max)
                )
            await stranger.until(lambda: stranger.hung_up_count == 1)
    assert failed.value.code == Code.SERVICE_UNAVAILABLE
    assert "hunter2" not in str(failed.value) + repr(failed.value.details)
    return failed.value, stranger


MANY_HEADERS = b"".join(b"X-%d: y\r\n" % n for n in range(100_000))


@pytest.mark.parametrize(
    ("reply", "kind", "reason"),
    [
        pytest.param(
            pours(HEAD + b"Content-Length: 10737418240\r\n\r\n", bytes(64 * KIB)),
            AnswerTooLarge,
            "body",
            id="N7 10 GB",
        ),
        pytest.param(
            pours(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"10000\r\n" + bytes(65536) + b"\r\n"),
            AnswerTooLarge,
            "body",
            id="N7 endless chunks",
        ),
        pytest.param(pours(HEAD + b"\r\n", b"x" * 4096), AnswerTooLarge, "body", id="N7 until closed"),
        pytest.param(
            pours(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1;" + b"e" * 8000 + b"\r\nx\r\n"),
            AnswerTooLarge,
            "bytes",
            id="N7 chunk extensions",
        ),
        pytest.param(
            pours(HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", b"X-Trailer: y\r\n" * 100),
            AnswerTooLarge,
            "headers or bytes",
            id="N7 endless trailers",
        ),
        pytest.param(
            drips(HEAD + b"Content-Length: 999\r\n\r\n", b"x"), TimedOut, "time", id="N7 body drip"
        ),
        pytest.param(drips(HEAD, b"X-A: y\r\n"), TimedOut, "time", id="N7 header drip"),
        pytest.param(
            answers(200, bomb(), [("Content-Encoding", "gzip")]),
            AnswerTooLarge,
            "body",
            id="N7 gzip bomb",
        ),
        pytest.param(
            answers(200, gzip.compress(gzip.compress(b"x")), [("Content-Encoding", "gzip, gzip")]),
            BadAnswer,
            "encoding",
            id="N7 gzip in gzip",
        ),
        pytest.param(
            answers(200, b"x", [("Content-Encoding", "br")]), BadAnswer, "encoding", id="N7 br"
        ),
        pytest.param(
            answers(200, b"no gzip", [("Content-Encoding", "gzip")]),
            BadAnswer,
            "encoding",
            id="N7 broken gzip",
        ),
        pytest.param(
            says(HEAD + MANY_HEADERS * 10 + b"\r\n"), AnswerTooLarge, "headers or bytes", id="N7 1 M headers"
        ),
        pytest.param(
            answers(200, b"", [(f"X-{n}", "y") for n in range(64)]),
            AnswerTooLarge,
            "headers",
            id="N7 65 headers",
        ),
        pytest.param(
            answers(200, b"", [("X", "y" * 17_000)]), AnswerTooLarge, "headers", id="N7 long header"
        ),
        pytest.param(
            pours(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100),
            AnswerTooLarge,
            "bytes",
            id="N7 100-continue for ever",
        ),
        pytest.param(
            drips(b"", b"HTTP/1.1 100 Continue\r\n\r\n"), TimedOut, "time", id="N7 100-continue only"
        ),
        pytest.param(says_nothing, TimedOut, "time", id="N7 never answers"),
        pytest.param(says(b"<html>hello</html>\n", and_hangs_up=True), BadAnswer, "protocol", id="N7 HTTP/0.9"),
        pytest.param(says(b"SSH-2.0-OpenSSH_9.6\r\n", and_hangs_up=True), BadAnswer, "protocol", id="N7 ssh"),
        pytest.param(hangs_up, BadAnswer, "protocol", id="N7 hangs up"),
        pytest.param(
            says(HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello"),
            BadAnswer,
            "protocol",
            id="N7 two lengths",
        ),
        pytest.param(
            says(HEAD + b"Content-Length: -1\r\n\r\n"), BadAnswer, "protocol", id="N7 bad length"
        ),
        pytest.param(
            says(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"),
            BadAnswer,
            "protocol",
            id="N7 101",
        ),
        pytest.param(says(b"HTTP/1.1 2x0 OK\r\n\r\n"), BadAnswer, "protocol", id="N7 bad status"),
        pytest.param(
            says(HEAD + b"X: a\0b\r\n\r\n"), BadAnswer, "protocol", id="N7 NUL in a header"
        ),
    ],
)  # fmt: skip
async def test_n7_a_hostile_answer_is_a_failed_try(
    reply: Reply, kind: type[CallFailed], reason: str
) -> None:
    failed, _ = await failure_of(reply, seconds_max=0.5 if kind is TimedOut else 10)
    assert type(failed) is kind
    # A head without end meets the parser's limit or that of the wire, as its pieces happen to come.
    assert failed.reason in reason.split(" or ")


async def peak_of(reply: Reply) -> int:
    """The most memory that five such answers take."""
    await failure_of(reply)
    tracemalloc.start()
    try:
        for _ in range(5):
            await failure_of(reply)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


async def test_n7_a_gzip_bomb_is_not_unpacked() -> None:
    bombing = answers(200, bomb(), [("Content-Encoding", "gzip")])
    assert await peak_of(bombing) < 3 * KIB * KIB


async def test_n7_ten_gigabytes_leave_memory_as_it_was() -> None:
    tally: list[int] = []
    endless = pours(HEAD + b"Content-Length: 10737418240\r\n\r\n", bytes(64 * KIB), tally)
    assert await peak_of(endless) < 3 * KIB * KIB
    assert sum(tally) < 6 * 16 * KIB * KIB, "more than sockets hold was taken"


async def test_an_answer_of_exactly_the_limit_is_taken() -> None:
    for size in (0, 1, 64 * KIB):
        async with listening(answers(200, b"x" * size)) as stranger:
            async with caller(egress_to(stranger)) as client:
                response = await client.send(Request("GET", stranger.url()))
                assert len(response.body) == size
    async with listening(answers(200, b"x" * (64 * KIB + 1))) as stranger:
        async with caller(egress_to(stranger)) as client:
            with pytest.raises(AnswerTooLarge) as failed:
                await client.send(Request("GET", stranger.url()))
            assert failed.value.details["status"] == 200
            large = Request("GET", stranger.url(), answer_bytes_max=KIB * KIB)
            assert len((await client.send(large)).body) == 64 * KIB + 1


async def test_a_small_answer_that_is_zipped_unasked_is_read() -> None:
    zipped = answers(200, gzip.compress(b"hello"), [("Content-Encoding", "gzip")])
    async with listening(zipped) as stranger:
        async with caller(egress_to(stranger)) as client:
            assert (await client.send(Request("GET", stranger.url()))).body == b"hello"


async def test_the_time_is_for_the_whole_exchange_redirects_included() -> None:
    async def slowly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.2)
        await answers(302, headers=[("Location", "/again")])(reader, writer)

    async with listening(slowly) as stranger:
        async with caller(egress_to(stranger)) as client:
            with pytest.raises(TimedOut):
                await client.send(Request("GET", stranger.url(), redirects_max=3, seconds_max=0.5))
    assert len(stranger.heads) < 4


async def test_a_connection_that_breaks_in_the_body_is_a_failed_try() -> None:
    async def breaks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await says(HEAD + b"Content-Length: 100\r\n\r\nhalf")(reader, writer)
        writer.transport.abort()

    async with listening(breaks) as stranger:
        async with caller(egress_to(stranger)) as client:
            with pytest.raises((Unreachable, BadAnswer)):
                await client.send(Request("GET", stranger.url()))


async def test_nobody_listens() -> None:
    async with listening(answers()) as stranger:
        pass
    async with caller(egress_to(stranger)) as client:
        with pytest.raises(Unreachable) as failed:
            await client.send(Request("GET", stranger.url()))
    assert failed.value.reason == "connect"


@pytest.mark.parametrize("status", [200, 201, 204, 304, 400, 404, 429, 500, 503, 599])
async def test_every_status_is_an_answer(status: int) -> None:
    async with listening(answers(status)) as stranger:
        async with caller(egress_to(stranger)) as client:
            response = await client.send(Request("GET", stranger.url()))
    assert response.status == status
    assert response.is_success == (200 <= status < 300)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("120", 120),
        ("0", 0),
        ("Thu, 01 Jan 2026 00:01:00 GMT", 60),
        ("Thu, 01 Jan 2026 00:01:00", 60),
        ("Wed, 31 Dec 2025 23:00:00 GMT", 0),
        ("9" * 400, 999_999_999),
        ("-5", None),
        ("soon", None),
        ("١٢", None),
        ("", None),
        ("Thu, 99 Jan 99999 00:00:00 GMT", None),
    ],
)
def test_how_long_to_leave_a_receiver_alone(value: str, seconds: float | None) -> None:
    response = Response(429, (("Retry-After", value),), b"", "https://h/")
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert response.retry_after_seconds(now) == seconds


def test_an_answer_does_not_show_its_body_by_accident() -> None:
    response = Response(200, (("Set-Cookie", "hunter2"),), b"hunter2", "https://h/hunter2")
    assert "hunter2" not in repr(response)
    assert response.header("set-cookie") == "hunter2"
    assert response.header("absent") is None


async def test_many_cut_answers_leave_no_connection_behind() -> None:
    replies = itertools.cycle(
        [
            pours(HEAD + b"Content-Length: 10737418240\r\n\r\n", bytes(64 * KIB)),
            says_nothing,
            says(b"nonsense\r\n\r\n"),
        ]
    )

    async def any_of_them(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await next(replies)(reader, writer)

    async with listening(any_of_them) as stranger, listening(answers(200)) as healthy:
        async with caller(egress_to(stranger, healthy)) as client:
            for _ in range(4):
                with pytest.raises(CallFailed):
                    await client.send(Request("GET", stranger.url(), seconds_max=0.2))
            assert (await client.send(Request("GET", healthy.url()))).status == 200
            assert len(client._pool.connections) == 1
            assert len(client._lanes) == 0
