"""How often and how much at once: limits that hold for all servers together, and overload that is told (P36)."""

from __future__ import annotations

import asyncio
from collections import Counter

import httpx
import pytest

from podium.contracts.scopes import Scope
from podium.domains.access import limits
from podium.domains.access.limits import BUCKETS_MAX, Limits
from podium.http.guard import Declared, get
from podium.kernel.clock import ManualClock
from tests.http.calls import ask, bearer, until
from tests.http.conftest import MakeHome
from tests.http.houses import ELSEWHERE, HERE, Home, neighbour, sqlite_home, with_front, with_policy


async def statuses(home: Home, count: int, token: str, *, address: str = HERE) -> list[int]:
    return [
        (await ask(home, "GET", "/api/queues", [bearer(token)], address=address)).status
        for _ in range(count)
    ]


async def test_the_limit_is_exact(make_home: MakeHome) -> None:
    home = await make_home(policy=with_policy(requests_max=50))
    await home.next_minute()
    assert await statuses(home, 60, home.admin) == [200] * 50 + [429] * 10


async def test_two_servers_share_one_limit(
    make_home: MakeHome, request: pytest.FixtureRequest
) -> None:
    policy = with_policy(requests_max=100)
    home = await make_home(policy=policy)
    is_shared = "postgres" in request.node.callspec.id
    url = request.getfixturevalue("postgres_url") if is_shared else None
    other = await neighbour(home, url, policy=policy)
    await home.next_minute()
    calls = [statuses(it, 80, home.admin) for it in (home, other)]
    found = Counter(status for batch in await asyncio.gather(*calls) for status in batch)
    # One of them may have a part of a block left when the other is told that all is given out.
    for server in (home, other):
        found.update(await statuses(server, 20, home.admin))
    assert found == {200: 100, 429: 100}


async def test_many_callers_at_once_get_exactly_the_limit(make_home: MakeHome) -> None:
    home = await make_home(policy=with_policy(requests_max=40))
    await home.next_minute()
    calls = (ask(home, "GET", "/api/queues", [bearer(home.admin)]) for _ in range(100))
    found = Counter(answer.status for answer in await asyncio.gather(*calls))
    assert found == {200: 40, 429: 60}


async def test_the_headers_count_down_and_say_when_it_begins_anew(make_home: MakeHome) -> None:
    home = await make_home(policy=with_policy(requests_max=3))
    await home.next_minute()
    async with home.admin_caller() as admin:
        answers = [await admin.get("/api/queues") for _ in range(4)]
    assert [it.status_code for it in answers] == [200, 200, 200, 429]
    assert [it.headers["x-ratelimit-limit"] for it in answers] == ["3"] * 4
    assert [it.headers["x-ratelimit-remaining"] for it in answers] == ["2", "1", "0", "0"]
    now = home.clock.now().timestamp()
    for answer in answers:
        assert 0 < int(answer.headers["x-ratelimit-reset"]) - now <= 61
    refused = answers[-1]
    assert refused.json()["error"]["code"] == "RATE_LIMIT_EXCEEDED"
    assert refused.json()["error"]["details"] == {"limit": 3}
    assert 1 <= int(refused.headers["retry-after"]) <= 60


async def test_the_next_minute_begins_anew(make_home: MakeHome) -> None:
    home = await make_home(policy=with_policy(requests_max=3))
    for _ in range(3):
        await home.next_minute()
        assert await statuses(home, 5, home.admin) == [200, 200, 200, 429, 429]


async def test_who_waits_as_long_as_told_is_let_in(make_home: MakeHome) -> None:
    home = await make_home(policy=with_policy(requests_max=1))
    await home.next_minute()
    await statuses(home, 1, home.admin)
    refused = await ask(home, "GET", "/api/queues", [bearer(home.admin)])
    assert refused.status == 429
    await home.advance(float(refused.headers["retry-after"]))
    assert await statuses(home, 1, home.admin) == [200]


