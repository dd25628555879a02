"""Where settings come from: flags over environment over podium.toml over defaults.

A key that nobody knows is an error that names the nearest one: a misspelt limit that is silently
ignored is found in the night when it was needed.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, SecretStr, ValidationError
from pydantic.fields import FieldInfo

from podium.app.settings import Group, Settings

PREFIX = "PODIUM_"
FILE = "podium.toml"
TABLE = re.compile(r"\s*\[([^\[\]]+)\]")
KEY = re.compile(r"\s*([\w.\"' \t-]+?)\s*=")

# For the clients of a server, not for the server: sdk and cli read them.
CLIENT_NAMES = {"PODIUM_URL", "PODIUM_TOKEN", "PODIUM_CONFIG", "PODIUM_CA_FILE", "PODIUM_DEBUG"}


class SettingsError(Exception):
    """Everything that is wrong, one line each."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class Field:
    """One setting, by its path."""

    path: tuple[str, ...]
    info: FieldInfo

    @property
    def name(self) -> str:
        return ".".join(self.path)

    @property
    def variable(self) -> str:
        return PREFIX + "_".join(self.path).upper()

    @property
    def flag(self) -> str:
        return "--" + "-".join(self.path).replace("_", "-")

    @property
    def is_secret(self) -> bool:
        return self.info.annotation is SecretStr

    @property
    def is_list(self) -> bool:
        return getattr(self.info.annotation, "__origin__", None) is tuple


def fields(group: type[BaseModel] = Settings, path: tuple[str, ...] = ()) -> Iterator[Field]:
    """Every setting, in the order of its definition."""
    for name, info in group.model_fields.items():
        kind = info.annotation
        if isinstance(kind, type) and issubclass(kind, Group):
            yield from fields(kind, (*path, name))
        else:
            yield Field((*path, name), info)


def load(
    *,
    flags: Mapping[str, Any],
    environment: Mapping[str, str],
    file: Path | None = None,
) -> Settings:
    """The settings in force. `flags` are by setting name (`database.url`); None means not given.

    Without `file`, podium.toml in the working folder is read if it is there.
    """
    return load_traced(flags=flags, environment=environment, file=file)[0]


def load_traced(
    *,
    flags: Mapping[str, Any],
    environment: Mapping[str, str],
    file: Path | None = None,
) -> tuple[Settings, dict[str, str]]:
    """The settings in force, and for each that is not the default where it came from."""
    problems: list[str] = []
    tree: dict[str, Any] = {}
    origins: dict[str, str] = {}
    known = list(fields())
    layers = (
        (_from_file(file, problems), lambda field: str(file or FILE)),
        (_from_environment(environment, problems), lambda field: field.variable),
        (_from_flags(flags, problems), lambda field: field.flag),
    )
    for layer, origin in layers:
        _merge(tree, layer)
        origins |= {field.name: origin(field) for field in known if _has(layer, field.path)}
    if problems:
        raise SettingsError(problems)
    try:
        return Settings.model_validate(tree), origins
    except ValidationError as error:
        raise SettingsError([_words(each) for each in error.errors()]) from None


def effective(settings: Settings) -> list[tuple[Field, str]]:
    """What is in force, as text, secrets masked."""
    return [(field, _shown(settings, field)) for field in fields()]


def secret_values(settings: Settings) -> Iterator[tuple[str, str]]:
    """The settings that are secret and given, by name."""
    for field in fields():
        value = _value(settings, field)
        if isinstance(value, SecretStr) and value.get_secret_value():
            yield field.name, value.get_secret_value()


def _value(settings: Settings, field: Field) -> Any:
    value: Any = settings
    for name in field.path:
        value = getattr(value, name)
    return value


def _shown(settings: Settings, field: Field) -> str:
    value = _value(settings, field)
    if isinstance(value, SecretStr):
        return "********" if value.get_secret_value() else ""
    if isinstance(value, tuple):
        return ",".join(str(each) for each in value)
    return str(value).lower() if isinstance(value, bool) else str(value)


# --- the file ------------------------------------------------------------------------------------


