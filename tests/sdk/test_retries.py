"""A bad line: what is safe to repeat is repeated and happens once; what is not is left to the caller."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator

import pytest

from podium.contracts.scopes import Scope
from podium.contracts.work import Claim, Grant, Grants, NewWork, Report, Success
from podium.sdk import errors
from podium.sdk.client import Client
from tests.sdk.line import CUT, LOSE, Line, busy, line_to
from tests.sdk.served import Served, free_port, served

Q = "q"


@pytest.fixture
async def line(server: Served) -> AsyncIterator[Line]:
    async with line_to(server.url) as one:
        yield one


@pytest.fixture
async def over(line: Line, server: Served) -> AsyncIterator[Client]:
    """A client at the bad end of the line."""
    async with Client(line.url, server.token) as one:
        yield one


async def count(client: Client) -> int:
    return sum(sum(queue.counts.values()) for queue in (await client.queues()).queues)


async def test_a_lost_answer_is_asked_for_again_and_there_is_one_item(
    line: Line, over: Client, client: Client
) -> None:
    line.faults.extend([LOSE, LOSE])
    enqueued = await over.enqueue([NewWork(queue=Q)])
    assert [item.created for item in enqueued.items] == [True], "the answer of the first try"
    assert len(line.requests) == 3
    assert await count(client) == 1


async def test_two_calls_that_look_alike_are_two_items(over: Client, client: Client) -> None:
    await over.enqueue([NewWork(queue=Q)])
    await over.enqueue([NewWork(queue=Q)])
    assert await count(client) == 2


async def test_a_report_whose_answer_was_lost_counts_as_taken(
    line: Line, over: Client, client: Client
) -> None:
    await client.enqueue([NewWork(queue=Q)])
    [item] = (await client.claim(Claim(queues=[Q], holder="h", start=False))).items
    grants = Grants(grants=[Grant(id=item.id, epoch=item.epoch)])
    line.faults.append(LOSE)
    assert [v.verdict for v in (await over.start(grants)).verdicts] == ["ok"]
    report = Report(done=[Success(id=item.id, epoch=item.epoch)])
    line.faults.append(LOSE)
    assert [v.verdict for v in (await over.report(report)).verdicts] == ["ok"]


async def test_a_report_said_twice_without_a_loss_is_not_taken_twice(client: Client) -> None:
    await client.enqueue([NewWork(queue=Q)])
    [item] = (await client.claim(Claim(queues=[Q], holder="h"))).items
    report = Report(done=[Success(id=item.id, epoch=item.epoch)])
    assert [v.verdict for v in (await client.report(report)).verdicts] == ["ok"]
    assert [v.verdict for v in (await client.report(report)).verdicts] == ["done"]


async def test_what_may_have_happened_and_must_not_happen_twice_is_told(
    line: Line, over: Client, client: Client
) -> None:
    line.faults.append(LOSE)
    with pytest.raises(errors.AnswerLost):
        await over.create_token("once", [Scope.READ])
    line.faults.append(busy(503))
    with pytest.raises(errors.Unavailable):
        await over.create_token("once", [Scope.READ])
    assert len(line.requests) == 2
    names = [token.name for token in (await client.tokens()).tokens]
    assert names.count("once") == 1, "the first was carried out"


async def test_a_claim_whose_answer_was_lost_is_not_repeated(line: Line, over: Client) -> None:
    line.faults.append(LOSE)
    with pytest.raises(errors.AnswerLost):
        await over.claim(Claim(queues=[Q], holder="h"))
    assert len(line.requests) == 1


@pytest.mark.parametrize("status", [429, 502, 503, 504])
async def test_a_busy_server_is_asked_again(line: Line, over: Client, status: int) -> None:
    line.faults.extend([busy(status), busy(status)])
    assert (await over.queues()).queues == []
    assert len(line.requests) == 3


async def test_retry_after_is_obeyed(line: Line, over: Client) -> None:
    line.faults.append(busy(503, "retry-after: 1"))
    began = asyncio.get_running_loop().time()
    await over.queues()
    assert asyncio.get_running_loop().time() - began >= 1.0


async def test_a_wait_beyond_the_deadline_is_not_begun(line: Line, server: Served) -> None:
    line.faults.append(busy(429, "retry-after: 3600"))
    async with Client(line.url, server.token, deadline_seconds=5.0) as client:
        async with asyncio.timeout(2.0):
            with pytest.raises(errors.RateLimited) as refused:
                await client.queues()
    assert refused.value.retry_after_seconds == 3600.0


async def test_the_deadline_ends_it_all(line: Line, server: Served) -> None:
    line.faults.extend([LOSE] * 1_000)
    async with Client(line.url, server.token, deadline_seconds=0.5) as client:
        async with asyncio.timeout(3.0):
            with pytest.raises(errors.AnswerLost):
                await client.queues()
    assert len(line.requests) > 1


async def test_a_refusal_is_not_asked_twice(line: Line, over: Client) -> None:
    with pytest.raises(errors.NotFound):
        await over.show("nobody")
    assert len(line.requests) == 1


async def test_a_server_that_comes_up_late_is_waited_for(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder, port = tmp_path_factory.mktemp("late"), free_port()
    async with Client(f"http://127.0.0.1:{port}", "pod_wrong") as early:
        asking = asyncio.create_task(early.queues())
        async with served(folder, port):
            with pytest.raises(errors.InvalidToken):
                await asking


class TestEvents:
    async def test_a_stream_goes_on_where_a_cut_line_left_it(
        self, line: Line, over: Client, client: Client
    ) -> None:
        ids = [f"item-{n}" for n in range(40)]
        await client.enqueue([NewWork(queue=Q, id=id) for id in ids])
        await client.cancel(ids, reason="because")
        line.faults.extend([CUT, CUT, LOSE, busy(503), CUT])
        heard: list[str] = []
        async with asyncio.timeout(20):
            async for event in over.events(kind="work", after="0-0"):
                heard.append(event.id)
                if len(heard) == len(ids):
                    break
        assert sorted(heard) == sorted(ids), "none missed, none twice"
        assert len(line.requests) >= 6

    async def test_odd_separators_in_a_text_do_not_tear_an_event(self, client: Client) -> None:
        reason = "a\u2028b\u2029c\x85d\x0be\x1cf"
        await client.enqueue([NewWork(queue=Q, id="a")])
        await client.cancel(["a"], reason=reason)
        async with asyncio.timeout(10):
            async for event in client.events(id="a", after="0-0"):
                assert event.reason == reason
                break

    async def test_from_now_on_is_live(self, client: Client) -> None:
        await client.enqueue([NewWork(queue=Q, id="old")])
        await client.cancel(["old"])
        listening = asyncio.ensure_future(anext(client.events(kind="work")))
        async with asyncio.timeout(10):
            for n in itertools.count():
                if listening.done():
                    break
                # The stream may not be open yet; the first that is cancelled after that is heard.
                await client.enqueue([NewWork(queue=Q, id=f"new-{n}")])
                await client.cancel([f"new-{n}"])
        assert (await listening).id.startswith("new-")

    async def test_a_token_that_is_no_good_ends_the_stream(self, server: Served) -> None:
        async with Client(server.url, "pod_wrong") as stranger:
            with pytest.raises(errors.InvalidToken):
                await anext(stranger.events())
