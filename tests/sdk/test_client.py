"""The client against a whole server: each call, and what its errors say."""

from __future__ import annotations

import asyncio
import inspect
import logging
import math
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from podium.contracts.errors import Code
from podium.contracts.scopes import Scope
from podium.contracts.work import Claim, Failure, NewWork, Report
from podium.sdk import errors
from podium.sdk.client import Client
from podium.sdk.sync import SyncClient
from podium.sdk.where import find
from tests.sdk.served import Served, free_port

Q = "q"


async def put(client: Client, *ids: str, attempts_max: int = 3) -> None:
    await client.enqueue(
        [NewWork(queue=Q, id=id, payload={"id": id}, attempts_max=attempts_max) for id in ids]
    )


async def kill(client: Client, *ids: str) -> None:
    """Enqueue items and let them become dead letters."""
    await put(client, *ids, attempts_max=1)
    items = (await client.claim(Claim(queues=[Q], holder="h", n=len(ids)))).items
    failed = [Failure(id=it.id, epoch=it.epoch, error="no", retryable=False) for it in items]
    await client.report(Report(failed=failed))


class TestWork:
    async def test_an_item_is_shown_explained_and_remembered(self, client: Client) -> None:
        await put(client, "a")
        assert (await client.show("a")).state == "ready"
        why = await client.why("work", "a")
        assert (why.kind, why.id, why.state) == ("work", "a", "ready")
        assert [
            v.verdict for v in (await client.cancel(["a"], reason="changed my mind")).verdicts
        ] == ["ok"]
        shown = await client.show("a")
        assert (shown.state, shown.reason) == ("cancelled", "changed my mind")
        assert [line.id for line in (await client.journal("work", "a")).lines] == ["a"]

    @pytest.mark.parametrize("id", ["a/b", "..", ".", "a b?c#d", "ä😀", "%2F", "a%2Fb"])
    async def test_any_id_can_be_asked_for(self, client: Client, id: str) -> None:
        await put(client, id)
        assert (await client.show(id)).id == id
        assert (await client.why("work", id)).id == id

    async def test_queues_count_by_state(self, client: Client) -> None:
        await put(client, "a", "b")
        [queue] = (await client.queues()).queues
        assert (queue.queue, queue.counts) == (Q, {"ready": 2})

    async def test_dead_letters_come_page_by_page_or_all_together(self, client: Client) -> None:
        ids = [f"item-{n}" for n in range(7)]
        await kill(client, *ids)
        page = await client.dead_letters(limit=3)
        assert len(page.items) == 3
        assert page.next_cursor is not None
        assert sorted([letter.id async for letter in client.all_dead_letters(page=3)]) == ids

    async def test_a_dead_letter_is_replayed(self, client: Client) -> None:
        await kill(client, "a")
        replayed = await client.replay(["a", "b"])
        assert (replayed.ids, replayed.unknown) == (["a"], ["b"])
        assert (await client.show("a")).state == "ready"


class TestAccess:
    async def test_a_token_lives_from_create_to_revoke(
        self, server: Served, client: Client
    ) -> None:
        made = await client.create_token("reader", [Scope.READ], days=1)
        async with Client(server.url, made.token) as reader:
            assert (await reader.queues()).queues == []
            with pytest.raises(errors.Forbidden) as refused:
                await reader.enqueue([NewWork(queue=Q)])
            assert refused.value.code == Code.AUTHZ_INSUFFICIENT_PERMISSIONS
            assert refused.value.status == 403
            assert refused.value.trace_id
        new = await client.rotate_token(made.id, overlap_seconds=60.0)
        assert new.token != made.token
        assert (await client.revoke_token(new.id)).revoked
        async with Client(server.url, new.token) as gone:
            with pytest.raises(errors.InvalidToken):
                await gone.queues()
        assert new.id not in [token.id for token in (await client.tokens()).tokens]
        assert new.id in [token.id for token in (await client.tokens(everything=True)).tokens]

    async def test_what_was_done_is_in_the_audit_log(self, client: Client) -> None:
        await client.create_token("reader", [Scope.READ])
        entries = (await client.audit()).entries
        assert ("POST", "/api/tokens", 201) in [(e.method, e.route, e.status) for e in entries]

    async def test_a_login_link_is_an_address_of_the_server(
        self, server: Served, client: Client
    ) -> None:
        assert (await client.login_link()).url.startswith(f"{server.url}/login?code=")

    async def test_a_healthy_house_breaks_no_promise_and_is_ready(self, client: Client) -> None:
        assert set((await client.violations()).violations.values()) <= {0}
        assert await client.ready() is True

    async def test_a_server_that_is_stopping_is_not_ready(
        self, server: Served, client: Client
    ) -> None:
        server.services.readiness.stopping()
        assert await client.ready() is False