def _from_file(file: Path | None, problems: list[str]) -> dict[str, Any]:
    path = file or Path(FILE)
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        if file is not None:
            problems.append(f"{file}: there is no such file")
        return {}
    except (OSError, UnicodeDecodeError) as error:
        problems.append(f"{path}: it cannot be read: {error}")
        return {}
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        problems.append(f"{path}: {error}")
        return {}
    known = {field.path for field in fields()}
    groups = {path[:-1] for path in known}
    for path_of_key in _leaves(tree, groups):
        if path_of_key not in known:
            where = f"{path}:{_line(text, path_of_key)}"
            name = ".".join(path_of_key)
            problems.append(f"{where}: there is no setting {name}{_nearest(name)}")
    return tree


def _leaves(
    tree: dict[str, Any], groups: set[tuple[str, ...]], path: tuple[str, ...] = ()
) -> Iterator[tuple[str, ...]]:
    for key, value in tree.items():
        here = (*path, key)
        if isinstance(value, dict) and here in groups:
            yield from _leaves(value, groups, here)
        else:
            yield here


def _line(text: str, path: tuple[str, ...]) -> int:
    """Where the key stands; if it stands inside a value, where that begins."""
    table: tuple[str, ...] = ()
    found = 1
    for number, line in enumerate(text.splitlines(), 1):
        header, key = TABLE.match(line), KEY.match(line)
        if header is not None:
            table = here = _dotted(header[1])
        elif key is not None:
            here = table + _dotted(key[1])
        else:
            continue
        if here == path:
            return number
        if here == path[: len(here)]:
            found = number
    return found


def _dotted(name: str) -> tuple[str, ...]:
    return tuple(part.strip(" \t\"'") for part in name.split("."))


# --- environment and flags -----------------------------------------------------------------------


def _from_environment(environment: Mapping[str, str], problems: list[str]) -> dict[str, Any]:
    known = {field.variable: field for field in fields()}
    tree: dict[str, Any] = {}
    for name, text in environment.items():
        if not name.startswith(PREFIX) or name in CLIENT_NAMES:
            continue
        field = known.get(name)
        if field is None:
            near = get_close_matches(name, known, n=1, cutoff=0.6)
            hint = f"; did you mean {near[0]}?" if near else ""
            problems.append(f"{name}: there is no such setting{hint}")
            continue
        _set(tree, field.path, _parts(text) if field.is_list else text)
    return tree


def _from_flags(flags: Mapping[str, Any], problems: list[str]) -> dict[str, Any]:
    known = {field.name: field for field in fields()}
    tree: dict[str, Any] = {}
    for name, value in flags.items():
        if value is None:
            continue
        field = known.get(name)
        if field is None:
            problems.append(f"there is no setting {name}{_nearest(name)}")
            continue
        is_list_as_text = field.is_list and isinstance(value, str)
        _set(tree, field.path, _parts(value) if is_list_as_text else value)
    return tree


def _has(tree: Any, path: tuple[str, ...]) -> bool:
    for name in path:
        if not isinstance(tree, dict) or name not in tree:
            return False
        tree = tree[name]
    return True


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _set(tree: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    tree[path[-1]] = value


def _merge(tree: dict[str, Any], over: dict[str, Any]) -> None:
    for key, value in over.items():
        if isinstance(value, dict) and isinstance(tree.get(key), dict):
            _merge(tree[key], value)
        else:
            tree[key] = value


# --- words ---------------------------------------------------------------------------------------


def _nearest(name: str) -> str:
    near = get_close_matches(name, [field.name for field in fields()], n=1, cutoff=0.5)
    return f"; did you mean {near[0]}?" if near else ""


def _words(error: Any) -> str:
    where = ".".join(str(part) for part in error["loc"])
    message = str(error["msg"]).removeprefix("Value error, ")
    if error["type"] == "extra_forbidden":
        return f"there is no setting {where}{_nearest(where)}"
    return f"{where}: {message}" if where else message


def kind(field: Field) -> str:
    """The type of a setting in the words of the reference page."""
    annotation = field.info.annotation
    if field.is_list:
        return "list"
    if annotation is SecretStr:
        return "secret text"
    names = {str: "text", int: "whole number", float: "number", bool: "true or false"}
    inner = get_args(annotation)
    return names.get(annotation if not inner else inner[0], "text")  # type: ignore[arg-type]
