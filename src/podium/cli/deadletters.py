"""`podium deadletter list|replay`"""

from __future__ import annotations

from typing import Annotated

import typer

from podium.cli import shown
from podium.cli.calling import PAGE, client, pages
from podium.cli.refusals import MISUSED, Refusal

ERROR_CHARACTERS = 80

Queue = Annotated[str | None, typer.Option("--queue", help="Only those of this queue.")]
Limit = Annotated[int, typer.Option("--limit", min=1, help="How many at most.")]

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command("list")
def list_(queue: Queue = None, limit: Limit = 100, as_json: shown.AsJson = False) -> None:
    """List dead letters, queue by queue, the oldest first. With --json one document per line."""
    with client() as server:
        letters = pages(server.dead_letters, lambda page: page.items, limit, queue=queue)
        if as_json:
            shown.documents(letters)
            return
        rows = [
            [it.id, it.queue, it.reason, (it.error or "")[:ERROR_CHARACTERS], it.finished_at]
            for it in letters
        ]
    shown.table(
        ["id", "queue", "reason", "error", "died at"], rows, empty="there are no dead letters"
    )


@app.command()
def replay(
    ids: Annotated[list[str] | None, typer.Argument(help="Their ids.")] = None,
    queue: Queue = None,
    everything: Annotated[bool, typer.Option("--all", help="Those of every queue.")] = False,
    as_json: shown.AsJson = False,
) -> None:
    """Put dead letters back into their queues, with a fresh count of attempts."""
    if bool(ids) + (queue is not None) + everything != 1:
        raise Refusal("say which: ids, or --queue NAME, or --all", exit_code=MISUSED)
    back: list[str] = []
    unknown: list[str] = []
    with client() as server:
        # All are named before the first goes back: one that dies again at once is not put back twice.
        chosen = ids or [letter.id for letter in server.all_dead_letters(queue)]
        for first in range(0, len(chosen), PAGE):
            answer = server.replay(chosen[first : first + PAGE])
            back += answer.ids
            unknown += answer.unknown
    if as_json:
        shown.document({"ids": back, "unknown": unknown})
    else:
        shown.line(f"{len(back)} put back")
    if ids and unknown:
        raise Refusal(
            f"not dead letters: {', '.join(unknown)}; podium deadletter list shows which there are"
        )