async def test_a_limit_is_a_tokens_own_and_its_successors(make_home: MakeHome) -> None:
    home = await make_home(policy=with_policy(requests_max=4))
    one, two = await home.issue(Scope.READ), await home.token(Scope.READ)
    await home.next_minute()
    assert await statuses(home, 5, one.text) == [200] * 4 + [429]
    assert await statuses(home, 1, two) == [200]
    successor = await home.store.write(
        home.house.access.tokens.rotate,
        one.token.id,
        valid_days=1.0,
        actor="test",
        overlap_seconds=60.0,
    )
    assert await statuses(home, 1, successor.text) == [429]


async def test_anonymous_callers_are_counted_by_address(make_home: MakeHome) -> None:
    policy = with_policy(requests_max=2, anonymous_scopes=frozenset({Scope.READ}))
    home = await make_home(policy=policy)
    await home.next_minute()
    here = [(await ask(home, "GET", "/api/queues")).status for _ in range(3)]
    assert here == [200, 200, 429]
    assert (await ask(home, "GET", "/api/queues", address=ELSEWHERE)).status == 200


async def test_open_routes_are_not_counted(make_home: MakeHome) -> None:
    home = await make_home(policy=with_policy(requests_max=1))
    for _ in range(5):
        answer = await ask(home, "GET", "/healthz")
        assert answer.status == 200
        assert "x-ratelimit-limit" not in answer.headers


async def test_a_busy_caller_costs_a_write_per_block_and_not_per_request(home: Home) -> None:
    await home.next_minute()
    await statuses(home, 200, home.admin)
    rows = await home.query("select used from rate_limits where bucket like 'requests:%'")
    assert sum(row.used for row in rows) == 500


async def test_the_memory_of_limits_is_bounded(embedded: Home) -> None:
    counted = Limits(embedded.store, ManualClock())
    for n in range(BUCKETS_MAX + 50):
        counted._share(f"b{n}")
    assert len(counted._shares) == BUCKETS_MAX


async def test_limits_that_are_over_are_forgotten(home: Home) -> None:
    await statuses(home, 1, home.admin)
    assert await home.store.write(limits.prune) == 0
    await home.advance(200)
    assert await home.store.write(limits.prune) >= 1
    assert await home.query("select * from rate_limits") == []


# --- too much at once ----------------------------------------------------------------------------


def held(release: asyncio.Event) -> Declared:
    async def wait() -> dict[str, bool]:
        await release.wait()
        return {"done": True}

    return get("/api/held", wait, needs=Scope.READ)


async def test_too_many_requests_at_once_are_503_and_those_inside_finish() -> None:
    release = asyncio.Event()
    front = with_front(requests_at_once_max=3)
    async with sqlite_home(front=front, more=[held(release)]) as home, home.admin_caller() as admin:
        inside = [asyncio.create_task(admin.get("/api/held")) for _ in range(3)]
        await until(lambda: home.app._load.count == 3)
        refused = await admin.get("/livez")
        assert refused.status_code == 503
        assert refused.json()["error"]["code"] == "SERVICE_UNAVAILABLE"
        assert refused.headers["retry-after"] == "1"
        assert (
            home.house.metrics.registry.get_sample_value(
                "podium_http_refused_total", {"cause": "overload"}
            )
            == 1
        )
        release.set()
        assert [it.status_code for it in await asyncio.gather(*inside)] == [200] * 3
        assert (await admin.get("/livez")).status_code == 200


async def test_who_only_waits_keeps_nobody_out() -> None:
    """A server with room for two requests still answers while fifty workers wait for something to do."""
    front = with_front(requests_at_once_max=2)
    async with sqlite_home(front=front) as home, home.admin_caller() as admin:
        waiting: list[asyncio.Task[httpx.Response]] = []
        wish = {"queues": ["q"], "holder": "h", "wait_seconds": 30}
        for _ in range(50):
            waiting.append(asyncio.create_task(admin.post("/api/work/claim", json=wish)))
            await until(lambda: len(home.store.bell._listeners.get("work:q", ())) == len(waiting))
            await until(lambda: home.app._load.count == 0)
        assert (await admin.get("/livez")).status_code == 200
        assert not any(it.done() for it in waiting)
        items = [{"queue": "q"}] * 50
        assert (await admin.post("/api/work", json={"items": items})).status_code == 201
        async with asyncio.timeout(10):
            answers = await asyncio.gather(*waiting)
        assert [len(it.json()["items"]) for it in answers] == [1] * 50
        assert home.app._load.count == 0
