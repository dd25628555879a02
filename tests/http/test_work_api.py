"""Work items over HTTP, as a submitter, a worker and an operator see them, on both stores."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest

from podium.contracts.scopes import Scope
from podium.kernel.store import Tx
from tests.http.calls import ask, bearer, scope_of, until
from tests.http.houses import Home


class Clerk:
    """One caller's hands: each call is made and must succeed."""

    def __init__(self, caller: httpx.AsyncClient) -> None:
        self.caller = caller

    async def post(self, path: str, body: Any, status: int = 200, **more: Any) -> Any:
        answer = await self.caller.post(path, json=body, **more)
        assert answer.status_code == status, answer.text
        return answer.json()

    async def get(self, path: str, status: int = 200, **params: Any) -> Any:
        answer = await self.caller.get(path, params=params)
        assert answer.status_code == status, answer.text
        return answer.json()

    async def submit(self, *ids: str, queue: str = "q", **more: Any) -> Any:
        items = [{"queue": queue, "id": id, **more} for id in ids]
        return (await self.post("/api/work", {"items": items}, 201))["items"]

    async def claim(self, n: int = 1, **more: Any) -> list[dict[str, Any]]:
        wish = {"queues": ["q"], "holder": "h1", "n": n, **more}
        items: list[dict[str, Any]] = (await self.post("/api/work/claim", wish))["items"]
        return items

    async def verdicts(self, path: str, *grants: tuple[str, int]) -> list[str]:
        body = {"grants": [{"id": id, "epoch": epoch} for id, epoch in grants]}
        return [it["verdict"] for it in (await self.post(path, body))["verdicts"]]

    async def done(self, id: str, epoch: int, result: Any = None) -> str:
        body = {"done": [{"id": id, "epoch": epoch, "result": result}]}
        said: str = (await self.post("/api/work/report", body))["verdicts"][0]["verdict"]
        return said

    async def failed(self, id: str, epoch: int, error: str = "oh", **more: Any) -> str:
        body = {"failed": [{"id": id, "epoch": epoch, "error": error, **more}]}
        said: str = (await self.post("/api/work/report", body))["verdicts"][0]["verdict"]
        return said

    async def kill(self, *ids: str, queue: str = "q") -> None:
        """Make dead letters, in this order."""
        for id in ids:
            await self.submit(id, queue=queue)
            (item,) = await self.claim(queues=[queue])
            assert await self.failed(item["id"], item["epoch"], "boom", retryable=False) == "ok"

    async def show(self, id: str, status: int = 200) -> Any:
        return await self.get(f"/api/work/{id}", status)


@pytest.fixture
def clerk(admin: httpx.AsyncClient) -> Clerk:
    return Clerk(admin)


# --- one item's way ------------------------------------------------------------------------------


async def test_an_item_goes_all_the_way(clerk: Clerk) -> None:
    payload = {"text": "ünï", "list": [1, 2.5, None, True], "deep": {"a": {"b": []}}}
    assert await clerk.submit("a", payload=payload) == [{"id": "a", "created": True}]
    assert (await clerk.show("a"))["state"] == "ready"
    (item,) = await clerk.claim()
    assert item["payload"] == payload
    assert (item["id"], item["epoch"], item["attempts"], item["attempts_max"]) == ("a", 1, 1, 3)
    shown = await clerk.show("a")
    assert (shown["state"], shown["holder"]) == ("running", "h1")
    assert await clerk.done("a", 1, {"pages": 7}) == "ok"
    shown = await clerk.show("a")
    assert (shown["state"], shown["result"]) == ("done", {"pages": 7})
    assert shown["finished_at"] is not None


async def test_an_item_may_be_claimed_first_and_started_later(clerk: Clerk) -> None:
    await clerk.submit("a")
    (item,) = await clerk.claim(start=False)
    assert (await clerk.show("a"))["state"] == "leased"
    assert item["attempts"] == 0
    assert await clerk.verdicts("/api/work/start", ("a", 1)) == ["ok"]
    assert await clerk.verdicts("/api/work/start", ("a", 1)) == ["started"]
    assert (await clerk.show("a"))["attempts"] == 1


async def test_a_released_item_is_free_again_at_once(clerk: Clerk) -> None:
    await clerk.submit("a")
    await clerk.claim()
    assert await clerk.verdicts("/api/work/release", ("a", 1)) == ["ok"]
    (again,) = await clerk.claim(holder="h2")
    assert (again["epoch"], again["attempts"]) == (2, 1)


