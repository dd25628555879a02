"""Bodies: rows C1 to C8 and C10 of the hostile corpus, on every route that takes JSON. C9 is test_protocol's."""

from __future__ import annotations

import gzip
import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podium.contracts.scopes import Scope
from podium.http import bodies
from podium.http.bodies import VALUES_MAX, loads
from podium.http.guard import Declared, post
from podium.kernel.errors import Invalid
from podium.kernel.payload import DEPTH_MAX
from tests.http.calls import Answer, Header, ask, bearer, scope_of
from tests.http.conftest import MakeHome
from tests.http.houses import Home, declared_routes, sqlite_home, with_front

JSON: Header = (b"content-type", b"application/json")
GOOD = b'{"items":[{"queue":"q"}]}'


def takers(home: Home) -> list[Declared]:
    found = [it for it in declared_routes(home.app) if it.takes == bodies.JSON]
    assert len(found) >= 10
    return found


async def send(
    home: Home, body: bytes | list[bytes], path: str = "/api/work", *headers: Header
) -> Answer:
    sent = [bearer(home.admin), *(headers or [JSON])]
    return await ask(home, "POST", path, sent, body)


async def assert_refused_everywhere(home: Home, body: bytes, status: int = 400) -> None:
    for route in takers(home):
        answer = await send(home, body, route.path.replace("{id}", "0123456789ab"))
        assert answer.status == status, (route.path, body[:50], answer.body)
        assert len(answer.body) < 10_000


async def assert_nothing_stored(home: Home) -> None:
    assert await home.query("select id from work") == []


NOT_JSON = [
    b"",
    b"null",
    b"[]",
    b'"x"',
    b"123",
    b"true",
    b'{"items":[{"queue":"q"}',
    b'{"items":[{"queue":"q"}]}{}',
    b'{"items":[{"queue":"q"}]} x',
    b"\xef\xbb\xbf" + GOOD,
    GOOD.decode().encode("utf-16"),
    GOOD.decode().encode("utf-32"),
    b'{"items":[{"queue":"\xff"}]}',
    b'{"items":[{"queue":"\xc0\x80"}]}',
    b'{"items":[{"queue":"\xed\xa0\x80"}]}',
    b'{"items":[{"queue":"\\ud800"}]}',
    b'{"items":[{"queue":"q","payload":"\\udfff"}]}',
    b'{"items":[{"queue":"q","payload":{"\\ud800":1}}]}',
    b'{"items":[{"queue":"q","payload":"\\u0000"}]}',
    b'{"items":[{"queue":"q","payload":{"a\\u0000":1}}]}',
    b'{"items":[{"queue":"q\\u0000"}]}',
    b"{'items':[]}",
    b'{"items":[{"queue":"q"},]}',
    b'{"items":[{"queue":"a\nb"}]}',
    b'{"items":[{"queue":"q"}]} // done',
    b"\x00",
    b"items=1",
]


async def test_c1_what_is_not_one_json_object_is_400(home: Home) -> None:
    for body in NOT_JSON:
        await assert_refused_everywhere(home, body)
    await assert_nothing_stored(home)


ODD_TEXTS = [
    ("/api/work/cancel", b'{"ids":["a"],"reason":"%b"}'),
    ("/api/work/report", b'{"failed":[{"id":"a","epoch":1,"error":"%b"}]}'),
    ("/api/work/renew", b'{"grants":[{"id":"%b","epoch":1}]}'),
    ("/api/work/claim", b'{"queues":["%b"],"holder":"h"}'),
    ("/api/deadletters/replay", b'{"ids":["%b"]}'),
    ("/api/tokens", b'{"name":"%b","scopes":["read"]}'),
]


async def test_c1_half_a_surrogate_and_nul_are_refused_wherever_a_text_may_stand(
    home: Home,
) -> None:
    for path, body in ODD_TEXTS:
        for odd in (b"\\ud800", b"x\\udc00y", b"\\u0000", b"a\\u0000b"):
            answer = await send(home, body % odd, path)
            assert answer.status == 400, (path, odd, answer.body)
            assert answer.error["details"] == {"field": "body"}


async def test_c2_nesting_is_refused_before_it_is_parsed(home: Home) -> None:
    for body in (
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"[{" * 50_000,
        b'{"items":[{"queue":"q","payload":' + b"[" * 62 + b"]" * 62 + b"}]}",
        b"[" * 65 + b"]" * 65,
    ):
        answer = await send(home, body)
        assert answer.status == 400
        assert answer.error["message"] == f"the body is nested deeper than {DEPTH_MAX}"
    await assert_nothing_stored(home)


async def test_c2_brackets_in_a_text_are_no_nesting(home: Home) -> None:
    payload = '[{"' * 1_000 + "\\" * 5
    body = json.dumps({"items": [{"queue": "q", "payload": payload}]}).encode()
    assert (await send(home, body)).status == 201


