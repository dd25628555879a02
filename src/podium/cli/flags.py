"""Settings as flags: `--port`, `--database-url` and the like, and `--set` for all the others.

Which flag is which setting, its name and its explanation come from `podium.app`; a command only says
which ones it takes. Values go there as text, so that a flag, a variable and a line of podium.toml that
say the same are refused with the same words.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from podium.app.settings import Settings
from podium.app.sources import Field, SettingsError, fields, load_traced
from podium.cli.refusals import MISUSED, Refusal

SHARED = ("data_dir", "database.url", "bus.url", "blobs.url")
DOOR = ("host", "port", "public_url", "tls_cert", "tls_key", "behind_proxy")
CHILDREN = ("handlers", "no_worker")

OTHERS = Annotated[
    list[str],
    typer.Option("--set", metavar="NAME=VALUE", help="Any other setting, as log.level=debug."),
]
CONFIG = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="Read this file instead of ./podium.toml."),
]


@dataclass(frozen=True, slots=True)
class Given:
    """The settings in force, and where those that are not the default came from."""

    settings: Settings
    origins: dict[str, str]
    problems: tuple[str, ...] = ()
    """What is wrong, for the one command that goes on in spite of it."""


def takes_settings(
    *names: str, refuses: bool = True
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command `given: Given`, made from a flag for each of these settings."""
    chosen = [field for field in fields() if field.name in names]

    def wrap(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command, eval_str=True).parameters.values()
        added = [*map(_parameter, chosen), _option("set_", OTHERS, []), _option("config", CONFIG)]

        @functools.wraps(command)
        def run(**values: Any) -> None:
            flags = {field.name: values.pop(_key(field)) for field in chosen}
            flags |= _others(values.pop("set_"))
            given = read(flags, values.pop("config"))
            if given.problems and refuses:
                raise Refusal(*given.problems, exit_code=MISUSED)
            command(given=given, **values)

        signature = inspect.Signature([*added, *(each for each in own if each.name != "given")])
        run.__signature__ = signature  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in signature.parameters.values()}
        return run

    return wrap


def read(flags: dict[str, Any], file: Path | None) -> Given:
    """All that is wrong at once, one line each."""
    flags = {name: _text(value) for name, value in flags.items() if value not in (None, [])}
    if file is None and (named := os.environ.get("PODIUM_CONFIG")):
        file = Path(named)
    try:
        return Given(*load_traced(flags=flags, environment=os.environ, file=file))
    except SettingsError as error:
        return Given(Settings(), {}, tuple(error.problems))


def at_level(settings: Settings, level: str) -> Settings:
    return settings.model_copy(update={"log": settings.log.model_copy(update={"level": level})})


def _others(pairs: Sequence[str]) -> dict[str, str]:
    wrong = [pair for pair in pairs if "=" not in pair]
    if wrong:
        raise Refusal(f"--set {wrong[0]}: give it as NAME=VALUE", exit_code=MISUSED)
    return dict(pair.split("=", 1) for pair in pairs)


def _parameter(field: Field) -> inspect.Parameter:
    kind: Any = str | None
    if field.info.annotation is bool:
        kind = bool | None
    elif field.is_list:
        kind = list[str]
    help = " ".join((field.info.description or "").split())
    option = typer.Option(field.flag, help=help, metavar=_metavar(field), show_default=False)
    return _option(_key(field), Annotated[kind, option], [] if field.is_list else None)


def _option(name: str, annotation: Any, default: Any = None) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=annotation
    )


def _key(field: Field) -> str:
    return "_".join(field.path)


def _metavar(field: Field) -> str | None:
    if field.info.annotation is bool:
        return None
    return {"handlers": "MODULE"}.get(field.name, field.path[-1].split("_")[-1].upper())


def _text(value: Any) -> Any:
    """A flag given twice, and one with a comma in it, are the same list."""
    return ",".join(value) if isinstance(value, list) else value