async def test_renewing_moves_the_end_of_the_lease(home: Home, clerk: Clerk) -> None:
    await clerk.submit("a", lease_seconds=60.0)
    (item,) = await clerk.claim()
    await home.advance(50)
    body = {"grants": [{"id": "a", "epoch": 1}]}
    (said,) = (await clerk.post("/api/work/renew", body))["verdicts"]
    assert said["verdict"] == "ok"
    assert said["expires_at"] > item["expires_at"]
    await home.advance(50)
    assert (await home.sweep()).settled == 0
    assert await clerk.done("a", 1) == "ok"


async def test_a_stale_epoch_is_refused_whatever_it_wants(home: Home, clerk: Clerk) -> None:
    await clerk.submit("a", lease_seconds=60.0, attempts_max=9)
    await clerk.claim()
    await home.advance(61)
    assert await clerk.verdicts("/api/work/renew", ("a", 1)) == ["expired"]
    assert await clerk.done("a", 1) == "expired"
    await home.sweep()
    await home.advance(3_600)
    await home.sweep()
    (again,) = await clerk.claim(holder="h2")
    assert again["epoch"] == 2
    for path in ("/api/work/renew", "/api/work/start", "/api/work/release"):
        assert await clerk.verdicts(path, ("a", 1)) == ["superseded"]
    assert await clerk.done("a", 1) == "superseded"
    assert await clerk.failed("a", 1) == "superseded"
    assert await clerk.done("a", 2) == "ok"
    assert await clerk.done("a", 2) == "done"
    assert await clerk.verdicts("/api/work/renew", ("nothing", 1)) == ["unknown"]


async def test_each_line_of_a_list_gets_its_own_verdict_in_order(clerk: Clerk) -> None:
    await clerk.submit("a", "b", "c")
    await clerk.claim(3)
    body = {
        "done": [{"id": "c", "epoch": 1}, {"id": "x", "epoch": 1}, {"id": "a", "epoch": 9}],
        "failed": [{"id": "b", "epoch": 1, "error": "oh"}],
    }
    said = (await clerk.post("/api/work/report", body))["verdicts"]
    assert [(it["id"], it["verdict"]) for it in said] == [
        ("c", "ok"),
        ("x", "unknown"),
        ("a", "superseded"),
        ("b", "ok"),
    ]


async def test_a_failure_is_tried_again_and_then_dies(home: Home, clerk: Clerk) -> None:
    await clerk.submit("a", attempts_max=2)
    await clerk.claim()
    assert await clerk.failed("a", 1, "first", delay_seconds=30) == "ok"
    shown = await clerk.show("a")
    assert (shown["state"], shown["error"]) == ("scheduled", "first")
    assert await clerk.claim() == []
    await home.advance(31)
    await home.sweep()
    await clerk.claim()
    assert await clerk.failed("a", 2, "second") == "ok"
    (letter,) = (await clerk.get("/api/deadletters"))["items"]
    assert (letter["id"], letter["error"], letter["attempts"]) == ("a", "second", 2)


async def test_cancelling_ends_items_and_tells_their_holders(clerk: Clerk) -> None:
    await clerk.submit("a", "b", "c")
    await clerk.claim()
    said = await clerk.post("/api/work/cancel", {"ids": ["a", "b", "x"], "reason": "not needed"})
    assert [it["verdict"] for it in said["verdicts"]] == ["ok", "ok", "unknown"]
    assert await clerk.verdicts("/api/work/renew", ("a", 1)) == ["cancelled"]
    assert (await clerk.show("b"))["reason"] == "not needed"
    assert [it["id"] for it in await clerk.claim(9)] == ["c"]


async def test_the_urgent_go_first_and_queues_in_the_order_asked(clerk: Clerk) -> None:
    await clerk.submit("low")
    await clerk.submit("high", priority=9)
    await clerk.submit("other", queue="r")
    taken = await clerk.claim(3, queues=["r", "q"])
    assert [it["id"] for it in taken] == ["other", "high", "low"]


async def test_ids_and_dedupe_keys_are_known_again(clerk: Clerk) -> None:
    await clerk.submit("a", dedupe_key="k")
    assert await clerk.submit("a") == [{"id": "a", "created": False}]
    assert await clerk.submit("b", dedupe_key="k") == [{"id": "a", "created": False}]