TWO_WAYS = [
    b'{"items":[{"queue":"q","queue":"r"}]}',
    b'{"items":[{"queue":"q"}],"items":[]}',
    b'{"items":[{"queue":"q","payload":{"a":1,"a":2}}]}',
    b'{"items":[{"queue":"q","payload":{"a":1,"\\u0061":2}}]}',
    b'{"items":[{"queue":"q","payload":NaN}]}',
    b'{"items":[{"queue":"q","payload":Infinity}]}',
    b'{"items":[{"queue":"q","payload":-Infinity}]}',
    b'{"items":[{"queue":"q","payload":1e400}]}',
    b'{"items":[{"queue":"q","payload":-1e400}]}',
    b'{"items":[{"queue":"q","payload":%b}]}' % (b"9" * 5_000),
    b'{"items":[{"queue":"q","payload":9223372036854775808}]}',
    b'{"items":[{"queue":"q","payload":-9223372036854775809}]}',
    b'{"items":[{"queue":"q","payload":01}]}',
    b'{"items":[{"queue":"q","payload":+1}]}',
    b'{"items":[{"queue":"q","payload":.5}]}',
    b'{"items":[{"queue":"q","payload":0x1}]}',
]


async def test_c3_what_two_parsers_read_in_two_ways_is_400(home: Home) -> None:
    for body in TWO_WAYS:
        await assert_refused_everywhere(home, body)
    await assert_nothing_stored(home)


async def test_c3_the_largest_numbers_there_are_come_back_as_they_were(home: Home) -> None:
    numbers = [2**63 - 1, -(2**63), 1.7976931348623157e308, 5e-324, 0, -0.5]
    body = json.dumps({"items": [{"queue": "q", "id": "n", "payload": numbers}]}).encode()
    assert (await send(home, body)).status == 201
    claimed = await send(home, b'{"queues":["q"],"holder":"h"}', "/api/work/claim")
    assert json.loads(claimed.body)["items"][0]["payload"] == numbers


async def test_c4_a_body_that_is_too_large_is_413_and_is_not_kept(make_home: MakeHome) -> None:
    home = await make_home(front=with_front(body_bytes_max=1_000))
    large = GOOD + b" " * 1_000
    for headers in ([], [(b"content-length", b"1025")]):
        answer = await send(home, large, "/api/work", JSON, *headers)
        assert answer.status == 413
        assert answer.error["details"] == {"bytes_max": 1_000}
    # A length that lies, and pieces without end: what is counted is what came.
    assert (await send(home, large, "/api/work", JSON, (b"content-length", b"5"))).status == 413
    pieces = [b" "] * 1_001
    assert (await send(home, pieces)).status == 413
    assert len(pieces) == 0
    endless = [b" " * 100] * 1_000
    assert (await send(home, endless)).status == 413
    assert len(endless) > 980
    await assert_nothing_stored(home)


async def test_c4_a_body_in_small_pieces_is_the_same_body(home: Home) -> None:
    assert (await send(home, [GOOD[n : n + 1] for n in range(len(GOOD))])).status == 201


async def test_c4_a_body_that_breaks_off_is_400(embedded: Home) -> None:
    sent = [{"type": "http.request", "body": GOOD[:10], "more_body": True}]

    async def receive() -> dict[str, Any]:
        return sent.pop() if sent else {"type": "http.disconnect"}

    answers: list[Any] = []

    async def keep(message: Any) -> None:
        answers.append(message)

    scope = scope_of("POST", "/api/work", [bearer(embedded.admin), JSON])
    await embedded.app(scope, receive, keep)
    assert answers[0]["status"] == 400
    await assert_nothing_stored(embedded)


async def test_c5_compressed_bodies_are_415(home: Home) -> None:
    bomb = gzip.compress(bytes(10_000_000))
    for name in (b"gzip", b"br", b"deflate", b"zstd", b"gzip, gzip", b"x"):
        answer = await send(home, bomb, "/api/work", JSON, (b"content-encoding", name))
        assert answer.status == 415
    plain = await send(home, GOOD, "/api/work", JSON, (b"content-encoding", b"identity"))
    assert plain.status == 201


async def test_c6_one_kind_of_body_per_route(home: Home) -> None:
    for kind in (
        b"text/plain",
        b"application/x-www-form-urlencoded",
        b"multipart/form-data; boundary=x",
        b"application/json; charset=utf-7",
        b"application/json; charset=utf-16",
        b"application/json; charset=utf-8; x=y",
        b"application/jsonx",
        b"application/x+json",
        b"*/*",
        b"",
        b"\xff",
    ):
        for route in takers(home):
            path = route.path.replace("{id}", "0123456789ab")
            assert (await send(home, GOOD, path, (b"content-type", kind))).status == 415, kind
    answer = await ask(home, "POST", "/api/work", [bearer(home.admin)], GOOD)
    assert answer.status == 415
    assert (await send(home, GOOD, "/api/work", JSON, JSON)).status == 415
    await assert_nothing_stored(home)


