"""`podium up`, `server`, `orchestrator` and `migrate`: what starts the house or changes its ground."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from podium import __version__
from podium.app import run
from podium.app.settings import Settings
from podium.cli import shown
from podium.cli.flags import CHILDREN, DOOR, SHARED, Given, at_level, takes_settings

Quiet = Annotated[bool, typer.Option("--quiet", help="Log warnings and errors only.")]

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
@takes_settings(*SHARED, *DOOR, *CHILDREN)
def up(given: Given, quiet: Quiet = False, as_json: shown.AsJson = False) -> None:
    """Start everything in one process.

    Needs nothing else: the database is a file in the data folder. It prints where it is, and a link
    that signs a browser in, and runs until Ctrl-C. On a terminal the log shows warnings only; --set
    log.level=info shows more.
    """
    run.log_as(_level(given.settings, is_quiet=quiet or _would_drown(given)))
    run.up(given.settings, lambda started: _announce(started, as_json))


@app.command()
@takes_settings(*SHARED, *DOOR)
def server(given: Given, quiet: Quiet = False, as_json: shown.AsJson = False) -> None:
    """Serve HTTP; orchestrators beside it do the rest.

    For a fleet: it shares a PostgreSQL database with orchestrators and other servers.
    """
    run.log_as(_level(given.settings, is_quiet=quiet))
    run.server(given.settings, lambda started: _announce(started, as_json))


@app.command()
@takes_settings(*SHARED)
def orchestrator(given: Given, quiet: Quiet = False, as_json: shown.AsJson = False) -> None:
    """Turn the crank: timers, retries, retention.

    For a fleet: any number of them share a PostgreSQL database with the servers.
    """
    run.log_as(_level(given.settings, is_quiet=quiet))
    run.orchestrator(given.settings, lambda started: _announce(started, as_json))


@app.command()
@takes_settings("data_dir", "database.url")
def migrate(given: Given, as_json: shown.AsJson = False) -> None:
    """Bring the database up to date.

    `podium up` does it by itself. A fleet does it once, before the new version starts.
    """
    run.log_as(_level(given.settings, is_quiet=True))
    applied = [str(migration) for migration in run.bring_up_to_date(given.settings)]
    if as_json:
        shown.document({"applied": applied})
        return
    for migration in applied:
        shown.line(f"applied {migration}")
    shown.line("the database is up to date")


def _announce(started: run.Started, as_json: bool) -> None:
    settings = started.settings
    if as_json:
        shown.documents(
            [
                {
                    "version": __version__,
                    "pid": os.getpid(),
                    "profile": settings.profile,
                    "url": started.url or None,
                    "data_dir": str(settings.data_path.absolute()),
                    "token_file": str(started.token_file.absolute())
                    if started.token_file
                    else None,
                    "login_url": started.login_url,
                }
            ]
        )
    else:
        where = f" at {started.url}" if started.url else ""
        shown.line(f"Podium {__version__} is up{where}")
        shown.facts(
            [
                ("  data", str(settings.data_path)),
                ("  token", str(started.token_file or "")),
                (
                    "  sign in",
                    started.login_url and f"{started.login_url} (once, within ten minutes)",
                ),
                ("  stop", "Ctrl-C"),
            ]
        )
    sys.stdout.flush()


def _would_drown(given: Given) -> bool:
    """Somebody sits there and did not ask for a log."""
    return sys.stderr.isatty() and "log.level" not in given.origins


def _level(settings: Settings, *, is_quiet: bool) -> Settings:
    if not is_quiet or settings.log.level in ("warning", "error"):
        return settings
    return at_level(settings, "warning")
