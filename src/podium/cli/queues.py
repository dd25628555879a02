"""`podium queues`"""

from __future__ import annotations

import typer

from podium.cli import shown
from podium.cli.calling import client

STATES = ("ready", "scheduled", "offered", "leased", "running", "dead")

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def queues(as_json: shown.AsJson = False) -> None:
    """Show how many items wait, run and died, by queue."""
    with client() as server:
        found = server.queues()
    if as_json:
        shown.document(found)
        return
    shown.table(
        ["queue", *STATES],
        [[each.queue, *(each.counts.get(state, 0) for state in STATES)] for each in found.queues],
        empty="all queues are empty",
    )