@pytest.mark.parametrize(
    "kind",
    [b"application/json", b"Application/JSON", b'application/json; charset="utf-8"'],
)
async def test_c6_the_same_type_said_differently_is_taken(embedded: Home, kind: bytes) -> None:
    assert (await send(embedded, GOOD, "/api/work", (b"content-type", kind))).status == 201


async def test_c6_a_route_without_a_body_takes_none(home: Home) -> None:
    answer = await send(home, b"{}", "/api/login-links", JSON, (b"content-length", b"2"))
    assert answer.status == 405
    assert (await ask(home, "POST", "/api/login-links", [bearer(home.admin)])).status == 201


async def test_c7_fields_that_nobody_knows_are_400(home: Home) -> None:
    for name in (
        "status", "state", "owner_id", "epoch", "output_r2_key", "tenant_id", "rank", "attempts",
        "__proto__", "constructor", "__class__", "parent", "properties", "", " ", "Queue",
    ):  # fmt: skip
        inside = json.dumps({"items": [{"queue": "q", name: 1}]}).encode()
        beside = json.dumps({"items": [{"queue": "q"}], name: 1}).encode()
        for body in (inside, beside):
            answer = await send(home, body)
            assert answer.status == 400, name
            assert answer.error["code"] == "VALIDATION_INVALID_PARAMS"
    for route in takers(home):
        path = route.path.replace("{id}", "0123456789ab")
        assert (await send(home, b'{"admin":true}', path)).status == 400
    await assert_nothing_stored(home)


async def test_c8_many_of_anything_is_413_or_400(home: Home) -> None:
    keys = json.dumps({f"key{n}": n for n in range(10_000)}).encode()
    inside = b'{"items":[{"queue":"q",' + keys[1:-1] + b"}]}"
    items = b'{"items":[' + b",".join([b'{"queue":"q"}'] * 1_001) + b"]}"
    values = b'{"items":[{"queue":"q","payload":[' + b"1," * 1_000_000 + b"1]}]}"
    long_key = b'{"items":[{"queue":"q","%b":1}]}' % (b"k" * 1_000_000)
    long_text = b'{"items":[{"queue":"q","payload":"%b"}]}' % (b"t" * 5_000_000)
    many_keys_each = b'{"items":[' + b",".join([inside[10:600] + b'"}'] * 900) + b"]}"
    for body, statuses in (
        (keys, {400}),
        (inside, {400}),
        (items, {400}),
        (values, {413}),
        (long_key, {400}),
        (long_text, {413}),
        (many_keys_each, {400}),
    ):
        answer = await send(home, body)
        assert answer.status in statuses, answer.body[:300]
        assert len(answer.body) < 10_000, "the answer repeats too much of the question"
    await assert_nothing_stored(home)


NUMBERS = [
    ("priority", ["1", True, 11, -1, 1.0, 1e18, None]),
    ("attempts_max", ["3", 0, -1, 10**9, 1.5, False]),
    ("lease_seconds", ["60", 0, -1, 1e18, 0.5]),
    ("delay_seconds", ["0", -1, 1e18]),
    ("ttl_seconds", [0, -1, 1e18, "1"]),
    ("run_seconds_max", [0, -1, 1e18, "1"]),
    ("queue", ["", "q" * 256, 1, None, ["q"], "a\tb", "a\nb"]),
    ("id", ["", "i" * 256, 1, "a\x7f"]),
    ("dedupe_key", ["", "k" * 256, 1, "a\x1b"]),
]


