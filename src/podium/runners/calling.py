"""From a claimed item to an outcome: find its handler, call it, and say how it went.

Nothing that a handler does comes out of here but as an outcome: it may raise, exit, cancel itself,
return nonsense or a value that no store could keep.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from podium.contracts.work import ClaimedWork, Failure, Success
from podium.sdk.handlers import Handler, HandlerContext, HandlerResult, Registered

ERROR_CHARACTERS_MAX = 10_000
OVERHEAD_BYTES = 100

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What to report, and about how many bytes that takes."""

    said: Success | Failure
    bytes: int = OVERHEAD_BYTES


class Refused(Exception):
    """This item cannot be handled here, now or later."""


@dataclass(frozen=True, slots=True)
class Task:
    """An item as its handler sees it."""

    handler: Registered
    context: HandlerContext
    timeout_seconds: float | None


def task_of(item: ClaimedWork, handlers: Mapping[str, Registered]) -> Task:
    """Refused, saying why, if nobody here can handle it."""
    message = item.payload if isinstance(item.payload, dict) else {}
    name = message.get("handler")
    if isinstance(name, str):
        handler, params = _by_name(name, handlers), message.get("params")
    else:
        handler, params, message = _only_one(item.queue, handlers), item.payload, {}
    if params is not None and not isinstance(params, dict):
        raise Refused(f"the params of {handler.name} must be a JSON object")
    context = HandlerContext(
        task_id=item.id,
        job_id=str(message.get("job_id") or ""),
        node_id=str(message.get("node_id") or ""),
        params=params or {},
        logger=_logger(handler.name, item),
        epoch=item.epoch,
        attempt=item.attempts + 1,
    )
    return Task(handler, context, _timeout(message.get("timeout_seconds"), handler))


async def outcome_of(item: ClaimedWork, task: Task) -> Outcome:
    """Call the handler. Raises CancelledError only if this very call is cancelled."""
    try:
        async with asyncio.timeout(task.timeout_seconds) as limit:
            result = await _call(task.handler.function, task.context)
        return _told(item, task, result)
    except asyncio.CancelledError:
        if _is_being_cancelled():
            raise
        return failure(item, "the handler cancelled itself")
    except TimeoutError as error:
        if limit.expired():
            return failure(item, f"it took longer than {task.timeout_seconds:g} seconds")
        return _raised(item, task, error)
    except BaseException as error:
        # Whatever it is, SystemExit too: a handler's end is not the worker's.
        return _raised(item, task, error)
    finally:
        task.context.cancelled.set()


def failure(
    item: ClaimedWork,
    error: str,
    *,
    retryable: bool = True,
    delay_seconds: float | None = None,
) -> Outcome:
    text = error.encode("utf-8", "replace").decode()[:ERROR_CHARACTERS_MAX].replace("\0", "�")
    said = Failure(
        id=item.id,
        epoch=item.epoch,
        error=text,
        retryable=retryable,
        delay_seconds=delay_seconds,
    )
    return Outcome(said, OVERHEAD_BYTES + 4 * len(text))


async def _call(function: Handler, context: HandlerContext) -> Any:
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004
    ):
        result: Any = function(context)
    else:
        result = await _in_thread(function, context)
    return await result if inspect.isawaitable(result) else result


async def _in_thread(function: Handler, context: HandlerContext) -> Any:
    """A thread of its own, that does not keep the process from ending as a pool's threads would."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Any] = loop.create_future()

    def settle(how: Callable[[Any], None], value: Any) -> None:
        if not answer.done():
            how(value)

    def run() -> None:
        try:
            value: Any = function(context)
            how = answer.set_result
        except BaseException as error:
            # A future refuses StopIteration, and the loop would not survive SystemExit.
            value = error if isinstance(error, Exception) else RuntimeError(repr(error))
            value = RuntimeError(repr(error)) if isinstance(error, StopIteration) else value
            how = answer.set_exception
        try:
            loop.call_soon_threadsafe(settle, how, value)
        except RuntimeError:
            pass  # the loop is closed: the worker has ended, nobody waits for this

    threading.Thread(target=run, name=f"handler {context.task_id}", daemon=True).start()
    try:
        return await answer
    except asyncio.CancelledError:
        context.cancelled.set()
        raise


def _told(item: ClaimedWork, task: Task, result: Any) -> Outcome:
    if not isinstance(result, HandlerResult):
        text = f"{task.handler.name} returned {type(result).__name__}, not a HandlerResult"
        return failure(item, text, retryable=False)
    if not result.success:
        return failure(item, result.error_message or "the handler said that it failed")
    value = {"output": result.output, "metrics": result.metrics}
    try:
        size = len(orjson.dumps(value))
    except (TypeError, RecursionError) as error:
        text = f"the result of {task.handler.name} cannot be stored: it is not JSON: {error}"
        return failure(item, text, retryable=False)
    return Outcome(Success(id=item.id, epoch=item.epoch, result=value), OVERHEAD_BYTES + size)


def _raised(item: ClaimedWork, task: Task, error: BaseException) -> Outcome:
    task.context.logger.error("the handler raised", exc_info=error)
    return failure(
        item,
        _text(error),
        retryable=bool(getattr(error, "retryable", True)),
        delay_seconds=_delay(error),
    )


def _text(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:
        return type(error).__name__


def _delay(error: BaseException) -> float | None:
    delay = getattr(error, "delay_seconds", None)
    return min(max(float(delay), 0.0), 86_400.0) if isinstance(delay, int | float) else None


def _by_name(name: str, handlers: Mapping[str, Registered]) -> Registered:
    if name not in handlers:
        known = ", ".join(sorted(handlers)[:20]) or "none"
        raise Refused(f"no handler is called {name[:100]!r} here; known are: {known}")
    return handlers[name]


def _only_one(queue: str, handlers: Mapping[str, Registered]) -> Registered:
    found = [handler for handler in handlers.values() if handler.queue == queue]
    if len(found) != 1:
        how_many = "no handler is" if not found else f"{len(found)} handlers are"
        raise Refused(
            f"{how_many} registered for the queue {queue!r}, and the payload names none: "
            'send {"handler": name, "params": {…}}'
        )
    return found[0]


def _timeout(said: Any, handler: Registered) -> float | None:
    is_number = isinstance(said, int | float) and not isinstance(said, bool) and said > 0
    return float(said) if is_number else handler.timeout_seconds


def _logger(name: str, item: ClaimedWork) -> logging.Logger:
    """A logger whose lines say which attempt they are about."""
    logger = logging.Logger(f"podium.handlers.{name}")
    logger.parent = logging.getLogger("podium.handlers")
    logger.addFilter(_Facts({"task_id": item.id, "epoch": item.epoch}))
    return logger


class _Facts(logging.Filter):
    def __init__(self, facts: dict[str, object]) -> None:
        super().__init__()
        self._facts = facts

    def filter(self, record: logging.LogRecord) -> bool:
        record.facts = {**getattr(record, "facts", {}), **self._facts}
        return True


def _is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
