"""`podium doctor`"""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from podium.app import run
from podium.app.doctor import Finding, Level, examine
from podium.app.sources import effective
from podium.cli import shown
from podium.cli.flags import DOOR, SHARED, Given, at_level, takes_settings
from podium.cli.refusals import Refusal

app = typer.Typer(rich_markup_mode=None, add_completion=False)

REFERENCE = "docs/reference/settings.md explains each"


@app.command()
@takes_settings(*SHARED, *DOOR, refuses=False)
def doctor(
    given: Given,
    reach: Annotated[
        list[str] | None,
        typer.Option(
            "--reach", metavar="URL", help="Would a callback to it be let out? Repeatable."
        ),
    ] = None,
    as_json: shown.AsJson = False,
) -> None:
    """Find what is wrong, and say how to mend it.

    Looks at what a server with these settings would need, whether one runs or not. Fails if
    something must be mended; a warning is no failure.
    """
    run.log_as(at_level(given.settings, "error"))
    findings = [
        _judged(given),
        *(asyncio.run(examine(given.settings, reach or [])) if not given.problems else []),
    ]
    settings = [
        {"name": field.name, "value": value, "from": given.origins.get(field.name, "default")}
        for field, value in effective(given.settings)
    ]
    if as_json:
        shown.document({"findings": [each._asdict() for each in findings], "settings": settings})
    else:
        shown.table(
            ["check", "", "what", "how to mend it"],
            [[each.check, each.level, each.text, each.mend] for each in findings],
            empty="",
        )
        shown.line("")
        shown.table(
            ["setting", "value", "from"],
            [list(each.values()) for each in settings],
            empty="",
        )
    failed = [each.check for each in findings if each.level is Level.FAIL]
    if failed:
        raise Refusal(f"to be mended: {', '.join(dict.fromkeys(failed))}; the table says how")


def _judged(given: Given) -> Finding:
    if given.problems:
        return Finding("settings", Level.FAIL, "; ".join(given.problems), REFERENCE)
    return Finding("settings", Level.OK, f"{given.settings.profile} profile")
