"""Handlers: a name, a queue, and a function from a context to a result.

    @register_handler("raster.validate", queue="container-tasks", timeout_seconds=600)
    async def validate(ctx: HandlerContext) -> HandlerResult: ...

A handler may be a plain function too; it then runs in a thread. An exception fails the attempt and
the item is tried again as its policy says; `PermanentFailure` says that trying again is no use,
`RetryLater` when it would be. Whatever a handler raises, the worker lives on.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

QUEUE = "functionapp-tasks"
"""Where a task goes if neither its workflow nor its handler names a queue."""


@dataclass
class HandlerContext:
    """Context passed to every handler."""

    task_id: str
    job_id: str
    node_id: str
    params: dict[str, Any]
    logger: logging.Logger
    pool: Any | None = None
    blob_repository: Any | None = None
    epoch: int = 0
    """The attempt's token: it grows with each grant. Pass it to whatever acts for this attempt, so
    that an attempt which was superseded can be told from the present one."""
    attempt: int = 1
    """The first is 1."""
    cancelled: threading.Event = field(default_factory=threading.Event)
    """Set when the result is not wanted any more: the lease is lost, the item was cancelled, its time
    is over, or the worker must end. Async handlers are cancelled besides; threads must look here."""


@dataclass
class HandlerResult:
    """Result returned by every handler."""

    success: bool
    output: dict[str, Any] = field(default_factory=dict)
    error_message: str | None = None
    metrics: dict[str, Any] = field(default_factory=dict)


class PermanentFailure(Exception):
    """It will not work next time either."""

    retryable = False


class RetryLater(Exception):
    """It may work, but not before `delay_seconds` have passed."""

    def __init__(self, message: str, *, delay_seconds: float) -> None:
        super().__init__(message)
        self.delay_seconds = delay_seconds


Handler = Callable[[HandlerContext], HandlerResult | Awaitable[HandlerResult]]
H = TypeVar("H", bound=Handler)


@dataclass(frozen=True, slots=True)
class Registered:
    name: str
    queue: str
    timeout_seconds: float | None
    function: Handler


HANDLERS: dict[str, Registered] = {}
"""Every handler of this process: importing a module is what registers its handlers."""


def register_handler(
    name: str,
    *,
    queue: str = QUEUE,
    timeout_seconds: float | None = None,
    into: dict[str, Registered] = HANDLERS,
) -> Callable[[H], H]:
    """Make a function known as the handler `name`. One name, one function."""
    if not name or not queue:
        raise ValueError("a handler needs a name and a queue")
    if timeout_seconds is not None and not timeout_seconds > 0:
        raise ValueError(f"timeout_seconds is {timeout_seconds}; it must be more than 0")

    def register(function: H) -> H:
        known = into.get(name)
        if known is not None and not _is_same(known.function, function):
            raise ValueError(f"there are two handlers called {name!r}; give one another name")
        into[name] = Registered(name, queue, timeout_seconds, function)
        return function

    return register


def _is_same(one: Handler, other: Handler) -> bool:
    """A module that is loaded twice brings its functions twice."""
    return _place(one) == _place(other)


def _place(function: Handler) -> tuple[str, str]:
    named = function if hasattr(function, "__qualname__") else type(function)
    return str(named.__module__), str(named.__qualname__)
