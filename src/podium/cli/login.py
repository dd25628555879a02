"""`podium login`"""

from __future__ import annotations

from typing import Annotated

import typer

from podium.cli import shown
from podium.cli.calling import client

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def login(
    open_it: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
    as_json: shown.AsJson = False,
) -> None:
    """Make a link that signs a browser in, once, within ten minutes."""
    with client() as server:
        link = server.login_link()
    if as_json:
        shown.document(link)
    else:
        shown.line(link.url)
    if open_it:
        typer.launch(link.url)
