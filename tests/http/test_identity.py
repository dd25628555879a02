"""Who is asking: rows A1 to A11 of the hostile corpus, against every route, on both stores."""

from __future__ import annotations

import logging
import re
import statistics
import time

import pytest

from podium.contracts.scopes import Scope
from podium.domains.access.model import Kind
from podium.http.guard import Declared, Open
from podium.kernel.errors import InvalidToken
from tests.http.calls import Answer, Header, ask, bearer
from tests.http.conftest import MakeHome
from tests.http.houses import ELSEWHERE, HERE, Home, declared_routes, with_front, with_policy

TOKEN = b"podium_0123456789ab_" + b"A" * 43
PATIENT = with_policy(failures_max=1_000_000)


def guarded(home: Home) -> list[Declared]:
    return [it for it in declared_routes(home.app) if not isinstance(it.needs, Open)]


def target_of(route: Declared) -> str:
    return re.sub(r"\{[^}]+\}", "0123456789ab", route.path)


async def ask_all(home: Home, *headers: Header, address: str = HERE) -> list[Answer]:
    """The same request to every route that asks for a token."""
    routes = guarded(home)
    assert len(routes) >= 20
    return [await ask(home, it.method, target_of(it), headers, address=address) for it in routes]


def assert_stranger(answer: Answer) -> None:
    assert answer.status == 401
    assert answer.error["code"] == "AUTH_INVALID_TOKEN"
    assert answer.headers["www-authenticate"] == "Bearer"


ODD_IDENTITIES: list[list[Header]] = [
    [],
    [(b"authorization", b"")],
    [(b"authorization", b"Bearer")],
    [(b"authorization", b"Bearer ")],
    [(b"authorization", b"Bearer  " + TOKEN)],
    [bearer(TOKEN), bearer(TOKEN)],
    [(b"authorization", b"Basic YWRtaW46YWRtaW4=")],
    [(b"authorization", b"Token " + TOKEN)],
    [(b"authorization", b"Bearer\t" + TOKEN)],
]


async def test_a1_whoever_names_nobody_is_nobody(make_home: MakeHome) -> None:
    home = await make_home(policy=PATIENT)
    for headers in ODD_IDENTITIES:
        for answer in await ask_all(home, *headers):
            assert_stranger(answer)


async def test_a1_two_headers_are_refused_even_if_both_are_good(home: Home) -> None:
    for answer in await ask_all(home, bearer(home.admin), bearer(home.admin)):
        assert_stranger(answer)


async def test_a2_a_token_that_is_nearly_right_is_wrong(make_home: MakeHome) -> None:
    home = await make_home(policy=PATIENT)
    last = "A" if home.admin[-1] != "A" else "B"
    wrong = [home.admin[:-1] + last, home.admin + "A", home.admin[:-1], home.admin.upper()]
    for token in [*wrong, "x" * 10_000, "podium_" + "x" * 10_000, home.admin * 2]:
        for answer in await ask_all(home, bearer(token)):
            assert_stranger(answer)


async def test_a3_a_token_is_bytes_and_any_bytes_will_do(make_home: MakeHome) -> None:
    home = await make_home(policy=PATIENT)
    for token in (b"\xe9", "é".encode(), b"\xff\xfe", TOKEN[:-1] + b"\xe9", b"\x80" * 43, b"\x01"):
        for answer in await ask_all(home, bearer(token)):
            assert_stranger(answer)


async def test_a4_expired_is_told_apart_from_unknown(make_home: MakeHome) -> None:
    home = await make_home(policy=PATIENT)
    token = await home.token(Scope.ADMIN, days=1)
    assert (await ask(home, "GET", "/api/queues", [bearer(token)])).status == 200
    await home.advance(86_401)
    for answer in await ask_all(home, bearer(token)):
        assert answer.status == 401
        assert answer.error["code"] == "AUTH_EXPIRED_TOKEN"


