"""The worker at a desk over a channel: lists, leases, and a desk that is out of order."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from podium.runners.worker import Worker
from podium.sdk import HandlerContext, HandlerResult, errors
from podium.sdk.client import Client
from tests.runners.traces import until_done
from tests.runners.working import GOOD, Desk, handled_by, put, until_state, working


class TestLists:
    async def test_claims_starts_and_reports_are_lists(self, client: Client, desk: Desk) -> None:
        async def handler(ctx: HandlerContext) -> HandlerResult:
            return GOOD

        ids = await put(client, *({"n": n} for n in range(200)))
        async with working(desk, handled_by(handler), concurrency=50) as worker:
            await until_done(client, ids)
            assert worker.counts["reported"] == 200
        assert sum(desk.sizes("start")) == sum(desk.sizes("report")) == 200
        assert len(desk.sizes("start")) <= 20
        assert len(desk.sizes("report")) <= 20

    async def test_one_bad_result_fails_alone(self, client: Client, desk: Desk) -> None:
        async def handler(ctx: HandlerContext) -> HandlerResult:
            return HandlerResult(success=True, output={"text": "\0" * ctx.params["bad"]})

        ids = await put(client, *({"bad": int(n == 30)} for n in range(61)))
        async with working(desk, handled_by(handler), concurrency=100):
            bad = await until_state(client, ids[30], "dead")
            await until_done(client, ids[:30] + ids[31:])
        assert "cannot be stored" in (bad.error or "")


class TestLeases:
    async def test_a_long_one_is_renewed_and_kept(self, client: Client, desk: Desk) -> None:
        async def handler(ctx: HandlerContext) -> HandlerResult:
            await asyncio.sleep(1.6)
            return HandlerResult(success=True, output={"epoch": ctx.epoch})

        ids = await put(client, *({"n": n} for n in range(5)), lease_seconds=1.0)
        async with working(desk, handled_by(handler)):
            await until_done(client, ids)
        for id in ids:
            assert (await client.show(id)).result["output"] == {"epoch": 1}
        assert max(desk.sizes("renew")) == 5, "all in one call"

    @pytest.mark.parametrize("is_async", [True, False])
    async def test_one_that_was_cancelled_outside_is_stopped(
        self, client: Client, desk: Desk, is_async: bool, caplog: pytest.LogCaptureFixture
    ) -> None:
        begun, stopped = threading.Event(), threading.Event()

        def plain(ctx: HandlerContext) -> HandlerResult:
            begun.set()
            if ctx.cancelled.wait(30):
                stopped.set()
            return GOOD

        async def handler(ctx: HandlerContext) -> HandlerResult:
            begun.set()
            try:
                await asyncio.sleep(30)
            finally:
                stopped.set()
            return GOOD

        [id] = await put(client, None, lease_seconds=1.0)
        function: Any = handler if is_async else plain
        async with working(desk, handled_by(function)) as worker:
            assert await asyncio.to_thread(begun.wait, 10)
            await client.cancel([id])
            assert await asyncio.to_thread(stopped.wait, 10)
            assert worker.counts["lost"] == 1
        assert (await client.show(id)).state == "cancelled"
        assert desk.sizes("report") == []
        why = [getattr(record, "facts", {}).get("why") for record in caplog.records]
        assert "cancelled" in why, "it was told, and did not wait for the lease to end"

    async def test_when_nobody_can_be_asked_a_lease_ends_by_the_clock(
        self, client: Client, desk: Desk
    ) -> None:
        stopped = asyncio.Event()

        async def handler(ctx: HandlerContext) -> HandlerResult:
            try:
                await asyncio.sleep(30)
            finally:
                stopped.set()
            return GOOD

        away = [errors.Unavailable("SERVICE_UNAVAILABLE", "away")] * 1_000
        desk.faults["renew"] = list(away)
        await put(client, None, lease_seconds=1.0)
        async with working(desk, handled_by(handler)) as worker:
            async with asyncio.timeout(10):
                await stopped.wait()
            worker.ask_to_stop()
            assert worker.counts["lost"] >= 1


class TestABadDesk:
    async def test_results_wait_for_a_desk_that_is_away(self, client: Client, desk: Desk) -> None:
        async def handler(ctx: HandlerContext) -> HandlerResult:
            return GOOD

        away = errors.Unavailable("SERVICE_UNAVAILABLE", "away")
        desk.faults = {"report": [away, away], "claim": [away], "start": []}
        [id] = await put(client, None)
        async with working(desk, handled_by(handler)):
            shown = await until_state(client, id, "done")
        assert shown.epoch == 1, "the first attempt's result"

    async def test_a_refusal_that_no_waiting_mends_ends_it(self, desk: Desk) -> None:
        desk.faults["claim"] = [errors.Forbidden("AUTHZ_INSUFFICIENT_PERMISSIONS", "no", {})]
        worker = Worker(desk, handled_by(lambda ctx: GOOD), holder="worker")
        with pytest.raises(errors.Forbidden):
            async with asyncio.timeout(10):
                await worker.run()

    async def test_a_parent_that_is_gone_ends_it(self, client: Client, desk: Desk) -> None:
        async def handler(ctx: HandlerContext) -> HandlerResult:
            await asyncio.sleep(30)
            return GOOD

        desk.faults["renew"] = [errors.ChannelClosed("gone")]
        await put(client, None, lease_seconds=1.0)
        worker = Worker(desk, handled_by(handler), holder="worker", grace_seconds=0.1)
        with pytest.raises(errors.ChannelClosed):
            async with asyncio.timeout(10):
                await worker.run()

    async def test_what_came_after_the_bell_goes_back_unharmed(
        self, client: Client, desk: Desk
    ) -> None:
        async def handler(ctx: HandlerContext) -> HandlerResult:
            return GOOD

        worker = Worker(desk, handled_by(handler), holder="worker", wait_seconds=5.0)
        running = asyncio.create_task(worker.run())
        async with asyncio.timeout(10):
            await desk.claimed.wait()
        worker.ask_to_stop()
        [id] = await put(client, None)
        async with asyncio.timeout(10):
            await running
        shown = await client.show(id)
        assert (shown.state, shown.attempts) == ("ready", 0)
        assert desk.sizes("start") == []