async def test_ids_may_have_anything_in_them_that_can_be_printed(clerk: Clerk) -> None:
    for id in ("a/b/c", "ünï 😀", "50%", "a?b#c", "..", "claim", "a\\b", "<b>"):
        await clerk.submit(id)
        path = f"/api/work/{_quoted(id)}"
        assert (await clerk.get(path))["id"] == id
        assert (await clerk.get(path.replace("/work/", "/why/work/")))["id"] == id
        assert (await clerk.get(f"/api/journal/work/{_quoted(id)}"))["lines"] == []


def _quoted(id: str) -> str:
    return "".join(f"%{byte:02x}" for byte in id.encode())


async def test_what_is_not_there_is_404(clerk: Clerk) -> None:
    for path in ("/api/work/x", "/api/why/work/x"):
        said = await clerk.get(path, 404)
        assert said["error"]["code"] == "RESOURCE_NOT_FOUND"


# --- waiting for work ----------------------------------------------------------------------------


async def listening(home: Home, queue: str = "q", count: int = 1) -> None:
    """Until so many wait for something in that queue."""
    await until(lambda: len(home.store.bell._listeners.get(f"work:{queue}", ())) >= count)


async def test_a_claim_that_waits_is_woken_by_a_new_item(home: Home, clerk: Clerk) -> None:
    waiting = asyncio.create_task(clerk.claim(wait_seconds=30))
    await listening(home)
    await clerk.submit("a")
    async with asyncio.timeout(5):
        assert [it["id"] for it in await waiting] == ["a"]


async def test_a_claim_waits_no_longer_than_asked(home: Home, clerk: Clerk) -> None:
    waiting = asyncio.create_task(clerk.claim(wait_seconds=20))
    await listening(home)
    await home.advance(21)
    await home.store.write(_ring, "work:q")
    async with asyncio.timeout(5):
        assert await waiting == []


async def _ring(tx: Tx, channel: str) -> None:
    tx.ring(channel)


async def test_a_claim_that_waits_for_several_queues_hears_each(home: Home, clerk: Clerk) -> None:
    for queue in ("r", "s"):
        waiting = asyncio.create_task(clerk.claim(queues=["q", "r", "s"], wait_seconds=30))
        await listening(home, queue)
        await clerk.submit(f"in {queue}", queue=queue)
        async with asyncio.timeout(5):
            assert [it["queue"] for it in await waiting] == [queue]


async def test_who_went_away_while_waiting_is_given_nothing(home: Home, clerk: Clerk) -> None:
    """An item for nobody would be lost for as long as a lease lasts, and would cost an attempt."""
    gone = asyncio.Event()
    body = json.dumps({"queues": ["q"], "holder": "gone", "wait_seconds": 30}).encode()
    pieces = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Any:
        if pieces:
            return pieces.pop()
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        pass

    headers = [bearer(home.admin), (b"content-type", b"application/json")]
    scope = scope_of("POST", "/api/work/claim", headers)

    async def claim() -> None:
        await home.app(scope, receive, send)

    call = asyncio.create_task(claim())
    await listening(home)
    gone.set()
    await clerk.submit("a")
    async with asyncio.timeout(5):
        await call
    shown = await clerk.show("a")
    assert (shown["state"], shown["attempts"]) == ("ready", 0)


async def test_two_who_wait_are_never_given_the_same(home: Home, clerk: Clerk) -> None:
    waiting = [asyncio.create_task(clerk.claim(holder=f"h{n}", wait_seconds=30)) for n in range(10)]
    await listening(home, count=10)
    await clerk.submit(*(f"i{n}" for n in range(10)))
    async with asyncio.timeout(10):
        taken = [item["id"] for batch in await asyncio.gather(*waiting) for item in batch]
    assert sorted(taken) == sorted(f"i{n}" for n in range(10))


# --- the same call again -------------------------------------------------------------------------


async def test_the_same_key_and_body_get_the_same_answer(home: Home, clerk: Clerk) -> None:
    body = {"items": [{"queue": "q"}, {"queue": "q"}]}
    key = {"Idempotency-Key": "k1"}
    first = await clerk.post("/api/work", body, 201, headers=key)
    again = await clerk.post("/api/work", body, 201, headers=key)
    assert again == first
    assert len(await home.query("select id from work")) == 2
    other = await clerk.post("/api/work", body, 201, headers={"Idempotency-Key": "k2"})
    assert other != first