async def test_a4_revoked_is_refused_at_once_where_it_was_revoked(make_home: MakeHome) -> None:
    home = await make_home(policy=PATIENT)
    issued = await home.issue(Scope.ADMIN)
    assert (await ask(home, "GET", "/api/queues", [bearer(issued.text)])).status == 200
    async with home.admin_caller() as admin:
        assert (await admin.delete(f"/api/tokens/{issued.token.id}")).status_code == 200
    for answer in await ask_all(home, bearer(issued.text)):
        assert_stranger(answer)


async def test_a5_who_guesses_too_often_waits_and_others_do_not(make_home: MakeHome) -> None:
    home = await make_home(policy=with_policy(failures_max=20))
    await home.next_minute()
    wrong = [bearer(TOKEN[:-3] + b"%03d" % n) for n in range(100)]
    statuses = [(await ask(home, "GET", "/api/queues", [it])).status for it in wrong]
    assert statuses == [401] * 20 + [429] * 80

    right = bearer(home.admin)
    refused = await ask(home, "GET", "/api/queues", [right])
    assert refused.status == 429
    assert refused.error["code"] == "RATE_LIMIT_EXCEEDED"
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    assert (await ask(home, "GET", "/api/queues", [right], address=ELSEWHERE)).status == 200

    await home.next_minute()
    assert (await ask(home, "GET", "/api/queues", [right])).status == 200


async def test_a5_expired_tokens_are_guesses_too(make_home: MakeHome) -> None:
    home = await make_home(policy=with_policy(failures_max=2))
    token = await home.token(Scope.READ, days=1)
    await home.advance(2 * 86_400)
    await home.next_minute()
    statuses = [(await ask(home, "GET", "/api/queues", [bearer(token)])).status for _ in range(4)]
    assert statuses == [401, 401, 429, 429]


async def test_a5_an_address_of_ipv6_is_its_network(make_home: MakeHome) -> None:
    """Whoever has one such address has all of its network's."""
    home = await make_home(policy=with_policy(failures_max=3))
    await home.next_minute()
    statuses = [
        (await ask(home, "GET", "/api/queues", [bearer(TOKEN)], address=f"2001:db8::{n}")).status
        for n in range(1, 6)
    ]
    assert statuses == [401, 401, 401, 429, 429]
    other = await ask(home, "GET", "/api/queues", [bearer(TOKEN)], address="2001:db8:1::1")
    assert other.status == 401


async def test_a5_without_any_token_nobody_guessed(make_home: MakeHome) -> None:
    home = await make_home(policy=with_policy(failures_max=3))
    for _ in range(10):
        assert (await ask(home, "GET", "/api/queues")).status == 401


async def test_a6_how_much_of_a_guess_was_right_does_not_show(embedded: Home) -> None:
    """A token is looked up by the hash of all of it: two wrong ones share nothing with a right one."""
    tokens = embedded.house.access.tokens
    right = embedded.admin.encode()
    early = right[:21] + (b"A" if right[21:22] != b"A" else b"B") + right[22:]
    late = right[:-1] + (b"A" if right[-1:] != b"A" else b"B")
    spent: dict[bytes, list[float]] = {early: [], late: []}
    for round in range(4_000):
        for guess in (early, late) if round % 2 else (late, early):
            began = time.perf_counter()
            with pytest.raises(InvalidToken):
                await tokens.authenticate(guess)
            spent[guess].append(time.perf_counter() - began)
    first, second = (statistics.median(times) for times in spent.values())
    assert abs(first - second) < 0.2 * min(first, second)


async def test_a6_tokens_are_kept_as_their_hash(home: Home) -> None:
    rows = await home.query("select hash from access_tokens")
    assert rows
    for row in rows:
        assert re.fullmatch(r"[0-9a-f]{64}", row.hash)