async def test_c10_numbers_are_numbers_and_within_their_bounds(home: Home) -> None:
    for field, values in NUMBERS:
        for value in values:
            if (field, value) == ("priority", None):
                continue
            item = {"queue": "q", field: value}
            answer = await send(home, json.dumps({"items": [item]}).encode())
            assert answer.status == 400, (field, value)
            assert field in answer.error["message"]
    for body in (
        {"queues": ["q"], "holder": "h", "n": 0},
        {"queues": ["q"], "holder": "h", "n": 1_001},
        {"queues": ["q"], "holder": "h", "n": "1"},
        {"queues": ["q"], "holder": "h", "wait_seconds": 31},
        {"queues": ["q"], "holder": "h", "start": 1},
        {"queues": ["q"], "holder": "h", "start": "true"},
        {"queues": [], "holder": "h"},
        {"queues": ["q"] * 101, "holder": "h"},
        {"queues": ["q"], "holder": ""},
        {"queues": ["q"], "holder": "a\u0001b"},
    ):
        answer = await send(home, json.dumps(body).encode(), "/api/work/claim")
        assert answer.status == 400, body
    for grant in (
        {"id": "x", "epoch": "1"},
        {"id": "x", "epoch": -1},
        {"id": "x", "epoch": 2**63 - 1},
    ):
        answer = await send(home, json.dumps({"grants": [grant]}).encode(), "/api/work/renew")
        assert answer.status == 400, grant
    for token in (
        {"name": "", "scopes": ["read"]},
        {"name": "n", "scopes": []},
        {"name": "n", "scopes": ["root"]},
        {"name": "n", "scopes": "read"},
        {"name": "n", "scopes": ["read"], "days": 0},
        {"name": "n", "scopes": ["read"], "days": 1e18},
        {"name": "a\nb", "scopes": ["read"]},
    ):
        answer = await send(home, json.dumps(token).encode(), "/api/tokens")
        assert answer.status == 400, token
    await assert_nothing_stored(home)


async def test_a_refusal_repeats_at_most_64_characters_of_what_was_sent(embedded: Home) -> None:
    marker = "Z" * 500
    for body in (
        {"items": [{"queue": marker}]},
        {"items": [{"queue": "q", marker: 1}]},
        {marker: 1},
        {"items": [{"queue": "q", "priority": marker}]},
        {"items": [{"queue": "q", "id": marker}]},
    ):
        answer = await send(embedded, json.dumps(body).encode())
        assert answer.status == 400
        assert b"Z" * 65 not in answer.body


async def test_a_large_body_has_to_be_declared_for_a_route_that_takes_it() -> None:
    async def take(request: dict[str, Any]) -> dict[str, int]:
        return {"size": len(request)}

    small = post("/api/small", take, needs=Scope.ADMIN, body_bytes_max=10)
    async with sqlite_home(more=[small]) as home:
        assert (await send(home, b'{"a":12}', "/api/small")).status == 200
        assert (await send(home, b'{"a":12345}', "/api/small")).status == 413


# --- the parser itself ---------------------------------------------------------------------------

JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text('abc"\\[{,'), inner),
    max_leaves=30,
)


@settings(max_examples=300, deadline=None)
@given(JSON_VALUES, st.booleans(), st.sampled_from([None, 2]))
def test_what_is_json_is_read_as_the_standard_reads_it(
    value: Any, ascii: bool, indent: int | None
) -> None:
    data = json.dumps(value, ensure_ascii=ascii, indent=indent).encode()
    assert loads(data) == json.loads(data)


@settings(max_examples=500, deadline=None)
@given(st.binary(max_size=60) | st.text('[]{}",:\\ntu0e+-.1 ').map(str.encode))
def test_any_bytes_are_json_or_a_refusal(data: bytes) -> None:
    try:
        value = loads(data)
    except Invalid:
        return
    assert value == json.loads(data)


def depth_of(data: bytes) -> int:
    """The plain way to count, for comparison: byte by byte."""
    depth = deepest = 0
    in_text = escaped = False
    for byte in data:
        if in_text:
            in_text = escaped or byte != ord('"')
            escaped = not escaped and byte == ord("\\")
        elif byte == ord('"'):
            in_text = True
        else:
            depth += (byte in b"[{") - (byte in b"]}")
            deepest = max(deepest, depth)
    return deepest


def test_depth_is_counted_as_one_would_by_hand() -> None:
    rng = random.Random(11)
    for _ in range(300):
        value: Any = rng.choice(['[[["', '\\"]', "\\\\", 'a"b', 1])
        for _ in range(rng.randrange(58, 72)):
            other = rng.choice(["]", '["', "\\", '\\"{', 2])
            value = rng.choice([[value], [other, value], {'k"[': value}, {"\\": value, "b": other}])
        data = json.dumps(value).encode()
        if depth_of(data) > DEPTH_MAX:
            with pytest.raises(Invalid, match="nested deeper"):
                loads(data)
        else:
            assert loads(data) == value


def test_values_are_counted_whatever_is_in_the_texts() -> None:
    commas = json.dumps([",[{" * VALUES_MAX]).encode()
    assert loads(commas) == [",[{" * VALUES_MAX]
    at_most = b"[" + b"1," * (VALUES_MAX - 2) + b"1]"
    assert len(loads(at_most)) == VALUES_MAX - 1
    with pytest.raises(Invalid, match="more than 200000 values"):
        loads(b"[" + b"1," * VALUES_MAX + b"1]")
    with pytest.raises(Invalid, match="more than 200000 values"):
        loads(b"[" + b'"",' * (3 * VALUES_MAX) + b"1]")