async def test_the_same_key_with_another_body_is_409(clerk: Clerk) -> None:
    key = {"Idempotency-Key": "secret-looking-key"}
    await clerk.post("/api/work", {"items": [{"queue": "q"}]}, 201, headers=key)
    said = await clerk.post("/api/work", {"items": [{"queue": "r"}]}, 409, headers=key)
    assert said["error"]["code"] == "CONFLICT"
    assert "secret-looking-key" not in json.dumps(said)


async def test_many_at_once_with_one_key_make_one(home: Home, clerk: Clerk) -> None:
    body, key = {"items": [{"queue": "q"}]}, {"Idempotency-Key": "k"}
    calls = (clerk.post("/api/work", body, 201, headers=key) for _ in range(20))
    answers = await asyncio.gather(*calls)
    assert all(answer == answers[0] for answer in answers)
    assert len(await home.query("select id from work")) == 1


async def test_an_answer_that_was_lost_is_given_again(home: Home, clerk: Clerk) -> None:
    body = b'{"items":[{"queue":"q"}]}'
    headers = [
        bearer(home.admin),
        (b"content-type", b"application/json"),
        (b"idempotency-key", b"k"),
    ]
    pieces = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Any:
        return pieces.pop() if pieces else {"type": "http.disconnect"}

    async def lose(message: Any) -> None:
        raise OSError("the connection is gone")

    try:
        await home.app(scope_of("POST", "/api/work", headers), receive, lose)
    except OSError:
        pass
    (row,) = await home.query("select id from work")
    answer = await ask(home, "POST", "/api/work", headers, body)
    assert json.loads(answer.body) == {"items": [{"id": row.id, "created": True}]}
    assert len(await home.query("select id from work")) == 1


async def test_a_key_belongs_to_whoever_used_it_and_to_its_next_token(home: Home) -> None:
    body, key = {"items": [{"queue": "q"}]}, {"Idempotency-Key": "k"}
    mine, theirs = await home.issue(Scope.SUBMIT), await home.token(Scope.SUBMIT)
    answers = []
    rotated = await home.store.write(
        home.house.access.tokens.rotate,
        mine.token.id,
        valid_days=1.0,
        actor="test",
        overlap_seconds=60.0,
    )
    for token in (mine.text, theirs, rotated.text):
        async with home.caller(token) as caller:
            answers.append(await Clerk(caller).post("/api/work", body, 201, headers=key))
    assert answers[0] == answers[2] != answers[1]


@pytest.mark.parametrize("key", ["", "k" * 201, "a\x01b"])
async def test_an_odd_key_is_400(embedded: Home, key: str) -> None:
    headers = [
        bearer(embedded.admin),
        (b"content-type", b"application/json"),
        (b"idempotency-key", key.encode()),
    ]
    answer = await ask(embedded, "POST", "/api/work", headers, b'{"items":[{"queue":"q"}]}')
    assert answer.status == 400
    assert await embedded.query("select id from work") == []


async def test_a_list_is_taken_whole_or_not_at_all(home: Home, clerk: Clerk) -> None:
    bad = {"items": [{"queue": "q", "id": "good"}, {"queue": "q", "payload": "x" * 1_100_000}]}
    said = await clerk.post("/api/work", bad, 413)
    assert said["error"]["code"] == "PAYLOAD_TOO_LARGE"
    assert await home.query("select id from work") == []


# --- looking -------------------------------------------------------------------------------------


async def test_queues_are_counted_by_state(clerk: Clerk) -> None:
    await clerk.kill("d1", "d2")
    await clerk.submit("a", "b", "c")
    await clerk.submit("later", queue="r", delay_seconds=60.0)
    await clerk.claim()
    assert await clerk.get("/api/queues") == {
        "queues": [
            {"queue": "q", "counts": {"dead": 2, "ready": 2, "running": 1}},
            {"queue": "r", "counts": {"scheduled": 1}},
        ]
    }


