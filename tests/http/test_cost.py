"""What the worst inputs cost a real server: no 500, under 1 s of CPU each, under 256 MiB in all (P40)."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx
import pytest

from tests.http.process import Running, running
from tests.http.raw import Wire

pytestmark = pytest.mark.xdist_group("cost")

MEBIBYTE = 1024 * 1024
LARGEST = 10 * MEBIBYTE
CPU_SECONDS_MAX = 1.0
RESIDENT_BYTES_MAX = 256 * MEBIBYTE

HEAD = b'{"items":[{"queue":"q","payload":'
TAIL = b"}]}"


def repeated(part: bytes, end: bytes = b"", size: int = LARGEST) -> bytes:
    return part * ((size - len(end)) // len(part)) + end


def as_payload(part: bytes, opening: bytes, closing: bytes, count: int | None = None) -> bytes:
    room = LARGEST - len(HEAD + TAIL + opening + closing)
    return HEAD + opening + part * (count or room // len(part)) + closing + TAIL


def keys(count: int, size: int = 1) -> bytes:
    return b",".join(b'"%b%d":1' % (b"k" * size, n) for n in range(count))


def items(item: bytes, count: int) -> bytes:
    return b'{"items":[' + b",".join([item] * count) + b"]}"


BODIES: dict[str, bytes] = {
    "100,000 nested lists": b"[" * 100_000,
    "100,000 nested objects": b'{"a":' * 100_000,
    "10 MiB of [": b"[" * LARGEST,
    "10 MiB of []": as_payload(b"[],", b"[", b"[]]"),
    "10 MiB of {}": as_payload(b"{},", b"[", b"{}]"),
    "10 MiB of numbers": as_payload(b"1,", b"[", b"1]"),
    "10 MiB of fractions": as_payload(b"1.5,", b"[", b"1]"),
    "10 MiB of empty texts": as_payload(b'"",', b"[", b"1]"),
    "1 M items": as_payload(b"1,", b"[", b"1]", 1_000_000),
    "10 MiB of quotes": b'"' * LARGEST,
    "10 MiB of escaped quotes": as_payload(b'\\"', b'"', b'"'),
    "10 MiB of escaped quotes that never end": b'"' + b'\\"' * (LARGEST // 2 - 1),
    "10 MiB of backslashes": b'"' + b"\\" * (LARGEST - 1),
    "10 MiB of escapes": as_payload(b"\\u4e2d", b'"', b'"'),
    "10 MiB of NUL escapes": as_payload(b"\\u0000", b'"', b'"'),
    "10 MiB of half surrogates": as_payload(b"\\ud83d", b'"', b'"'),
    "10 MiB of emoji": as_payload("😀".encode(), b'"', b'"'),
    "10 MiB of brackets in a text": as_payload(b"[{,", b'"', b'"'),
    "10 MiB of spaces": b" " * LARGEST,
    "10 MiB of one digit": as_payload(b"9", b"", b""),
    "10 MiB of a fraction": as_payload(b"9", b"0.", b""),
    "10 MiB of an exponent": as_payload(b"9", b"1e", b""),
    "5,000 digits": as_payload(b"9", b"", b"", 5_000),
    "10,000 keys": b"{" + keys(10_000) + b"}",
    "190,000 keys beside": b"{" + keys(190_000) + b"}",
    "190,000 keys inside": b'{"items":[{"queue":"q",' + keys(190_000) + b"}]}",
    "190 unknown keys in each of 1,000 items": items(b'{"queue":"q",' + keys(190) + b"}", 1_000),
    "45 unknown keys in each of 1,000 items": items(b'{"queue":"q",' + keys(45) + b"}", 1_000),
    "one key of 1 MB": b'{"' + b"k" * 1_000_000 + b'":1}',
    "ten keys of 1 MB": b"{" + keys(10, 1_000_000) + b"}",
    "5 MB in a payload": as_payload(b"x", b'"', b'"', 5_000_000),
    "1,000 items that are wrong": items(b'{"queue":""}', 1_000),
    "100,000 items": items(b'{"queue":"q"}', 100_000),
    "1,000 items of 10 kB": items(b'{"queue":"q","payload":"%b"}' % (b"y" * 10_000), 1_000),
    "depth 64 a thousand times": items(
        b'{"queue":"q","payload":%b}' % (b"[" * 60 + b"]" * 60), 1_000
    ),
    "invalid UTF-8 at the end": HEAD + b'"' + b"x" * (LARGEST - 100) + b'\xff"' + TAIL,
    "invalid UTF-8 everywhere": HEAD + b'"' + b"\xff" * (LARGEST - 100) + b'"' + TAIL,
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("cost")) as running_server:
        yield running_server


@pytest.fixture(scope="module")
def caller(server: Running) -> Iterator[httpx.Client]:
    with server.caller() as client:
        yield client


@pytest.mark.parametrize("name", BODIES)
def test_a_body_costs_less_than_a_second(server: Running, caller: httpx.Client, name: str) -> None:
    body = BODIES[name]
    assert len(body) <= LARGEST
    before = server.cpu_seconds()
    answer = caller.post("/api/work", content=body, headers={"content-type": "application/json"})
    spent = server.cpu_seconds() - before
    assert answer.status_code in (201, 400, 413), answer.text[:300]
    assert len(answer.content) < 100_000
    assert spent < CPU_SECONDS_MAX
    assert server.resident_bytes_max() < RESIDENT_BYTES_MAX


HEADERS = {
    "a name of 31 kB": {"x" * 31_000: "1"},
    "a value of 31 kB": {"x": "y" * 31_000},
    "99 headers": {f"x-{n}": "y" * 100 for n in range(80)},
    "a cookie of 31 kB": {"cookie": "podium_session=" + "x" * 31_000},
    "8,000 cookies": {"cookie": "; ".join(["a=b"] * 6_000)},
    "a long Accept": {"accept": ";version=1" * 3_000},
    "a long Content-Type": {"content-type": "application/json;" + " " * 30_000 + "x"},
    "a long Idempotency-Key": {"idempotency-key": "k" * 31_000},
    "a long Last-Event-ID": {"last-event-id": "1" * 31_000},
    "a long X-Service-Name": {"x-service-name": "\x7f" * 1_000},
    "a long traceparent": {"traceparent": "00-" + "a" * 31_000},
    "a long token": {"authorization": "Bearer " + "podium_" * 4_000},
}


@pytest.mark.parametrize("name", HEADERS)
def test_a_header_costs_next_to_nothing(server: Running, caller: httpx.Client, name: str) -> None:
    before = server.cpu_seconds()
    for method, path in (("GET", "/docs"), ("POST", "/api/work"), ("GET", "/api/work/x")):
        answer = caller.request(method, path, headers=HEADERS[name])
        assert answer.status_code < 500, (path, answer.text)
    assert server.cpu_seconds() - before < CPU_SECONDS_MAX
    assert server.resident_bytes_max() < RESIDENT_BYTES_MAX


@pytest.mark.parametrize(
    "target",
    [
        "/api/work/" + "a/" * 3_900,
        "/api/deadletters?" + "&".join(["limit=1"] * 900),
        "/api/deadletters?cursor=" + "A" * 8_000,
        "/" + "%ff" * 2_600,
        "/" * 8_000,
    ],
    ids=["many slashes", "a repeated parameter", "a long cursor", "escapes", "slashes"],
)
def test_an_address_costs_next_to_nothing(
    server: Running, caller: httpx.Client, target: str
) -> None:
    before = server.cpu_seconds()
    with Wire(server.port) as wire:
        head = f"GET {target} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {server.token}\r\n\r\n"
        wire.send(head.encode())
        assert wire.answer().status in (200, 400, 404, 414)
    assert server.cpu_seconds() - before < CPU_SECONDS_MAX


def test_many_large_bodies_at_once_stay_within_bounds(server: Running) -> None:
    """Eight that are sent side by side, each as large as it may be."""
    body = as_payload(b"x", b'"', b'"')
    head = (
        f"POST /api/work HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {server.token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode()
    wires = [Wire(server.port) for _ in range(8)]
    try:
        for wire in wires:
            wire.send(head)
        for wire in wires:
            wire.send(body)
        statuses = [wire.answer().status for wire in wires]
    finally:
        for wire in wires:
            wire.sock.close()
    assert set(statuses) <= {413, 503}
    assert server.resident_bytes_max() < RESIDENT_BYTES_MAX


def test_nothing_of_it_was_a_failure_of_ours(server: Running, caller: httpx.Client) -> None:
    metrics = caller.get("/metrics").text
    assert 'status="500"' not in metrics
    log = [json.loads(line) for line in server.log.read_text().splitlines()]
    assert [line for line in log if line["level"] in ("error", "warning")] == []