async def test_a7_a_token_in_the_address_is_no_token_and_is_not_logged(
    home: Home, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        for name in ("token", "access_token", "authorization", "api_key", "code"):
            answer = await ask(home, "GET", f"/api/queues?{name}={home.admin}")
            assert_stranger(answer)
            assert home.admin.encode() not in answer.body
    assert home.admin not in caplog.text
    assert (await ask(home, "GET", "/api/queues", [(b"cookie", home.admin.encode())])).status == 401


SPOOFS = [
    (b"x-service-name", b"admin"),
    (b"x-forwarded-for", b"127.0.0.1"),
    (b"x-real-ip", b"127.0.0.1"),
    (b"forwarded", b"for=127.0.0.1"),
    (b"x-original-url", b"/healthz"),
    (b"x-rewrite-url", b"/healthz"),
    (b"x-forwarded-host", b"localhost"),
    (b"x-forwarded-prefix", b"/healthz"),
]


async def test_a8_a_header_that_claims_something_has_no_effect(make_home: MakeHome) -> None:
    home = await make_home(policy=PATIENT)
    for header in SPOOFS:
        for answer in await ask_all(home, header):
            assert_stranger(answer)


async def test_a8_the_address_is_the_connections_own(make_home: MakeHome) -> None:
    home = await make_home(policy=with_policy(failures_max=2))
    await home.next_minute()
    statuses = []
    for n in range(4):
        forwarded = (b"x-forwarded-for", b"203.0.113.%d" % n)
        statuses.append((await ask(home, "GET", "/metrics", [bearer(TOKEN), forwarded])).status)
    assert statuses == [401, 401, 429, 429]


async def test_a8_behind_a_proxy_the_last_hop_counts_and_earlier_ones_do_not(
    make_home: MakeHome,
) -> None:
    home = await make_home(policy=with_policy(failures_max=2), front=with_front(behind_proxy=True))
    await home.next_minute()
    statuses = []
    for n in range(4):
        forwarded = (b"x-forwarded-for", b"203.0.113.%d, 198.51.100.1" % n)
        statuses.append((await ask(home, "GET", "/metrics", [bearer(TOKEN), forwarded])).status)
    assert statuses == [401, 401, 429, 429]
    other = (b"x-forwarded-for", b"198.51.100.1, 198.51.100.2")
    assert (await ask(home, "GET", "/metrics", [bearer(TOKEN), other])).status == 401


HOSTS = [
    b"evil",
    b"evil/healthz?x=",
    b"localhost/healthz?",
    b"a b",
    b"",
    b"localhost@evil",
    b"localhost:80:80",
    b"localhost:99999999",
    b"localhost\r\nx: y",
    b"[::1",
    b"\xff",
    b"localhost, localhost",
    b"localhost.evil.example",
    b"evil.localhost",
]


@pytest.mark.parametrize("host", HOSTS)
async def test_a9_a_host_that_is_not_ours_is_400_wherever_it_points(
    embedded: Home, host: bytes
) -> None:
    for method, target in (("GET", "/healthz"), ("GET", "/api/queues"), ("POST", "/api/work")):
        for headers in ([], [bearer(embedded.admin)]):
            answer = await ask(embedded, method, target, headers, host=host)
            assert answer.status == 400
            assert answer.error["code"] == "VALIDATION_INVALID_PARAMS"
            assert b"evil" not in answer.body


async def test_a9_no_host_and_two_hosts_are_400(embedded: Home) -> None:
    assert (await ask(embedded, "GET", "/healthz", host=None)).status == 400
    twice = [(b"host", b"localhost")]
    assert (await ask(embedded, "GET", "/healthz", twice)).status == 400


@pytest.mark.parametrize(
    "host", [b"localhost", b"LOCALHOST:8437", b"127.0.0.1", b"[::1]:1", b"localhost."]
)
async def test_a9_the_names_that_are_ours_are_known(embedded: Home, host: bytes) -> None:
    assert (await ask(embedded, "GET", "/healthz", host=host)).status == 200


async def test_a9_the_name_of_the_public_address_is_ours(make_home: MakeHome) -> None:
    home = await make_home(front=with_front(hosts=frozenset({"podium.example.org"})))
    assert (await ask(home, "GET", "/healthz", host=b"podium.example.org")).status == 200
    assert (await ask(home, "GET", "/healthz", host=b"xpodium.example.org")).status == 400


TRICKS = [
    "/api/x/health",
    "/api/x/healthz",
    "/api/queues/healthz",
    "/api/work/healthz",
    "/api/x/configs",
    "/api/work/../../healthz",
    "/API/queues",
    "/api/Queues",
    "//api/queues",
    "/api//queues",
    "/api/..%2fqueues",
    "/api/%2e%2e/queues",
    "/api/;x/queues",
    "/api/queues;x=healthz",
    "/api/queues/",
    "/api/queues.json",
    "/api/queues%00",
    "/api/queues%2f",
    "/api/%00",
    "/api/queues%20",
    "/api/queues?/healthz",
    "/api/queues%3f/healthz",
    "/healthz/../api/queues",
    "/healthz/",
    "/healthz%2f..%2fapi/queues",
    "/login/../api/queues",
    "/static/../api/queues",
    "/static/%2e%2e/%2e%2e/etc/passwd",
    "/static/..%2f..%2fetc/passwd",
    "/docs/",
    "/openapi.json/",
    "/.env",
    "/%",
    "/api/work/%ff%fe",
]


async def test_a10_a_path_is_taken_as_it_is(home: Home) -> None:
    """A stranger never gets anything, and with a token a trick gets no more than the plain path."""
    for target in TRICKS:
        stranger = await ask(home, "GET", target)
        known = await ask(home, "GET", target, [bearer(home.admin)])
        if target.startswith("/static/"):
            # Open, but its names are its own: there is no way out of it.
            assert stranger.status in (401, 404), target
        else:
            assert_stranger(stranger)
        assert known.status in (200, 400, 404), target
        if known.status == 200:
            # A query is not the path, however it looks.
            assert target.partition("?")[0] == "/api/queues"


async def test_a11_methods_nobody_declared_are_405_and_strangers_are_not_told(home: Home) -> None:
    for method in ("TRACE", "PROPFIND", "PUT", "PATCH", "OPTIONS", "CONNECT", "HEAD", "GETT"):
        stranger = await ask(home, method, "/api/queues")
        assert stranger.status == 401
        known = await ask(home, method, "/api/queues", [bearer(home.admin)])
        assert known.status == 405
        assert known.error["code"] == "METHOD_NOT_ALLOWED"
        assert known.headers["allow"] == "GET"


@pytest.mark.parametrize(
    "name", [b"x-http-method-override", b"x-http-method", b"x-method-override"]
)
async def test_a11_a_header_does_not_change_the_method(home: Home, name: bytes) -> None:
    headers = [bearer(home.admin), (name, b"DELETE")]
    assert (await ask(home, "GET", "/api/queues", headers)).status == 405
    body = [(b"content-type", b"application/json")]
    answer = await ask(home, "POST", "/api/work", [*headers, *body], b'{"items":[{"queue":"q"}]}')
    assert answer.status == 405
    assert await home.query("select id from work") == []


@pytest.mark.parametrize(
    "header",
    [(b"content-length", b"2"), (b"transfer-encoding", b"chunked")],
    ids=["sized", "chunked"],
)
async def test_a11_a_get_has_no_body(home: Home, header: Header) -> None:
    headers = [bearer(home.admin), header]
    assert (await ask(home, "GET", "/api/queues", headers, b"{}")).status == 405


async def test_a_session_is_no_token_and_a_login_code_is_neither(home: Home) -> None:
    """What was made for one door does not open another."""
    login = await home.store.write(
        home.house.access.tokens.invite, scopes=[Scope.ADMIN], actor="test"
    )
    assert_stranger(await ask(home, "GET", "/api/queues", [bearer(login.text)]))
    session = await home.store.write(home.house.access.tokens.open_session, login.text.encode())
    assert session.token.kind is Kind.SESSION
    assert_stranger(await ask(home, "GET", "/api/queues", [bearer(session.text)]))
    cookie = (b"cookie", b"podium_session=" + home.admin.encode())
    assert_stranger(await ask(home, "GET", "/docs", [cookie]))


async def test_anonymous_callers_may_do_what_the_settings_say_and_no_more(
    make_home: MakeHome,
) -> None:
    home = await make_home(policy=with_policy(anonymous_scopes=frozenset({Scope.READ})))
    assert (await ask(home, "GET", "/api/queues")).status == 200
    answer = await ask(home, "GET", "/api/tokens")
    assert answer.status == 403
    assert (await ask(home, "GET", "/api/queues", [bearer(TOKEN)])).status == 401