async def test_dead_letters_are_paged_without_loss_or_repeat(home: Home, clerk: Clerk) -> None:
    wanted = []
    for queue in ("b", "a", "c/d"):
        for n in range(5):
            id = f"{queue}{n}"
            await clerk.kill(id, queue=queue)
            wanted.append(id)
            if n % 2:
                await home.advance(1)
    for limit in (1, 2, 5, 7, 100):
        found, cursor = [], None
        while True:
            params = {"limit": limit, **({"cursor": cursor} if cursor else {})}
            page = await clerk.get("/api/deadletters", **params)
            assert len(page["items"]) <= limit
            found += [it["id"] for it in page["items"]]
            cursor = page["next_cursor"]
            if cursor is None:
                break
        assert found == sorted(wanted, key=lambda id: (id[:-1], id))
    only = await clerk.get("/api/deadletters", queue="a", limit=3)
    assert [it["id"] for it in only["items"]] == ["a0", "a1", "a2"]
    rest = await clerk.get("/api/deadletters", queue="a", cursor=only["next_cursor"])
    assert [it["id"] for it in rest["items"]] == ["a3", "a4"]
    assert await clerk.get("/api/deadletters", queue="none") == {"items": [], "next_cursor": None}


async def test_a_replayed_letter_is_tried_again_from_the_beginning(
    home: Home, clerk: Clerk
) -> None:
    await clerk.kill("a")
    said = await clerk.post("/api/deadletters/replay", {"ids": ["a", "x"]})
    assert said == {"ids": ["a"], "unknown": ["x"]}
    (again,) = await clerk.claim()
    assert (again["id"], again["epoch"], again["attempts"]) == ("a", 2, 1)
    lines = (await clerk.get("/api/journal/work/a"))["lines"]
    assert [it["event"] for it in lines][-1] == "replayed"
    assert lines[-1]["actor"] == home.admin.split("_")[1]


async def test_the_journal_of_an_item_is_paged_by_position(clerk: Clerk) -> None:
    await clerk.submit("a", attempts_max=100)
    for _ in range(3):
        (item,) = await clerk.claim()
        await clerk.failed("a", item["epoch"], delay_seconds=0)
    lines = (await clerk.get("/api/journal/work/a"))["lines"]
    assert len(lines) == 3
    found: list[Any] = []
    for _ in range(3):
        after = found[-1]["seq"] if found else 0
        found += (await clerk.get("/api/journal/work/a", after=after, limit=1))["lines"]
    assert found == lines


async def test_violations_are_counted_now_and_read_zero(clerk: Clerk) -> None:
    await clerk.submit("a")
    violations = (await clerk.get("/api/audit/violations"))["violations"]
    assert violations
    assert set(violations.values()) == {0}


async def test_health_says_one_word(home: Home) -> None:
    for path, word in (("/livez", "ok"), ("/healthz", "ok"), ("/readyz", "ready")):
        answer = await ask(home, "GET", path)
        assert (answer.status, json.loads(answer.body)) == (200, {"status": word})
    home.house.readiness.stopping()
    answer = await ask(home, "GET", "/readyz")
    assert (answer.status, json.loads(answer.body)) == (503, {"status": "stopping"})
    assert answer.headers["retry-after"] == "1"
    assert (await ask(home, "GET", "/livez")).status == 200


async def test_without_its_store_the_server_lives_but_is_not_ready(home: Home) -> None:
    await home.store.close()
    assert (await ask(home, "GET", "/livez")).status == 200
    for path, word in (
        ("/healthz", "the store does not answer"),
        ("/readyz", "the store takes no writes"),
    ):
        answer = await ask(home, "GET", path)
        assert answer.status == 503
        assert json.loads(answer.body) == {"status": word}
    refused = await ask(home, "GET", "/api/queues", [bearer(home.admin)])
    assert refused.status == 503
    assert refused.error["code"] == "SERVICE_UNAVAILABLE"
    assert refused.error["details"] == {}
    assert refused.headers["retry-after"] == "1"
    await home.store.open()


async def test_metrics_count_what_was_answered(clerk: Clerk) -> None:
    await clerk.submit("a")
    await clerk.get("/api/work/none", 404)
    text = (await clerk.caller.get("/metrics")).text
    assert 'podium_http_requests_total{method="POST",route="/api/work",status="201"} 1.0' in text
    assert (
        'podium_http_requests_total{method="GET",route="/api/work/{id:path}",status="404"} 1.0'
        in text
    )
    assert 'podium_http_seconds_count{route="/api/work"} 1.0' in text
