"""Handlers that leave a trace in a file, so that a test in another process can count what was begun."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from typing import Any

from podium.sdk import HandlerContext, HandlerResult, register_handler

QUEUE = "traced"


def trace(ctx: HandlerContext, what: str, more: Any = "") -> None:
    line = f"{what} {ctx.task_id} {ctx.epoch} {os.getpid()} {more}\n"
    # One write to a file opened for appending: lines of several processes do not mix.
    descriptor = os.open(ctx.params["file"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


@register_handler("traced.work", queue=QUEUE)
async def work(ctx: HandlerContext) -> HandlerResult:
    trace(ctx, "begin")
    await asyncio.sleep(ctx.params.get("seconds", 0.0))
    trace(ctx, "end")
    return HandlerResult(success=True)


@register_handler("traced.thread", queue=QUEUE)
def thread(ctx: HandlerContext) -> HandlerResult:
    """A plain function that does not look whether it is wanted."""
    trace(ctx, "begin")
    time.sleep(ctx.params.get("seconds", 0.0))
    trace(ctx, "end")
    return HandlerResult(success=True)


@register_handler("traced.deaf", queue=QUEUE)
async def deaf(ctx: HandlerContext) -> HandlerResult:
    """Will not be cancelled."""
    trace(ctx, "begin")
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            trace(ctx, "cancelled")


@register_handler("traced.busy", queue=QUEUE)
async def busy(ctx: HandlerContext) -> HandlerResult:
    """Keeps the loop of its worker for itself."""
    trace(ctx, "begin")
    until = time.monotonic() + ctx.params["seconds"]
    while time.monotonic() < until:
        pass
    return HandlerResult(success=True)


@register_handler("traced.flood", queue=QUEUE)
async def flood(ctx: HandlerContext) -> HandlerResult:
    """Prints more than anybody wants to read."""
    line = "x" * 200 + "\n"
    for _ in range(ctx.params["lines"] // 100):
        sys.stdout.write(line * 100)
    print("not\x00printable", b"\xff".decode("latin-1"))
    trace(ctx, "end")
    return HandlerResult(success=True)


@register_handler("traced.offspring", queue=QUEUE)
async def offspring(ctx: HandlerContext) -> HandlerResult:
    """Starts a program and does not look after it."""
    child = subprocess.Popen(["sleep", "600"])
    trace(ctx, "begin", child.pid)
    await asyncio.sleep(600)
    return HandlerResult(success=True)
