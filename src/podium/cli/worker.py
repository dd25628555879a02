"""`podium worker`"""

from __future__ import annotations

from typing import Annotated

import typer

from podium.app.worker import run_worker

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def worker(
    queues: Annotated[
        list[str] | None,
        typer.Option("--queues", metavar="A,B", help="Take from these. Default: its handlers'."),
    ] = None,
    handlers: Annotated[
        list[str] | None,
        typer.Option("--handlers", metavar="MODULE", help="Import handlers from it; repeatable."),
    ] = None,
    concurrency: Annotated[
        int, typer.Option("--concurrency", min=1, max=1_000, help="How many items at once.")
    ] = 8,
) -> int:
    """Run your handlers on the work of some queues.

    Any number of workers may run, here or elsewhere. Ctrl-C lets it finish what it has begun.
    """
    return run_worker(_parts(queues), _parts(handlers), concurrency=concurrency)


def _parts(values: list[str] | None) -> list[str]:
    """`--queues a,b` and `--queues a --queues b` are the same."""
    return [part.strip() for value in values or [] for part in value.split(",") if part.strip()]