class TestErrors:
    def test_every_code_has_its_class(self) -> None:
        for code in Code:
            error = errors.api_error(code, "no", {"a": 1}, "trace", 418)
            assert type(error) is errors.BY_CODE[code]
            assert (error.code, error.details, error.trace_id) == (code, {"a": 1}, "trace")

    def test_a_code_of_a_newer_server_is_an_error_all_the_same(self) -> None:
        assert type(errors.api_error("TEAPOT", "short and stout")) is errors.ApiError

    async def test_what_is_not_there_is_not_found(self, client: Client) -> None:
        with pytest.raises(errors.NotFound):
            await client.show("nobody")

    @pytest.mark.parametrize("payload", [math.nan, math.inf, {1, 2}, object(), "\ud800"])
    async def test_what_json_cannot_say_is_refused_before_it_is_sent(
        self, client: Client, payload: object
    ) -> None:
        with pytest.raises(errors.InvalidRequest):
            await client.enqueue([NewWork(queue=Q, payload=payload)])

    async def test_nobody_there_says_where_it_looked(self) -> None:
        url = f"http://127.0.0.1:{free_port()}"
        async with Client(url, "token", deadline_seconds=0.3) as client:
            with pytest.raises(errors.Unreachable, match=url):
                await client.queues()
            with pytest.raises(errors.Unreachable):
                await client.ready()

    async def test_one_key_and_two_bodies_is_a_conflict(self, client: Client) -> None:
        first = await client.enqueue([NewWork(queue=Q)], idempotency_key="k")
        assert await client.enqueue([NewWork(queue=Q)], idempotency_key="k") == first
        with pytest.raises(errors.Conflict):
            await client.enqueue([NewWork(queue="other")], idempotency_key="k")


class TestWhere:
    def folder(self, tmp_path: Path, mode: int = 0o600) -> dict[str, str]:
        (tmp_path / "url").write_text("http://127.0.0.1:8437\n")
        (tmp_path / "admin.token").write_text("local\n")
        (tmp_path / "admin.token").chmod(mode)
        return {"PODIUM_DATA_DIR": str(tmp_path)}

    def test_arguments_win_over_the_environment_and_that_over_the_folder(
        self, tmp_path: Path
    ) -> None:
        local = self.folder(tmp_path)
        set_ = {**local, "PODIUM_URL": "http://set", "PODIUM_TOKEN": "set"}
        assert (find("http://given/", "given", set_).url, find("http://x", "g", set_).token) == (
            "http://given",
            "g",
        )
        assert (find(environment=set_).url, find(environment=set_).token) == ("http://set", "set")
        found = find(environment=local)
        assert (found.url, found.token) == ("http://127.0.0.1:8437", "local")

    def test_the_local_token_is_never_sent_elsewhere(self, tmp_path: Path) -> None:
        local = self.folder(tmp_path)
        assert find("http://elsewhere", environment=local).token is None
        assert find("http://127.0.0.1:8437/", environment=local).token == "local"

    def test_nothing_to_go_by_says_what_to_do(self, tmp_path: Path) -> None:
        with pytest.raises(errors.NotConfigured, match="podium up"):
            find(environment={"PODIUM_DATA_DIR": str(tmp_path)})

    @pytest.mark.parametrize("url", ["localhost:8437", "ftp://a", "http://", "http://a?b"])
    def test_an_address_that_is_none_is_refused(self, url: str) -> None:
        with pytest.raises(errors.NotConfigured):
            find(url, environment={})

    def test_a_token_that_others_can_read_is_used_with_a_warning(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        local = self.folder(tmp_path, 0o644)
        with caplog.at_level(logging.WARNING):
            assert find(environment=local).token == "local"
        assert "chmod 600" in caplog.text

    def test_a_token_is_not_in_what_is_printed(self) -> None:
        assert "secret" not in repr(find("http://a", "secret", {}))


class TestSync:
    @pytest.fixture
    def sync(self, server: Served) -> Iterator[SyncClient]:
        with SyncClient(server.url, server.token) as one:
            yield one

    def test_it_has_a_door_for_every_call(self) -> None:
        calls = {
            name
            for name, member in vars(Client).items()
            if not name.startswith("_")
            and (inspect.iscoroutinefunction(member) or inspect.isasyncgenfunction(member))
        }
        assert calls - set(vars(SyncClient)) == set()

    async def test_it_calls_waits_and_raises_as_the_async_one_does(
        self, server: Served, sync: SyncClient
    ) -> None:
        # The server lives on this test's loop, so the calls are made from a thread.
        def use() -> None:
            sync.enqueue([NewWork(queue=Q, id="a")])
            assert sync.show("a").state == "ready"
            with pytest.raises(errors.NotFound):
                sync.show("nobody")
            assert list(sync.all_dead_letters()) == []
            events = sync.events(kind="work", after="0-0")
            sync.cancel(["a"])
            assert next(events).id == "a"
            events.close()  # type: ignore[attr-defined]

        await asyncio.to_thread(use)
        await asyncio.to_thread(sync.close)


async def test_a_stream_of_pages_ends(client: Client) -> None:
    letters: AsyncIterator[object] = client.all_dead_letters()
    assert [letter async for letter in letters] == []
