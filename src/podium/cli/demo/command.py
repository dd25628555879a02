"""`podium demo`: what Podium does on a bad day, in a minute."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Awaitable, Callable, Coroutine
from typing import Annotated, Any, NamedTuple

import typer
from rich.console import Console

from podium.cli import shown
from podium.cli.demo import work
from podium.cli.demo.show import Seen, Show
from podium.cli.demo.stage import Stage
from podium.cli.refusals import Refusal

PORT = 8437

app = typer.Typer(rich_markup_mode=None, add_completion=False)


class Act(NamedTuple):
    title: str
    play: Callable[[Stage, Show, int], Awaitable[list[Seen]]]


ACTS = [Act(work.TITLE, work.play)]


@app.command()
def demo(
    exits: Annotated[bool, typer.Option("--exit", help="End when everything was shown.")] = False,
    items: Annotated[int, typer.Option(min=10, max=100_000, help="How many items.")] = 1_000,
    as_json: shown.AsJson = False,
) -> None:
    """Show what Podium does on a bad day: real processes, in a folder that is removed afterwards.

    Without --exit the server stays up until Ctrl-C, so that you can look around.
    """
    console = Console(stderr=as_json)
    try:
        seen = asyncio.run(_until_told(_play(Show(console), items, exits=exits, as_json=as_json)))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    broken = [each.what for each in seen if not each.is_as_promised]
    if broken:
        raise Refusal(f"not as promised: {', '.join(broken)}; please report it")


async def _until_told(playing: Coroutine[Any, Any, list[Seen]]) -> list[Seen]:
    """Whoever ends the demo, by Ctrl-C or otherwise, ends what it has started too."""
    task = asyncio.ensure_future(playing)
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    return await task


async def _play(show: Show, items: int, *, exits: bool, as_json: bool) -> list[Seen]:
    seen: list[Seen] = []
    async with Stage(_free_port()) as stage:
        show.say(f"podium up is ready at {stage.url}")
        for act in ACTS:
            show.heading(act.title)
            seen += await act.play(stage, show, items)
        if as_json:
            shown.document(
                [{"what": s.what, "seen": s.measured, "ok": s.is_as_promised} for s in seen]
            )
        else:
            show.table(seen)
        if not exits:
            link = await stage.client.login_link()
            show.say(f"look around: {link.url}")
            show.say("(the link signs a browser in, once; Ctrl-C ends the demo)")
            await stage.ended()
    return seen


def _free_port() -> int:
    """The usual port if nobody has it, so that the address is the one in the documentation."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", PORT))
        except OSError:
            return 0
    return PORT
