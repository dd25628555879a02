"""What a worker makes of its handlers: what they get, what they return, what they raise."""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest

from podium.contracts.work import (
    WorkShown,
)
from podium.runners.worker import Worker
from podium.sdk import HandlerContext, HandlerResult, PermanentFailure, RetryLater
from podium.sdk.client import Client
from podium.sdk.handlers import HANDLERS, Registered, register_handler
from tests.runners.traces import until_done
from tests.runners.working import GOOD, Desk, Q, handled_by, put, until_state, working


async def outcome(
    client: Client,
    desk: Desk,
    function: Callable[[HandlerContext], Any],
    payload: Any = None,
    *,
    state: str = "dead",
    timeout_seconds: float | None = None,
) -> WorkShown:
    """How an item with one attempt ends in the hands of this handler."""
    [id] = await put(client, payload, attempts_max=1)
    async with working(desk, handled_by(function, timeout_seconds=timeout_seconds)) as worker:
        shown = await until_state(client, id, state)
        # Whatever it was, the worker is still there.
        [after] = await put(client, {"handler": "none"})
        await until_state(client, after, "dead")
        assert not worker.is_stopping
    return shown


class TestHandlers:
    async def test_it_gets_what_was_sent_and_its_output_is_kept(
        self, client: Client, desk: Desk
    ) -> None:
        seen: list[HandlerContext] = []

        async def handler(ctx: HandlerContext) -> HandlerResult:
            seen.append(ctx)
            return HandlerResult(success=True, output={"a": 1}, metrics={"rows": 7})

        message = {"handler": "h", "params": {"page": 7}, "job_id": "job", "node_id": "node"}
        [id] = await put(client, message)
        async with working(desk, handled_by(handler)):
            shown = await until_state(client, id, "done")
        assert shown.result == {"output": {"a": 1}, "metrics": {"rows": 7}}
        [ctx] = seen
        assert (ctx.task_id, ctx.job_id, ctx.node_id) == (id, "job", "node")
        assert (ctx.params, ctx.epoch, ctx.attempt) == ({"page": 7}, 1, 1)
        assert isinstance(ctx.logger, logging.Logger)

    @pytest.mark.parametrize(("payload", "params"), [({"page": 7}, {"page": 7}), (None, {})])
    async def test_a_queue_with_one_handler_needs_no_name(
        self, client: Client, desk: Desk, payload: Any, params: Any
    ) -> None:
        async def handler(ctx: HandlerContext) -> HandlerResult:
            return HandlerResult(success=True, output={"params": ctx.params})

        shown = await outcome(client, desk, handler, payload, state="done")
        assert shown.result["output"] == {"params": params}

    async def test_a_plain_function_runs_in_a_thread(self, client: Client, desk: Desk) -> None:
        def handler(ctx: HandlerContext) -> HandlerResult:
            return HandlerResult(success=True, output={"thread": threading.current_thread().name})

        shown = await outcome(client, desk, handler, state="done")
        assert shown.result["output"]["thread"] != threading.main_thread().name

    async def test_many_run_side_by_side_but_no_more_than_it_may(
        self, client: Client, desk: Desk
    ) -> None:
        running, most = 0, 0

        async def handler(ctx: HandlerContext) -> HandlerResult:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.01)
            running -= 1
            return GOOD

        ids = await put(client, *({"n": n} for n in range(40)))
        async with working(desk, handled_by(handler), concurrency=4):
            await until_done(client, ids)
        assert most == 4


