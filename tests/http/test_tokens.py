"""Tokens over HTTP: made, shown once, listed, replaced, withdrawn (7.5, A4)."""

from __future__ import annotations

import hashlib
import re
from datetime import datetime
from typing import Any

import httpx
import pytest

from podium.contracts.scopes import Scope
from podium.domains.access import tokens as access_tokens
from podium.domains.access.tokens import BELIEVED_SECONDS
from podium.kernel.bell import Bell
from tests.http.calls import ask, bearer
from tests.http.houses import Home, neighbour, postgres_home

NEW = {"name": "ci", "scopes": ["submit", "read"]}


async def is_good(home: Home, token: str) -> bool:
    status = (await ask(home, "GET", "/api/queues", [bearer(token)])).status
    assert status in (200, 401)
    return status == 200


async def create(admin: httpx.AsyncClient, **more: Any) -> dict[str, Any]:
    answer = await admin.post("/api/tokens", json={**NEW, **more})
    assert answer.status_code == 201, answer.text
    said: dict[str, Any] = answer.json()
    return said


async def test_a_new_token_works_and_has_what_it_was_given(
    home: Home, admin: httpx.AsyncClient
) -> None:
    made = await create(admin)
    assert re.fullmatch(r"podium_[0-9a-z]{12}_[A-Za-z0-9_-]{43}", made["token"])
    assert made["scopes"] == ["read", "submit"]
    assert made["created_by"] == home.admin.split("_")[1]
    assert await is_good(home, made["token"])


async def test_a_token_lives_as_long_as_it_was_told(home: Home, admin: httpx.AsyncClient) -> None:
    for days, wanted in ((None, 90), (1, 1), (0.5, 0.5)):
        made = await create(admin, days=days)
        lives = datetime.fromisoformat(made["expire_at"]) - datetime.fromisoformat(
            made["created_at"]
        )
        assert lives.total_seconds() == pytest.approx(wanted * 86_400)
    short = await create(admin, days=1)
    await home.advance(86_399)
    assert await is_good(home, short["token"])
    await home.advance(1.5)
    assert not await is_good(home, short["token"])


async def test_a_token_that_was_just_believed_still_ends_in_time(
    home: Home, admin: httpx.AsyncClient
) -> None:
    """Trust is kept for two seconds, but not beyond the token's own end."""
    made = await create(admin, days=10 / 86_400)
    await home.advance(9)
    assert await is_good(home, made["token"])
    await home.advance(1.2)
    assert not await is_good(home, made["token"])


async def test_a_process_whose_clock_is_wrong_judges_by_the_databases(postgres_url: str) -> None:
    """A wall clock that is an hour ahead ends no token early, and one behind lets none live on."""
    async with postgres_home(postgres_url) as home:
        token = await home.token(Scope.READ, days=1 / 48)
        home.clock.jump(365 * 86_400)
        assert [await is_good(home, token) for _ in range(3)] == [True] * 3
        home.clock.jump(-700 * 86_400)
        await home.advance(1_801)
        assert [await is_good(home, token) for _ in range(3)] == [False] * 3


async def test_the_text_is_shown_once_and_kept_as_its_hash(
    home: Home, admin: httpx.AsyncClient
) -> None:
    made = await create(admin)
    text = made["token"]
    listed = await admin.get("/api/tokens?everything=true")
    assert text not in listed.text
    assert hashlib.sha256(text.encode()).hexdigest() not in listed.text
    (row,) = await home.query("select * from access_tokens where id = :id", id=made["id"])
    assert row.hash == hashlib.sha256(text.encode()).hexdigest()
    assert text.split("_", 2)[2] not in str(row)


async def test_tokens_are_all_different(admin: httpx.AsyncClient) -> None:
    made = [(await create(admin))["token"] for _ in range(50)]
    assert len(set(made)) == 50
    assert len({text.split("_", 2)[2][:8] for text in made}) == 50


async def test_the_list_shows_valid_tokens_page_by_page(
    home: Home, admin: httpx.AsyncClient
) -> None:
    made = {(await create(admin, name=f"t{n}"))["id"] for n in range(7)}
    gone = (await create(admin))["id"]
    await admin.delete(f"/api/tokens/{gone}")
    await home.store.write(home.house.access.tokens.invite, scopes=[Scope.READ], actor="x")
    made.add(home.admin.split("_")[1])

    found: list[str] = []
    cursor = ""
    for _ in range(10):
        page = (
            await admin.get(
                "/api/tokens", params={"limit": 3, **({"cursor": cursor} if cursor else {})}
            )
        ).json()
        found += [it["id"] for it in page["tokens"]]
        cursor = page["next_cursor"]
        if not cursor:
            break
    assert sorted(found) == sorted(made)
    everything = (await admin.get("/api/tokens?everything=true")).json()["tokens"]
    assert {it["id"] for it in everything} == made | {gone}
    (revoked,) = [it for it in everything if it["id"] == gone]
    assert revoked["revoked_at"] is not None


