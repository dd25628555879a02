"""`podium version`"""

from __future__ import annotations

import platform

import typer

from podium import __version__
from podium.cli import shown

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def version(as_json: shown.AsJson = False) -> None:
    """Show the version."""
    if as_json:
        shown.document({"version": __version__, "python": platform.python_version()})
    else:
        shown.line(f"Podium {__version__} on Python {platform.python_version()}")