class TestFailures:
    async def test_what_it_raises_is_the_error_and_it_is_tried_again(
        self, client: Client, desk: Desk
    ) -> None:
        tries = itertools.count(1)

        async def handler(ctx: HandlerContext) -> HandlerResult:
            if next(tries) == 1:
                raise RetryLater("the tide is out", delay_seconds=0.0)
            return HandlerResult(success=True, output={"attempt": ctx.attempt})

        [id] = await put(client, None, attempts_max=2)
        async with working(desk, handled_by(handler)):
            shown = await until_state(client, id, "done")
        assert shown.result["output"] == {"attempt": 2}

    @pytest.mark.parametrize(
        ("error", "text"),
        [
            (ValueError("ä\u2028\0\ud800"), "ValueError: ä\u2028\ufffd?"),
            (SystemExit(3), "SystemExit: 3"),
            (KeyboardInterrupt(), "KeyboardInterrupt: "),
            (asyncio.CancelledError(), "the handler cancelled itself"),
            (TimeoutError("of its own"), "TimeoutError: of its own"),
            (StopIteration("x"), "StopIteration"),
            (RuntimeError("x" * 20_000), "RuntimeError: xxx"),
        ],
        ids=["odd text", "exit", "interrupt", "cancelled", "timeout", "stop", "long text"],
    )
    @pytest.mark.parametrize("is_async", [True, False])
    async def test_whatever_it_raises_the_worker_lives_on(
        self,
        client: Client,
        desk: Desk,
        error: BaseException,
        text: str,
        is_async: bool,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        # What pytest keeps of the log goes from process to process, and half a character cannot.
        caplog.set_level(logging.CRITICAL + 1, logger="podium")

        def plain(ctx: HandlerContext) -> HandlerResult:
            raise error

        async def handler(ctx: HandlerContext) -> HandlerResult:
            raise error

        shown = await outcome(client, desk, handler if is_async else plain)
        assert shown.error is not None
        if is_async:
            assert text.split(":")[0] in shown.error or "StopIteration" in shown.error
        assert len(shown.error) <= 10_000

    @pytest.mark.parametrize(
        ("result", "text"),
        [
            (HandlerResult(success=False, error_message="no such file"), "no such file"),
            (HandlerResult(success=False), "the handler said that it failed"),
            (None, "h returned NoneType, not a HandlerResult"),
            ({"success": True}, "h returned dict, not a HandlerResult"),
            (HandlerResult(success=True, output={"a": {1}}), "it is not JSON"),
            (HandlerResult(success=True, output={"a": float("nan")}), "cannot be stored"),
            (HandlerResult(success=True, output={"a": "\0"}), "cannot be stored"),
            (HandlerResult(success=True, output={"a": "x" * 2_000_000}), "cannot be stored"),
        ],
    )
    async def test_what_it_returns_fails_with_its_reason(
        self, client: Client, desk: Desk, result: Any, text: str
    ) -> None:
        async def handler(ctx: HandlerContext) -> Any:
            return result

        shown = await outcome(client, desk, handler)
        assert text in (shown.error or "")

    async def test_one_that_says_it_is_no_use_is_not_tried_again(
        self, client: Client, desk: Desk
    ) -> None:
        async def handler(ctx: HandlerContext) -> HandlerResult:
            raise PermanentFailure("there is no such bucket")

        [id] = await put(client, None, attempts_max=5)
        async with working(desk, handled_by(handler)):
            shown = await until_state(client, id, "dead")
        assert (shown.attempts, shown.error) == (1, "PermanentFailure: there is no such bucket")

    @pytest.mark.parametrize(
        ("payload", "text"),
        [
            ({"handler": "nobody"}, "no handler is called 'nobody' here; known are: h"),
            ({"handler": "h", "params": [1]}, "the params of h must be a JSON object"),
            ([1, 2], "the params of h must be a JSON object"),
        ],
    )
    async def test_what_nobody_can_handle_is_dead_at_once_and_says_why(
        self, client: Client, desk: Desk, payload: Any, text: str
    ) -> None:
        async def handler(ctx: HandlerContext) -> HandlerResult:
            return GOOD

        [id] = await put(client, payload, attempts_max=5)
        async with working(desk, handled_by(handler)):
            shown = await until_state(client, id, "dead")
        assert (shown.attempts, shown.error) == (1, text)

    @pytest.mark.parametrize("is_async", [True, False])
    async def test_one_that_takes_too_long_fails_and_is_told(
        self, client: Client, desk: Desk, is_async: bool
    ) -> None:
        told = threading.Event()

        def plain(ctx: HandlerContext) -> HandlerResult:
            if ctx.cancelled.wait(30):
                told.set()
            return GOOD

        async def handler(ctx: HandlerContext) -> HandlerResult:
            try:
                await asyncio.sleep(30)
            finally:
                told.set()
            return GOOD

        function: Any = handler if is_async else plain
        shown = await outcome(client, desk, function, timeout_seconds=0.1)
        assert shown.error == "it took longer than 0.1 seconds"
        assert await asyncio.to_thread(told.wait, 5)


class TestRegistering:
    def test_the_queue_and_the_time_are_kept(self) -> None:
        mine: dict[str, Registered] = {}

        @register_handler(
            "raster.validate", queue="container-tasks", timeout_seconds=600, into=mine
        )
        async def validate(ctx: HandlerContext) -> HandlerResult:
            return GOOD

        assert mine["raster.validate"].queue == "container-tasks"
        assert mine["raster.validate"].timeout_seconds == 600
        assert mine["raster.validate"].function is validate

    def test_one_name_is_one_function(self) -> None:
        mine: dict[str, Registered] = {}
        register_handler("a", into=mine)(_one)
        register_handler("a", into=mine)(_one)
        with pytest.raises(ValueError, match="two handlers called 'a'"):
            register_handler("a", into=mine)(_other)

    def test_the_shipped_ones_are_there(self) -> None:
        import podium.handlers

        assert podium.handlers.demo.QUEUE == "demo"
        assert {"demo.count", "demo.slow", "demo.poison"} <= set(HANDLERS)

    async def test_a_worker_without_queues_serves_those_of_its_handlers(self, desk: Desk) -> None:
        assert Worker(desk, handled_by(_one), holder="w").queues == [Q]
        with pytest.raises(ValueError, match="a worker needs a queue"):
            Worker(desk, {}, holder="w")


async def test_poison_dies_is_replayed_and_heals(client: Client, desk: Desk) -> None:
    import podium.handlers.demo  # noqa: F401

    payload = {"handler": "demo.poison", "params": {"fails": 1}}
    [id] = await put(client, payload, attempts_max=1)
    handlers = {name: it for name, it in HANDLERS.items() if name.startswith("demo.")}
    async with working(desk, handlers, queues=[Q]):
        dead = await until_state(client, id, "dead")
        assert "poison" in (dead.error or "")
        await client.replay([id])
        await until_state(client, id, "done")


async def _one(ctx: HandlerContext) -> HandlerResult:
    return GOOD


async def _other(ctx: HandlerContext) -> HandlerResult:
    return GOOD