async def rotate(admin: httpx.AsyncClient, id: str, **more: Any) -> httpx.Response:
    return await admin.post(f"/api/tokens/{id}/rotate", json=more)


async def test_rotation_keeps_both_for_a_while_and_then_one(
    home: Home, admin: httpx.AsyncClient
) -> None:
    old = await create(admin)
    answer = await rotate(admin, old["id"], overlap_seconds=100)
    assert answer.status_code == 201
    new = answer.json()
    assert (new["name"], new["scopes"]) == (old["name"], old["scopes"])
    assert await is_good(home, old["token"])
    assert await is_good(home, new["token"])
    await home.advance(101)
    assert not await is_good(home, old["token"])
    assert await is_good(home, new["token"])


async def test_an_overlap_of_nothing_ends_the_old_one_at_once(
    home: Home, admin: httpx.AsyncClient
) -> None:
    old = await create(admin)
    assert await is_good(home, old["token"])
    await rotate(admin, old["id"], overlap_seconds=0)
    await home.advance(0.01)
    assert not await is_good(home, old["token"])


async def test_rotation_never_makes_an_old_token_live_longer(
    home: Home, admin: httpx.AsyncClient
) -> None:
    old = await create(admin, days=1)
    await rotate(admin, old["id"], overlap_seconds=30 * 86_400, days=90)
    await home.advance(86_401)
    assert not await is_good(home, old["token"])


async def test_there_are_never_three(home: Home, admin: httpx.AsyncClient) -> None:
    first = await create(admin)
    second = (await rotate(admin, first["id"])).json()
    third = (await rotate(admin, second["id"])).json()
    assert [await is_good(home, it["token"]) for it in (first, second, third)] == [
        False,
        True,
        True,
    ]
    # The elder of the two may be replaced again: then the younger one goes.
    fourth = (await rotate(admin, second["id"])).json()
    goods = [await is_good(home, it["token"]) for it in (second, third, fourth)]
    assert goods == [True, False, True]


async def test_only_a_valid_token_is_replaced(home: Home, admin: httpx.AsyncClient) -> None:
    revoked = await create(admin)
    await admin.delete(f"/api/tokens/{revoked['id']}")
    expired = await create(admin, days=1)
    login = await home.store.write(home.house.access.tokens.invite, scopes=[Scope.READ], actor="x")
    await home.advance(86_401)
    for id in (revoked["id"], expired["id"], login.token.id, "0" * 12):
        answer = await rotate(admin, id)
        assert answer.status_code == 404, answer.text
    rows = await home.query("select count(*) as n from access_tokens where kind = 'token'")
    assert rows[0].n == 3


async def test_revoking_is_done_once(admin: httpx.AsyncClient) -> None:
    made = await create(admin)
    first = await admin.delete(f"/api/tokens/{made['id']}")
    assert first.json() == {"id": made["id"], "revoked": True}
    assert (await admin.delete(f"/api/tokens/{made['id']}")).status_code == 404
    assert (await admin.delete(f"/api/tokens/{'0' * 12}")).status_code == 404


async def test_a_revoked_token_is_dead_elsewhere_within_five_seconds_without_a_bell(
    home: Home, admin: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = await neighbour(home)
    made = await create(admin)
    assert await is_good(other, made["token"])
    monkeypatch.setattr(Bell, "ring", lambda *_: None)
    await admin.delete(f"/api/tokens/{made['id']}")
    assert await is_good(other, made["token"]), "this server has not heard of it yet"
    await home.advance(BELIEVED_SECONDS)
    assert not await is_good(other, made["token"])
    assert BELIEVED_SECONDS < 5.0


async def test_with_the_bell_it_is_dead_elsewhere_at_once(
    home: Home, admin: httpx.AsyncClient
) -> None:
    other = await neighbour(home)
    made = await create(admin)
    assert await is_good(other, made["token"])
    await admin.delete(f"/api/tokens/{made['id']}")
    assert not await is_good(other, made["token"])


async def test_what_happens_to_a_token_is_in_the_journal_without_its_text(
    admin: httpx.AsyncClient,
) -> None:
    made = await create(admin)
    await admin.delete(f"/api/tokens/{made['id']}")
    journal = await admin.get(f"/api/journal/token/{made['id']}")
    assert [line["event"] for line in journal.json()["lines"]] == ["issued", "revoked"]
    assert made["token"] not in journal.text


async def test_tokens_that_are_long_over_are_forgotten(home: Home) -> None:
    await home.issue(Scope.READ, days=1)
    await home.advance(20 * 86_400)
    assert await home.store.write(access_tokens.prune) == 0
    await home.advance(20 * 86_400)
    assert await home.store.write(access_tokens.prune) == 1


async def test_a_name_says_who_it_is_for_and_no_more(admin: httpx.AsyncClient) -> None:
    for name in ("x" * 101, "", "a\x1b[31m", "a\nb"):
        answer = await admin.post("/api/tokens", json={**NEW, "name": name})
        assert answer.status_code == 400
    assert (await admin.post("/api/tokens", json={**NEW, "name": "Ünïcode 😀"})).status_code == 201
