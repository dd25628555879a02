"""What any desk must promise to the runner in front of it, whatever lies between it and the queue.

A desk takes the suite on by subclassing it and giving it a `desk` fixture, on a queue of its own:

    class TestChannel(DeskSuite):
        @pytest.fixture
        async def desk(self, tmp_path): ...
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from podium.contracts.errors import Code
from podium.contracts.work import (
    ITEMS_MAX,
    Claim,
    ClaimedWork,
    Enqueue,
    Failure,
    Grant,
    Grants,
    NewWork,
    Report,
    Success,
)

Q = "desk"
# Whatever fills `podium.sdk.desk.WorkDesk`; proofs are shipped apart from what they prove.
Desk = Any

ODD: dict[str, Any] = {
    "text": 'ä\u2028\u2029\x85\r\n\t"\\ 😀',
    "numbers": [0, -1, 2**53 + 1, 2**63 - 1, 1.5, 1e300],
    "nothing": None,
    "deep": {"a": [{"b": [[]]}]},
}


async def put(desk: Desk, *payloads: Any, **terms: Any) -> list[str]:
    items = [NewWork(queue=Q, payload=payload, **terms) for payload in payloads]
    return [item.id for item in (await desk.enqueue(Enqueue(items=items))).items]


async def take(desk: Desk, n: int = 1, **terms: Any) -> list[ClaimedWork]:
    claimed = await desk.claim(Claim(queues=[Q], holder="suite", n=n, **terms))
    return list(claimed.items)


def grants(items: list[ClaimedWork]) -> Grants:
    return Grants(grants=[Grant(id=item.id, epoch=item.epoch) for item in items])


def done(items: list[ClaimedWork], result: Any = None) -> Report:
    return Report(done=[Success(id=item.id, epoch=item.epoch, result=result) for item in items])


def verdicts(answer: Any) -> list[str]:
    return [each.verdict for each in answer.verdicts]


class DeskSuite:
    async def test_what_is_handed_in_comes_out_as_it_was(self, desk: Desk) -> None:
        await put(desk, ODD, None, [1], "text")
        items = await take(desk, 10)
        assert [item.payload for item in items] == [ODD, None, [1], "text"]

    async def test_a_claim_says_what_was_granted_and_until_when(self, desk: Desk) -> None:
        [id] = await put(desk, {"n": 1}, attempts_max=5, lease_seconds=30.0, priority=2)
        before = datetime.now(UTC)
        [item] = await take(desk)
        assert (item.id, item.queue, item.epoch) == (id, Q, 1)
        assert (item.attempts_max, item.priority, item.lease_seconds) == (5, 2, 30.0)
        assert 25 < (item.expires_at - before).total_seconds() < 40

    async def test_an_id_that_is_known_is_not_enqueued_again(self, desk: Desk) -> None:
        body = Enqueue(items=[NewWork(queue=Q, id="one")])
        assert [item.created for item in (await desk.enqueue(body)).items] == [True]
        assert [item.created for item in (await desk.enqueue(body)).items] == [False]

    async def test_what_is_claimed_is_begun_by_a_start_and_only_once(self, desk: Desk) -> None:
        await put(desk, 1)
        items = await take(desk, start=False)
        assert verdicts(await desk.report(done(items))) == ["not_held"]
        assert verdicts(await desk.start(grants(items))) == ["ok"]
        assert verdicts(await desk.start(grants(items))) == ["started"]
        assert verdicts(await desk.report(done(items))) == ["ok"]

    async def test_what_is_given_back_goes_to_the_next_under_a_new_epoch(self, desk: Desk) -> None:
        await put(desk, 1)
        old = await take(desk)
        assert verdicts(await desk.release(grants(old))) == ["ok"]
        [new] = await take(desk)
        assert (new.epoch, new.attempts) == (2, 1), "it cost no attempt"
        assert verdicts(await desk.report(done(old))) == ["superseded"]
        assert verdicts(await desk.renew(grants(old))) == ["superseded"]
        assert verdicts(await desk.report(done([new]))) == ["ok"]

    async def test_a_renewal_says_how_long_it_holds(self, desk: Desk) -> None:
        await put(desk, 1)
        items = await take(desk)
        [verdict] = (await desk.renew(grants(items))).verdicts
        assert verdict.verdict == "ok"
        assert verdict.expires_at >= items[0].expires_at

    async def test_results_and_failures_are_answered_in_their_order(self, desk: Desk) -> None:
        await put(desk, *range(4))
        a, b, c, d = await take(desk, 4)
        report = Report(
            done=[
                Success(id=a.id, epoch=a.epoch, result=ODD),
                Success(id=b.id, epoch=b.epoch + 7),
            ],
            failed=[
                Failure(id=c.id, epoch=c.epoch, error="ä\u2028", retryable=False),
                Failure(id=d.id, epoch=d.epoch + 7, error="late"),
            ],
        )
        answer = await desk.report(report)
        assert [(each.id, each.verdict) for each in answer.verdicts] == [
            (a.id, "ok"),
            (b.id, "superseded"),
            (c.id, "ok"),
            (d.id, "superseded"),
        ]

    async def test_a_claim_that_waits_is_woken_by_what_is_enqueued(self, desk: Desk) -> None:
        waiting = asyncio.create_task(take(desk, wait_seconds=20.0))
        done_, _ = await asyncio.wait([waiting], timeout=0.1)
        assert not done_, "it came back before there was anything"
        [id] = await put(desk, 1)
        async with asyncio.timeout(5):
            assert [item.id for item in await waiting] == [id]

    async def test_a_claim_that_waits_in_vain_comes_back_with_nothing(self, desk: Desk) -> None:
        async with asyncio.timeout(5):
            assert await take(desk, wait_seconds=0.05) == []

    async def test_a_thousand_at_once(self, desk: Desk) -> None:
        ids = await put(desk, *({"n": n} for n in range(ITEMS_MAX)))
        items = await take(desk, ITEMS_MAX, start=False)
        assert [item.id for item in items] == ids
        for call, body in (
            (desk.start, grants(items)),
            (desk.renew, grants(items)),
            (desk.report, done(items, {"ok": True})),
        ):
            assert verdicts(await call(body)) == ["ok"] * ITEMS_MAX

    async def test_many_calls_at_once_get_each_its_own_answer(self, desk: Desk) -> None:
        answers = await asyncio.gather(*(put(desk, n, id=f"item-{n}") for n in range(200)))
        assert answers == [[f"item-{n}"] for n in range(200)]

    async def test_a_refusal_carries_its_code_and_harms_nobody(self, desk: Desk) -> None:
        with pytest.raises(Exception) as refused:
            await put(desk, "x" * 2_000_000)
        assert getattr(refused.value, "code", None) == Code.PAYLOAD_TOO_LARGE
        assert len(await put(desk, "small enough")) == 1
