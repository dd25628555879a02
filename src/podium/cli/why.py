"""`podium why KIND ID`"""

from __future__ import annotations

from typing import Annotated

import typer

from podium.cli import shown
from podium.cli.calling import client
from podium.cli.refusals import MISUSED, Refusal

KINDS = ("work",)

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def why(
    kind: Annotated[str, typer.Argument(help=f"What it is: {', '.join(KINDS)}.")],
    id: Annotated[str, typer.Argument(help="Its id.")],
    as_json: shown.AsJson = False,
) -> None:
    """Say why a thing is where it is, and what happens next."""
    if kind not in KINDS:
        raise Refusal(f"there is no kind {kind!r}; kinds are {', '.join(KINDS)}", exit_code=MISUSED)
    with client() as server:
        found = server.why(kind, id)
    if as_json:
        shown.document(found)
        return
    shown.facts(
        [
            ("state", found.state),
            ("why", found.text),
            ("until", found.until),
            ("next", found.next),
        ]
    )
