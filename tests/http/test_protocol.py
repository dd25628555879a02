"""The edge below ASGI against raw sockets: on both event loops, since their transports differ."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st
from uvicorn.server import ServerState
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from podium.http.patience import Wait
from podium.http.protocol import guarded
from podium.http.wire import EdgeLimits, Reason
from tests.http.raw import GOOD, SECONDS_MAX, Answer, App, Served, Wire, served, wait_until

SECRET = b"hunter2"
HOST = b"Host: a\r\n"
POST = b"POST /echo HTTP/1.1\r\n" + HOST
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
UPGRADE = b"Connection: Upgrade\r\nUpgrade: %b\r\n"
WEBSOCKET = (
    b"GET /ws HTTP/1.1\r\n"
    + HOST
    + UPGRADE % b"websocket"
    + b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)

HASTY = EdgeLimits(
    first_byte_seconds=0.4,
    head_seconds=0.4,
    body_window_seconds=0.4,
    unsent_seconds=0.4,
    linger_seconds=0.4,
)
EARLY, LATE = 0.3, 5.0


@pytest.fixture(scope="module", params=["uvloop", "asyncio"])
def loop(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def patient_server(loop: str) -> Iterator[Served]:
    with served(EdgeLimits(), loop) as running:
        yield running


@pytest.fixture
def server(patient_server: Served) -> Served:
    patient_server.edge.refused.clear()
    return patient_server


@pytest.fixture
def hasty(loop: str) -> Iterator[Served]:
    with served(HASTY, loop) as running:
        yield running


@pytest.fixture
def wire(server: Served) -> Iterator[Wire]:
    with Wire(server.port) as wire:
        yield wire


def assert_refused(wire: Wire, status: int) -> Answer:
    answer = wire.answer()
    assert answer.status == status
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["connection"] == "close"
    error = json.loads(answer.body)["error"]
    assert error.keys() == {"code", "message", "details", "timestamp", "traceId"}
    assert error["details"] == {}
    assert re.fullmatch(r"[0-9a-f]{32}", error["traceId"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", error["timestamp"])
    assert SECRET not in answer.body
    assert wire.is_closed()
    return answer


# --- good requests pass --------------------------------------------------------------------------


def test_requests_are_answered_one_after_another_on_one_connection(
    server: Served, wire: Wire
) -> None:
    for _ in range(3):
        wire.send(GOOD)
        assert wire.answer().status == 200
    assert server.app.targets_of(wire) == ["GET /healthz"] * 3


def test_pipelined_requests_are_answered_in_order(server: Served, wire: Wire) -> None:
    wire.send(b"".join(POST + b"Content-Length: %d\r\n\r\n" % n + bytes(n) for n in range(10)))
    assert [int(wire.answer().body) for _ in range(10)] == list(range(10))


def test_a_large_body_arrives_whole(wire: Wire) -> None:
    wire.send(POST + b"Content-Length: 5000000\r\n\r\n" + bytes(5_000_000))
    assert wire.answer().body == b"5000000"


def test_http_1_0_is_answered_and_closed(wire: Wire) -> None:
    wire.send(b"GET /healthz HTTP/1.0\r\n\r\n")
    assert wire.answer().status == 200
    assert wire.is_closed()


def test_a_method_the_parser_knows_reaches_the_application(server: Served, wire: Wire) -> None:
    wire.send(b"PROPFIND /x HTTP/1.1\r\n" + HOST + b"\r\n")
    assert wire.answer().status == 200
    assert server.app.targets_of(wire) == ["PROPFIND /x"]


@pytest.mark.parametrize("host", [b"localhost", b"a.example:8080", b"[::1]:80", b"127.0.0.1"])
def test_a_host_is_a_name_or_an_address(wire: Wire, host: bytes) -> None:
    wire.send(b"GET / HTTP/1.1\r\nHost: " + host + b"\r\n\r\n")
    assert wire.answer().status == 200


# --- malformed requests --------------------------------------------------------------------------

MALFORMED = {
    "length and chunks": POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks and length": POST + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "xchunked": POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "gzip, chunked": POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "chunked, identity": POST + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "chunked twice": POST + b"Transfer-Encoding: chunked\r\n" * 2 + b"\r\n0\r\n\r\n",
    "chunked in 1.0": b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two lengths": POST + b"Content-Length: 3\r\n" * 2 + b"\r\nabc",
    "list of lengths": POST + b"Content-Length: 3, 3\r\n\r\nabc",
    "signed length": POST + b"Content-Length: +3\r\n\r\nabc",
    "endless length": POST + b"Content-Length: " + b"9" * 30 + b"\r\n\r\nabc",
    "bare LF": b"GET /hunter2 HTTP/1.1\nHost: a\n\n",
    "bare LF in headers": b"GET / HTTP/1.1\r\nHost: a\nX: hunter2\r\n\r\n",
    "bare CR in headers": b"GET / HTTP/1.1\r\nHost: a\rX: hunter2\r\n\r\n",
    "folded header": b"GET / HTTP/1.1\r\n" + HOST + b"X: y\r\n hunter2\r\n\r\n",
    "space before colon": b"GET / HTTP/1.1\r\nHost : a\r\n\r\n",
    "NUL in header": b"GET / HTTP/1.1\r\n" + HOST + b"X: \0\r\n\r\n",
    "no colon": b"GET / HTTP/1.1\r\n" + HOST + b"hunter2\r\n\r\n",
    "absolute form": b"GET http://hunter2/healthz HTTP/1.1\r\n" + HOST + b"\r\n",
    "authority form": b"CONNECT hunter2:443 HTTP/1.1\r\n" + HOST + b"\r\n",
    "asterisk form": b"OPTIONS * HTTP/1.1\r\n" + HOST + b"\r\n",
    "no slash": b"GET healthz HTTP/1.1\r\n" + HOST + b"\r\n",
    "fragment": b"GET /healthz#hunter2 HTTP/1.1\r\n" + HOST + b"\r\n",
    "NUL in target": b"GET /\0 HTTP/1.1\r\n" + HOST + b"\r\n",
    "control in target": b"GET /\x1b[2J HTTP/1.1\r\n" + HOST + b"\r\n",
    "tab in target": b"GET /a\tb HTTP/1.1\r\n" + HOST + b"\r\n",
    "bytes in target": b"GET /\xc3\xa9 HTTP/1.1\r\n" + HOST + b"\r\n",
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "empty host": b"GET / HTTP/1.1\r\nHost:\r\n\r\n",
    "two hosts": b"GET / HTTP/1.1\r\n" + HOST * 2 + b"\r\n",
    "host with space": b"GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
    "host with path": b"GET / HTTP/1.1\r\nHost: evil/health?x=\r\n\r\n",
    "host with user": b"GET / HTTP/1.1\r\nHost: hunter2@a\r\n\r\n",
    "HTTP/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9),
    "HTTP/2.0": b"GET / HTTP/2.0\r\n" + HOST + b"\r\n",
    "HTTP/0.9": b"GET /\r\n\r\n",
    "HTTP/1.2": b"GET / HTTP/1.2\r\n" + HOST + b"\r\n",
    "no such method": b"BREW / HTTP/1.1\r\n" + HOST + b"\r\n",
    "method in lower case": b"get / HTTP/1.1\r\n" + HOST + b"\r\n",
    "TLS": bytes.fromhex("16030100c8010000c40303") + bytes(100),
    "websocket with a body": WEBSOCKET + b"Content-Length: 3\r\n\r\nabc",
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_request_is_refused_and_nothing_behind_it_is_executed(
    server: Served, wire: Wire, name: str
) -> None:
    wire.send(MALFORMED[name] + GOOD)
    assert_refused(wire, 400)
    assert server.app.seen_from(wire) == []
    assert server.edge.refused.total() == 1


MALFORMED_BODIES = {
    "size in 0x": b"0x1\r\na\r\n0\r\n\r\n",
    "negative size": b"-1\r\na\r\n0\r\n\r\n",
    "size without end": b"f" * 17 + b"\r\n",
    "bare LF": b"1\na\n0\n\n",
    "bare LF after extension": b"1;hunter2\na\r\n0\r\n\r\n",
    "more data than size": b"1\r\nhunter2\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("name", MALFORMED_BODIES)
def test_a_malformed_body_is_refused_and_its_reader_is_told(
    server: Served, wire: Wire, name: str
) -> None:
    wire.send(CHUNKED + MALFORMED_BODIES[name] + GOOD)
    assert_refused(wire, 400)
    assert server.app.is_told_of_the_end(wire)
    assert server.app.targets_of(wire) == ["POST /echo"]


@given(
    name=st.sampled_from(["good", *MALFORMED]),
    cuts=st.lists(st.integers(1, 60), min_size=1, max_size=8),
)
@settings(max_examples=40, deadline=None)
def test_however_the_bytes_are_cut_the_verdict_is_the_same(
    patient_server: Served, name: str, cuts: list[int]
) -> None:
    data = MALFORMED.get(name, GOOD)
    with Wire(patient_server.port) as wire:
        for cut in cuts:
            wire.send_while_taken(data[:cut])
            data = data[cut:]
        wire.send_while_taken(data)
        assert wire.answer().status == (200 if name == "good" else 400)


# --- one after another ---------------------------------------------------------------------------


def test_a_refusal_waits_for_the_answer_to_the_request_before_it(loop: str) -> None:
    with served(EdgeLimits(), loop) as server, Wire(server.port) as wire:
        wire.send(b"GET /held HTTP/1.1\r\n" + HOST + b"\r\n" + MALFORMED["bare LF"] + GOOD)
        assert server.app.reached.acquire(timeout=SECONDS_MAX)
        assert server.edge.refused.total() == 0
        server.app.let_go.set()
        assert wire.answer().body == b"held"
        assert_refused(wire, 400)
        assert server.app.targets_of(wire) == ["GET /held"]


def test_a_bad_body_in_the_line_is_refused_in_its_turn(loop: str) -> None:
    with served(EdgeLimits(), loop) as server, Wire(server.port) as wire:
        wire.send(b"GET /held HTTP/1.1\r\n" + HOST + b"\r\n" + CHUNKED + b"zz\r\n" + GOOD)
        assert server.app.reached.acquire(timeout=SECONDS_MAX)
        server.app.let_go.set()
        assert wire.answer().body == b"held"
        assert_refused(wire, 400)
        assert server.app.targets_of(wire) == ["GET /held"]


def test_what_follows_a_length_that_is_too_short_is_not_executed(
    server: Served, wire: Wire
) -> None:
    wire.send(POST + b"Content-Length: 2\r\n\r\nabcGET /smuggled HTTP/1.1\r\n" + HOST + b"\r\n")
    assert wire.answer().body == b"2"
    assert_refused(wire, 400)
    assert server.app.targets_of(wire) == ["POST /echo"]


def test_too_many_pipelined_requests_are_refused(loop: str) -> None:
    with served(EdgeLimits(pipelined_max=4), loop) as server, Wire(server.port) as wire:
        wire.send(b"GET /held HTTP/1.1\r\n" + HOST + b"\r\n" + GOOD * 20)
        assert server.app.reached.acquire(timeout=SECONDS_MAX)
        server.app.let_go.set()
        assert [wire.answer().status for _ in range(5)] == [200] * 5
        assert_refused(wire, 429)
        assert len(server.app.seen_from(wire)) == 5


def test_a_peer_that_leaves_ends_the_request_being_answered_and_not_only_the_last(
    loop: str,
) -> None:
    with served(EdgeLimits(), loop) as server:
        with Wire(server.port) as wire:
            wire.send(b"GET /watch HTTP/1.1\r\n" + HOST + b"\r\n" + GOOD)
            assert server.app.reached.acquire(timeout=SECONDS_MAX)
        assert server.app.is_told_of_the_end(wire)


# --- size ----------------------------------------------------------------------------------------


def head(*, headers: int = 0, value: int = 0, target: int = 1) -> bytes:
    lines = [b"GET /%b HTTP/1.1" % (b"t" * (target - 1)), b"Host: a"]
    lines += [b"X-%d: y" % n for n in range(headers)]
    lines += [b"Authorization: Bearer " + b"t" * value] if value else []
    return b"\r\n".join([*lines, b"", b""])


@pytest.mark.parametrize(
    ("request_head", "status"),
    [
        pytest.param(head(headers=99), 200, id="100 headers"),
        pytest.param(head(headers=100), 431, id="101 headers"),
        pytest.param(head(headers=100_000), 431, id="100 k headers"),
        pytest.param(head(value=10_000), 200, id="10 kB token"),
        pytest.param(head(value=65_536), 431, id="64 kB header"),
        pytest.param(head(value=1_000_000), 431, id="1 MB token"),
        pytest.param(head(target=8192), 200, id="8 KiB target"),
        pytest.param(head(target=8193), 414, id="more than 8 KiB target"),
        pytest.param(head(target=1_000_000), 414, id="1 MB target"),
        pytest.param(b"\r\n" * 100_000, 431, id="empty lines before a request"),
    ],
)
def test_a_head_has_its_size(server: Served, wire: Wire, request_head: bytes, status: int) -> None:
    wire.send_while_taken(request_head)
    if status == 200:
        assert wire.answer().status == 200
    else:
        assert_refused(wire, status)
        assert server.app.seen_from(wire) == []


@pytest.mark.parametrize("piece_bytes", [100_000, 1000])
@pytest.mark.parametrize(("over", "status"), [(0, 200), (1, 431)])
def test_a_head_is_counted_to_the_byte(
    wire: Wire, piece_bytes: int, over: int, status: int
) -> None:
    limit = EdgeLimits().head_bytes_max
    request_head = head(value=limit - len(head(value=1)) + 1 + over)
    assert len(request_head) == limit + over
    for at in range(0, len(request_head), piece_bytes):
        wire.send(request_head[at : at + piece_bytes])
    assert wire.answer().status == status


def test_a_large_body_behind_a_head_that_was_cut_is_not_taken_for_headers(wire: Wire) -> None:
    first = POST + b"Content-Length: 100000\r\n\r"
    wire.send(first)
    wire.send(b"\n" + bytes(100_000) + GOOD)
    assert wire.answer().body == b"100000"
    assert wire.answer().status == 200


def test_a_body_is_not_counted_as_the_head_of_the_next_request(wire: Wire) -> None:
    body = POST + b"Content-Length: 30000\r\n\r\n" + bytes(30_000)
    for _ in range(5):
        wire.send(body + GOOD[:10])
        assert wire.answer().body == b"30000"
        wire.send(GOOD[10:])
        assert wire.answer().status == 200


# --- bodies --------------------------------------------------------------------------------------


def rss_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def test_a_body_shorter_than_its_length_is_refused_when_the_peer_ends(
    server: Served, wire: Wire
) -> None:
    wire.send(POST + b"Content-Length: 100\r\n\r\nabc")
    wire.end()
    assert_refused(wire, 400)
    assert server.app.is_told_of_the_end(wire)
    assert server.refused(Reason.TRUNCATED) == 1


def test_a_head_that_ends_in_the_middle_is_refused(server: Served, wire: Wire) -> None:
    wire.send(GOOD[:20])
    wire.end()
    assert_refused(wire, 400)


def test_a_million_chunks_of_one_byte_are_read_in_flat_memory(wire: Wire) -> None:
    block = b"1\r\na\r\n" * 10_000
    wire.send(CHUNKED)
    before, most = rss_bytes(), 0
    for _ in range(100):
        wire.send(block)
        most = max(most, rss_bytes())
    wire.send(b"0\r\n\r\n")
    assert wire.answer().body == b"1000000"
    assert most - before < 16 * 1024 * 1024


@pytest.mark.parametrize(
    "flood",
    [
        pytest.param(b"1;" + b"x" * 1_000_000, id="a chunk extension"),
        pytest.param(b"1;x=" + b"x" * 1_000_000, id="the value of a chunk extension"),
        pytest.param(b"1;" + b"x" * 60 + b"\r\na\r\n", id="extensions on tiny chunks"),
        pytest.param(b"0\r\nX: " + b"x" * 1_000_000, id="a trailer"),
        pytest.param(b"0\r\n" + b"X: y\r\n" * 100_000, id="many trailers"),
        pytest.param(b"64\r\n" + bytes(100) + b"\r\n0\r\nX: " + b"x" * 500_000, id="late trailer"),
    ],
)
def test_chunks_that_carry_next_to_nothing_are_refused(
    server: Served, wire: Wire, flood: bytes
) -> None:
    before = rss_bytes()
    wire.send(CHUNKED)
    repeated = flood * (1 + 1_000_000 // len(flood))
    assert wire.send_while_taken(repeated) > 0
    assert_refused(wire, 400)
    assert server.refused(Reason.OVERHEAD) == 1
    assert rss_bytes() - before < 16 * 1024 * 1024


def test_trailers_are_not_headers(server: Served, wire: Wire) -> None:
    wire.send(CHUNKED + b"1\r\na\r\n0\r\nX-Forged: yes\r\nHost: b\r\n\r\n" + GOOD)
    assert wire.answer().body == b"1"
    assert wire.answer().status == 200
    assert [dict(scope["headers"]).get(b"x-forged") for scope in server.app.seen_from(wire)] == [
        None,
        None,
    ]


def test_a_refusal_by_the_application_is_read_by_a_peer_that_goes_on_sending(
    loop: str,
) -> None:
    with served(EdgeLimits(linger_seconds=5), loop) as server, Wire(server.port) as wire:
        wire.send(b"POST /unread HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n")
        block = b"10000\r\n" + bytes(65_536) + b"\r\n"
        before = rss_bytes()
        assert wire.send_while_taken(block * 200) == len(block * 200)
        assert wire.answer().status == 413
        assert wire.is_closed()
        assert rss_bytes() - before < 32 * 1024 * 1024


def test_a_small_body_that_nobody_reads_does_not_cost_the_connection(wire: Wire) -> None:
    wire.send(b"POST /unread HTTP/1.1\r\n" + HOST + b"Content-Length: 200000\r\n\r\n")
    assert wire.answer().status == 413
    wire.send(bytes(200_000) + GOOD)
    assert wire.answer().status == 200


# --- time ----------------------------------------------------------------------------------------


def test_a_connection_that_says_nothing_is_closed(hasty: Served) -> None:
    with Wire(hasty.port) as wire:
        assert EARLY < wire.seconds_until_closed() < LATE
    assert hasty.refused(Reason.SILENT) == 1


def test_a_head_that_does_not_end_is_refused_however_steadily_it_drips(hasty: Served) -> None:
    with Wire(hasty.port) as wire:
        began = time.monotonic()
        wire.sock.settimeout(0.05)
        for byte in head(value=10_000):
            wire.send_while_taken(bytes([byte]))
            try:
                wire.buffer += wire.sock.recv(1)
                break
            except TimeoutError:
                continue
        wire.sock.settimeout(SECONDS_MAX)
        assert EARLY < time.monotonic() - began < LATE
        assert_refused(wire, 408)
    assert hasty.refused(Reason.SLOW_HEAD) == 1


def test_a_second_head_has_its_own_time(hasty: Served) -> None:
    with Wire(hasty.port) as wire:
        wire.send(GOOD)
        assert wire.answer().status == 200
        wire.send(GOOD[:10])
        assert_refused(wire, 408)


@pytest.mark.parametrize(
    "framing", [b"Content-Length: 10\r\n\r\nabc", b"Transfer-Encoding: chunked\r\n\r\n1\r\na"]
)
def test_a_body_that_stops_is_refused(hasty: Served, framing: bytes) -> None:
    with Wire(hasty.port) as wire:
        wire.send(POST + framing)
        assert_refused(wire, 408)
        assert hasty.app.is_told_of_the_end(wire)
    assert hasty.refused(Reason.SLOW_BODY) == 1


def test_a_body_that_drips_is_refused(hasty: Served) -> None:
    with Wire(hasty.port) as wire:
        wire.send(POST + b"Content-Length: 100000\r\n\r\n")
        began = time.monotonic()
        wire.sock.settimeout(0.05)
        while not wire.buffer and time.monotonic() - began < LATE:
            wire.send_while_taken(b"a")
            try:
                wire.buffer += wire.sock.recv(1)
            except TimeoutError:
                continue
        assert wire.buffer, "it was still listened to"
        wire.sock.settimeout(SECONDS_MAX)
        assert_refused(wire, 408)


def test_a_slow_body_that_keeps_the_pace_is_read_through_many_windows(hasty: Served) -> None:
    with Wire(hasty.port) as wire:
        began = time.monotonic()
        wire.send(POST + b"Transfer-Encoding: chunked\r\n\r\n")
        sent = 0
        wire.sock.settimeout(0.05)
        while time.monotonic() - began < 4 * HASTY.body_window_seconds:
            wire.send(b"400\r\n" + bytes(1024) + b"\r\n")
            sent += 1024
            with pytest.raises(TimeoutError):
                wire.sock.recv(1)
        wire.sock.settimeout(SECONDS_MAX)
        wire.send(b"0\r\n\r\n")
        assert wire.answer().body == b"%d" % sent


def test_time_in_which_nobody_reads_is_not_held_against_the_sender(hasty: Served) -> None:
    with Wire(hasty.port) as wire:
        size = 200_000
        wire.send(
            b"POST /held-then-read HTTP/1.1\r\n" + HOST + b"Content-Length: %d\r\n\r\n" % size
        )
        wire.send(bytes(size - 1))
        wire.stays_silent(3 * HASTY.body_window_seconds)
        hasty.app.let_go.set()
        wire.send(b"a")
        assert wire.answer().body == b"%d" % size


def test_a_sender_that_waits_for_100_continue_is_not_slow(hasty: Served) -> None:
    with Wire(hasty.port) as wire:
        wire.send(
            b"POST /held-then-read HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n"
        )
        wire.stays_silent(3 * HASTY.body_window_seconds)
        hasty.app.let_go.set()
        assert wire._until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue"
        wire.send(b"abc")
        assert wire.answer().body == b"3"


def test_a_long_answer_has_its_time_and_so_has_the_head_that_waits_behind_it(
    hasty: Served,
) -> None:
    with Wire(hasty.port) as wire:
        wire.send(b"GET /held HTTP/1.1\r\n" + HOST + b"\r\n" + GOOD[:10])
        wire.stays_silent(3 * HASTY.head_seconds)
        hasty.app.let_go.set()
        assert wire.answer().body == b"held"
        wire.send(GOOD[10:])
        assert wire.answer().status == 200


def test_a_head_that_could_come_only_late_has_a_whole_window_of_its_own(loop: str) -> None:
    with served(EdgeLimits(head_seconds=1), loop) as server, Wire(server.port) as wire:
        wire.send(b"GET /held HTTP/1.1\r\n" + HOST + b"\r\n")
        assert server.app.reached.acquire(timeout=SECONDS_MAX)
        wire.send(GOOD[:10])
        wire.stays_silent(1.6)
        server.app.let_go.set()
        assert wire.answer().body == b"held"
        wire.stays_silent(0.7)
        wire.send(GOOD[10:])
        assert wire.answer().status == 200


def test_an_idle_connection_is_closed_after_the_servers_own_time(loop: str) -> None:
    with served(EdgeLimits(), loop, timeout_keep_alive=1) as server, Wire(server.port) as wire:
        for _ in range(3):
            wire.send(GOOD)
            assert wire.answer().status == 200
            wire.stays_silent(0.6)
        assert 0.2 < wire.seconds_until_closed() < LATE
        assert server.edge.refused.total() == 0


@pytest.mark.parametrize("run", [uvloop.run, asyncio.run])
def test_a_wait_that_is_over_at_once_does_not_hinder_the_next(
    run: Callable[[Coroutine[Any, Any, None]], None],
) -> None:
    async def main() -> None:
        here, there = socket.socketpair()
        config = uvicorn.Config(App(), timeout_keep_alive=0, log_config=None)
        protocol = guarded(EdgeLimits())(config, ServerState(), {})
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_accepted_socket(lambda: protocol, here)
        try:
            protocol.wait_for_next()
            protocol.wait_for(Wait.HEAD)
            assert protocol.waiting_for is Wait.HEAD
        finally:
            transport.abort()
            there.close()

    run(main())


def test_a_server_may_keep_no_idle_connection_at_all(loop: str) -> None:
    with served(EdgeLimits(), loop, timeout_keep_alive=0) as server:
        for _ in range(5):
            with Wire(server.port) as wire:
                wire.send(b"GET /held HTTP/1.1\r\n" + HOST + b"\r\n" + GOOD * 3)
                server.app.let_go.set()
                assert [wire.answer().status for _ in range(4)] == [200] * 4
                assert wire.is_closed()


def test_an_answer_that_nobody_takes_is_given_up(hasty: Served) -> None:
    with Wire(hasty.port, receive_buffer=4096) as wire:
        wire.send(b"GET /large HTTP/1.1\r\n" + HOST + b"\r\n")
        assert hasty.app.reached.acquire(timeout=SECONDS_MAX)
        wait_until(lambda: hasty.refused(Reason.UNSENT) == 1)


def test_a_refused_peer_that_goes_on_sending_is_cut_off(hasty: Served) -> None:
    with Wire(hasty.port) as wire:
        wire.send(MALFORMED["bare LF"])
        began = time.monotonic()
        while time.monotonic() - began < LATE and wire.send_while_taken(bytes(1000)) == 1000:
            time.sleep(0.01)
        assert EARLY < time.monotonic() - began < LATE


# --- other protocols -----------------------------------------------------------------------------


@pytest.mark.parametrize("offer", [b"h2c", b"TLS/1.0", b"websocket, h2c"])
def test_an_offer_of_another_protocol_is_ignored_and_the_body_stays_a_body(
    server: Served, wire: Wire, offer: bytes
) -> None:
    request = POST + UPGRADE % offer + b"Content-Length: %d\r\n\r\n" % len(GOOD)
    wire.send(request)
    wire.send(GOOD)
    assert wire.answer().body == b"%d" % len(GOOD)
    wire.send(request + GOOD + request + GOOD)
    assert [wire.answer().body for _ in range(2)] == [b"%d" % len(GOOD)] * 2
    assert server.app.targets_of(wire) == ["POST /echo"] * 3


def test_what_follows_an_ignored_offer_is_refused_for_its_own_reason(
    server: Served, wire: Wire
) -> None:
    wire.send(b"GET / HTTP/1.1\r\n" + HOST + UPGRADE % b"h2c" + b"\r\n" + head(headers=100))
    assert wire.answer().status == 200
    assert_refused(wire, 431)


def test_an_offer_in_http_1_0_is_ignored(server: Served, wire: Wire) -> None:
    wire.send(WEBSOCKET.replace(b"HTTP/1.1", b"HTTP/1.0") + b"\r\n")
    assert wire.answer().status == 200
    assert server.app.targets_of(wire) == ["GET /ws"]


def test_a_websocket_outlives_the_limits_of_requests(hasty: Served) -> None:
    with connect(f"ws://127.0.0.1:{hasty.port}/ws", proxy=None) as websocket:
        for text in ("a", "b"):
            websocket.send(text)
            assert websocket.recv(timeout=SECONDS_MAX) == text
            with pytest.raises(TimeoutError):
                websocket.recv(timeout=2 * HASTY.first_byte_seconds)


def test_a_websocket_follows_a_request_on_the_same_connection(server: Served, wire: Wire) -> None:
    wire.send(GOOD)
    assert wire.answer().status == 200
    wire.send(WEBSOCKET + b"\r\n")
    assert wire._until(b"\r\n\r\n").startswith(b"HTTP/1.1 101 ")


def test_a_websocket_does_not_overtake_an_answer(loop: str) -> None:
    with served(EdgeLimits(), loop) as server, Wire(server.port) as wire:
        wire.send(b"GET /held HTTP/1.1\r\n" + HOST + b"\r\n" + WEBSOCKET + b"\r\n")
        assert server.app.reached.acquire(timeout=SECONDS_MAX)
        server.app.let_go.set()
        assert wire.answer().body == b"held"
        assert_refused(wire, 400)


def test_a_websocket_is_refused_by_the_same_head_rules(server: Served) -> None:
    with pytest.raises(InvalidStatus) as refused:
        connect(
            f"ws://127.0.0.1:{server.port}/ws",
            proxy=None,
            additional_headers={f"X-{n}": "y" for n in range(100)},
        )
    assert refused.value.response.status_code == 431


@pytest.mark.parametrize(
    ("header_bytes", "target_bytes", "status"),
    [(8188, 1, 101), (8189, 1, 431), (10, 8177, 101), (10, 8178, 414)],
)
def test_a_websocket_whose_lines_are_too_long_for_it_is_answered_all_the_same(
    wire: Wire, header_bytes: int, target_bytes: int, status: int
) -> None:
    target = b"/" + b"t" * (target_bytes - 1)
    cookie = b"Cookie: " + b"c" * (header_bytes - len("Cookie")) + b"\r\n"
    wire.send(WEBSOCKET.replace(b"/ws", target) + cookie + b"\r\n")
    assert int(wire._until(b"\r\n\r\n").split()[1]) == status


# --- how many ------------------------------------------------------------------------------------


def test_whoever_comes_when_all_places_are_taken_is_told_to_come_back(loop: str) -> None:
    with served(EdgeLimits(connections_max=2, linger_seconds=5), loop) as server:
        with Wire(server.port) as first, Wire(server.port) as second, Wire(server.port) as third:
            for wire in (first, second):
                wire.send(GOOD)
                assert wire.answer().status == 200
            third.send(GOOD)
            answer = assert_refused(third, 503)
            assert answer.headers["retry-after"] == "1"
            assert json.loads(answer.body)["error"]["code"] == "SERVICE_UNAVAILABLE"
            assert len(server.app.seen) == 2
            second.send(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            assert second.answer().status == 200
            assert second.is_closed()
            with Wire(server.port) as fourth:
                fourth.send(GOOD)
                assert fourth.answer().status == 200
        assert server.refused(Reason.CROWDED) == 1


def test_those_who_are_turned_away_are_bounded_too(loop: str) -> None:
    limits = EdgeLimits(connections_max=1, turned_away_max=1, linger_seconds=5)
    with served(limits, loop) as server, Wire(server.port) as first:
        first.send(GOOD)
        assert first.answer().status == 200
        with Wire(server.port) as told, Wire(server.port) as untold:
            assert told.answer().status == 503
            assert untold.is_closed()
        assert server.refused(Reason.CROWDED) == 2
        wait_until(lambda: server.edge.turned_away == 0)
        with Wire(server.port) as told_again:
            assert told_again.answer().status == 503


def test_refusals_are_told_to_whoever_counts_them() -> None:
    told: list[Reason] = []
    edge = guarded(EdgeLimits(), on_refused=told.append).edge
    edge.count(Reason.HOST)
    assert told == [Reason.HOST]
    assert edge.refused[Reason.HOST] == 1
