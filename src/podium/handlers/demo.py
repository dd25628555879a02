"""Handlers for the demo and for first steps: one that is quick, one that takes its time, one that fails."""

from __future__ import annotations

import asyncio
from pathlib import Path

from podium.sdk.handlers import HandlerContext, HandlerResult, register_handler

QUEUE = "demo"
COUNT_SECONDS = 0.01


@register_handler("demo.count", queue=QUEUE)
async def count(ctx: HandlerContext) -> HandlerResult:
    """Adds up the numbers from 1 to `n`, and takes a moment over it."""
    n = int(ctx.params.get("n", 10))
    await asyncio.sleep(COUNT_SECONDS)
    return HandlerResult(success=True, output={"n": n, "sum": n * (n + 1) // 2})


@register_handler("demo.slow", queue=QUEUE)
async def slow(ctx: HandlerContext) -> HandlerResult:
    """Takes `seconds`, in small steps, as something long would."""
    seconds, steps = float(ctx.params.get("seconds", 5.0)), 10
    for step in range(steps):
        await asyncio.sleep(seconds / steps)
        ctx.logger.debug("a step of ten", extra={"facts": {"step": step + 1}})
    return HandlerResult(success=True, output={"seconds": seconds})


@register_handler("demo.poison", queue=QUEUE)
def poison(ctx: HandlerContext) -> HandlerResult:
    """Fails, until what `params` names has come about.

    `until_exists`: a file. `fails`: so many grants, to anybody; their count goes on after a replay,
    so the same item can die, be replayed, and succeed.
    """
    path, fails = ctx.params.get("until_exists"), ctx.params.get("fails")
    is_cured = (path is not None and Path(path).exists()) or (
        fails is not None and ctx.epoch > int(fails)
    )
    if is_cured:
        return HandlerResult(success=True, output={"cured": True})
    return HandlerResult(
        success=False, error_message="this item is poison: it fails on purpose, whoever takes it"
    )
