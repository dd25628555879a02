"""`podium audit`"""

from __future__ import annotations

from typing import Annotated

import typer

from podium.cli import shown
from podium.cli.calling import client, pages
from podium.cli.refusals import Refusal

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def audit(
    log: Annotated[bool, typer.Option("--log", help="Who called what, the newest first.")] = False,
    actor: Annotated[
        str | None, typer.Option("--actor", help="With --log: only calls of this one.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="With --log: how many.")] = 100,
    as_json: shown.AsJson = False,
) -> None:
    """Count broken promises: every number must be 0, or the command fails.

    With --log it shows who called what instead; then --json prints one document per line.
    """
    if log:
        _show_log(actor, limit, as_json)
    else:
        _count(as_json)


def _count(as_json: bool) -> None:
    with client() as server:
        found = server.violations()
    if as_json:
        shown.document(found)
    else:
        rows = sorted(found.violations.items())
        shown.table(["check", "rows"], rows, empty="there are no checks")
    broken = [name for name, count in found.violations.items() if count]
    if broken:
        raise Refusal(
            f"promises are broken: {', '.join(sorted(broken))}; keep the server's log and report it"
        )


def _show_log(actor: str | None, limit: int, as_json: bool) -> None:
    with client() as server:
        entries = pages(server.audit, lambda page: page.entries, limit, actor=actor)
        if as_json:
            shown.documents(entries)
            return
        rows = [
            [it.at, it.actor, it.address, f"{it.method} {it.target}", it.status] for it in entries
        ]
    shown.table(["at", "actor", "address", "call", "status"], rows, empty="the log is empty")
