"""Every command there is, and what is done when one fails.

The list below is all that the help of the top level and the completion of a name look at; a module is
imported when its command is really called.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from podium import __version__
from podium.cli import refusals


class Topic(NamedTuple):
    module: str
    help: str


TOPICS = {
    "up": Topic("podium.cli.house", "Start everything in one process."),
    "server": Topic("podium.cli.house", "Serve HTTP; orchestrators beside it do the rest."),
    "orchestrator": Topic("podium.cli.house", "Turn the crank: timers, retries, retention."),
    "worker": Topic("podium.cli.worker", "Run your handlers on the work of some queues."),
    "demo": Topic("podium.cli.demo.command", "Show what Podium does on a bad day."),
    "migrate": Topic("podium.cli.house", "Bring the database up to date."),
    "doctor": Topic("podium.cli.doctor", "Find what is wrong, and say how to mend it."),
    "login": Topic("podium.cli.login", "Make a link that signs a browser in, once."),
    "token": Topic("podium.cli.tokens", "Make, list, replace and end tokens."),
    "queues": Topic("podium.cli.queues", "Show how many items wait, run and died, by queue."),
    "why": Topic("podium.cli.why", "Say why a thing is where it is, and what happens next."),
    "deadletter": Topic("podium.cli.deadletters", "List and replay what will not be tried again."),
    "audit": Topic("podium.cli.audit", "Count broken promises, or read who called what."),
    "version": Topic("podium.cli.version", "Show the version."),
}


class Lazy(TyperGroup):
    """Shows commands from the list, and imports the one that is called."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, topic in TOPICS.items():
            self.add_command(TyperCommand(name, help=topic.help, rich_markup_mode=None))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, _, rest = super().resolve_command(ctx, args)
        return name, load(name) if name else None, rest


def load(name: str) -> Any:
    """The real command of a topic: one of its module's, or all of them as a group."""
    found = typer.main.get_command(import_module(TOPICS[name].module).app)
    found = getattr(found, "commands", {}).get(name, found)
    found.name, found.help = name, found.help or TOPICS[name].help
    return found


app = typer.Typer(cls=Lazy, rich_markup_mode=None)


def _show_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(__version__)
        raise typer.Exit


@app.callback(help="Podium: one durable orchestrator. Start with `podium up`.")
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_show_version, help="Show the version."),
    ] = False,
) -> None:
    pass


def main() -> None:
    """The program `podium`."""
    code = run(sys.argv[1:])
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _let_the_pipe_go()
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    try:
        outcome = typer.main.get_command(app).main(
            list(arguments) or ["--help"], prog_name="podium", standalone_mode=False
        )
        return outcome if isinstance(outcome, int) else refusals.OK
    except BrokenPipeError:
        _let_the_pipe_go()
        return refusals.OK
    except SystemExit as error:
        _let_the_pipe_go()
        return error.code if isinstance(error.code, int) else refusals.FAILED
    except BaseException as error:
        return refusals.tell(error)


def _let_the_pipe_go() -> None:
    """Whoever read our output has seen enough; the interpreter must not complain about it at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
