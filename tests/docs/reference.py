"""The reference pages, made from the code: `scripts/docs` writes them.

Settings, commands, routes, metrics and error codes are explained where they are defined, and nowhere
else. tests/docs/test_reference.py compares the pages with the code.
"""

from __future__ import annotations

import ast
import inspect
import json
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import typer
from fastapi import FastAPI
from pydantic import SecretStr

from podium.app.settings import Settings
from podium.app.sources import Field, fields, kind
from podium.app.wiring import http, wire
from podium.cli import front
from podium.cli.flags import CHILDREN, DOOR, SHARED
from podium.contracts import errors as codes
from podium.contracts.errors import Code
from podium.http.errors import STATUS
from podium.kernel.telemetry import Metrics

FOLDER = Path(__file__).parents[2] / "docs" / "reference"
WIDTH = 96

NOT_SENT = {"HTTPValidationError", "ValidationError"}
"""What the framework describes and our own refusals replace."""


# --- settings ------------------------------------------------------------------------------------


def settings_page() -> str:
    lines = [
        "A setting has one name, written three ways. Flags win over the environment, the environment over",
        "`podium.toml` in the working folder (or `--config FILE`), the file over the default. A flag that a",
        "command does not have is given as `--set name=value`. `podium doctor --all` shows what is in force",
        "and where it came from.",
    ]
    for group, found in _groups().items():
        lines += ["", f"## {group or 'The server'}", ""]
        lines += ["| setting | flag | variable | type | default | |", "|---|---|---|---|---|---|"]
        lines += [_setting(field) for field in found]
    return _page("Settings", lines)


def _groups() -> dict[str, list[Field]]:
    groups: dict[str, list[Field]] = {}
    for field in fields():
        groups.setdefault(".".join(field.path[:-1]), []).append(field)
    return groups


def _setting(field: Field) -> str:
    default = field.info.default
    if isinstance(default, SecretStr):
        default = default.get_secret_value()
    if isinstance(default, tuple):
        default = ",".join(str(each) for each in default)
    shown = f"`{_toml(default)}`" if default != "" else ""
    cells = [f"`{field.name}`", _flag(field), f"`{field.variable}`", kind(field), shown]
    return _row([*cells, _one_line(field.info.description or "")])


def _flag(field: Field) -> str:
    is_own = field.name in (*SHARED, *DOOR, *CHILDREN)
    return f"`{field.flag}`" if is_own else f"`--set {field.name}=…`"


def _toml(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


# --- commands ------------------------------------------------------------------------------------


def cli_page() -> str:
    lines = [
        "`--json` prints JSON instead of tables. A command exits with 0 when it did what it was asked to, 1 when",
        "it was refused or failed, 2 when it was called in a wrong way, 130 after Ctrl-C. What went wrong is one",
        "line on stderr: what, and what to do next. Commands that call a server find it by `PODIUM_URL` and",
        "`PODIUM_TOKEN`, or else by what `podium up` left in its data folder (`PODIUM_DATA_DIR`, `./podium-data`).",
        "`podium --install-completion` teaches the shell the names.",
    ]
    for path, command in commands():
        lines += ["", f"## {path}", "", "```", _help(path, command), "```"]
    return _page("Commands", lines)


def commands() -> Iterator[tuple[str, Any]]:
    """Every command by its whole name, the groups before what is in them."""
    root = typer.main.get_command(front.app)
    yield "podium", root
    for name in front.TOPICS:
        yield from _below(f"podium {name}", front.load(name))


def _below(path: str, command: Any) -> Iterator[tuple[str, Any]]:
    yield path, command
    for name, each in getattr(command, "commands", {}).items():
        yield from _below(f"{path} {name}", each)


def _help(path: str, command: Any) -> str:
    context = command.make_context(
        path, [], resilient_parsing=True, terminal_width=WIDTH, max_content_width=WIDTH
    )
    text: str = command.get_help(context)
    return text.strip()


# --- routes --------------------------------------------------------------------------------------


def http_page() -> str:
    document = openapi()
    lines = [
        "Send `Authorization: Bearer …` with a token that has the scope which a call needs; `admin` has them all.",
        "Bodies are JSON. A refusal has one form, with a [code](errors.md):",
        '`{"error": {"code", "message", "details", "timestamp", "traceId"}}`. A running server describes itself',
        "at `/openapi.json` and `/docs`.",
    ]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            lines += ["", *_operation(document, path, method, operation)]
    lines += ["", "# Bodies"]
    for name, schema in sorted(document.get("components", {}).get("schemas", {}).items()):
        if (schema.get("properties") or schema.get("enum")) and name not in NOT_SENT:
            lines += ["", *_schema(name, schema)]
    return _page("HTTP", lines)


def openapi() -> dict[str, Any]:
    """As a server would describe itself, made without starting one."""
    with tempfile.TemporaryDirectory() as folder:
        app: Any = http(wire(Settings(data_dir=folder)))
    while not isinstance(app, FastAPI):
        app = app._app
    document: dict[str, Any] = json.loads(json.dumps(app.openapi()))
    return document


def _operation(
    document: dict[str, Any], path: str, method: str, operation: dict[str, Any]
) -> Iterator[str]:
    yield f"## {method.upper()} {path}"
    yield ""
    yield _one_line(operation.get("description") or operation.get("summary") or "")
    yield ""
    yield f"Needs: {operation['x-podium-needs']}."
    body = _named(operation.get("requestBody", {}).get("content", {}))
    if body:
        yield f"Takes: {body}."
    for status, answer in sorted(operation["responses"].items()):
        if status.startswith("2"):
            yield f"Answers {status}{_with(_named(answer.get('content', {})))}."
    parameters = operation.get("parameters", [])
    if parameters:
        yield ""
        yield "| parameter | in | type | |"
        yield "|---|---|---|---|"
    for each in parameters:
        told = _one_line(each.get("description", ""))
        needed = "required" if each.get("required") else _default(each["schema"])
        yield _row([f"`{each['name']}`", each["in"], _type(each["schema"]), told or needed])


def _named(content: dict[str, Any]) -> str:
    for media in content.values():
        return _type(media.get("schema", {}))
    return ""


def _with(body: str) -> str:
    return f" with {body}" if body else ""


def _schema(name: str, schema: dict[str, Any]) -> Iterator[str]:
    yield f"## {name}"
    yield ""
    if schema.get("description"):
        yield _one_line(schema["description"])
        yield ""
    if schema.get("enum"):
        yield f"One of {_type(schema)}."
        return
    yield "| field | type | default | |"
    yield "|---|---|---|---|"
    needed = schema.get("required", [])
    for field, what in schema["properties"].items():
        default = "required" if field in needed else _default(what)
        told = _one_line(what.get("description", ""))
        yield _row([f"`{field}`", _type(what), default, told])


def _default(schema: dict[str, Any]) -> str:
    return f"`{json.dumps(schema['default'])}`" if schema.get("default") is not None else ""


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_type(each) for each in schema["anyOf"]))
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if schema.get("enum"):
        return ", ".join(f"`{each}`" for each in schema["enum"])
    words = {"integer": "whole number", "string": "text", "boolean": "true or false"}
    base = str(schema.get("type", "anything"))
    limits = [
        f"{sign} {schema[key]:g}"
        for key, sign in (("minimum", "≥"), ("exclusiveMinimum", ">"), ("maximum", "≤"))
        if key in schema
    ]
    shown = {"date-time": "time"}.get(schema.get("format", ""), words.get(base, base))
    return " ".join([shown, *limits])


# --- metrics and errors --------------------------------------------------------------------------


def metrics_page() -> str:
    lines = [
        "At `/metrics`, in the format of Prometheus, with the scope `read`. A counter's name ends in `_total` there,",
        "a histogram has `_bucket`, `_sum` and `_count`.",
        "",
        "| metric | kind | labels | |",
        "|---|---|---|---|",
    ]
    for metric in metrics():
        labels = ", ".join(f"`{label}`" for label in metric._labelnames)
        lines.append(_row([f"`{metric._name}`", metric._type, labels, metric._documentation]))
    return _page("Metrics", lines)


def metrics() -> list[Any]:
    return [each for each in vars(Metrics()).values() if hasattr(each, "_documentation")]


def errors_page() -> str:
    lines = [
        "Every refusal carries one of these codes in `error.code`; the HTTP status follows from it. The SDK raises",
        "a class of its own for each kind.",
        "",
        "| code | HTTP | |",
        "|---|---|---|",
    ]
    told = explanations()
    lines += [_row([f"`{code}`", str(STATUS[code]), told[code]]) for code in Code]
    return _page("Error codes", lines)


def explanations() -> dict[str, str]:
    """The line below each code, where it is defined."""
    [body] = [
        node.body
        for node in ast.parse(inspect.getsource(codes)).body
        if isinstance(node, ast.ClassDef)
    ]
    found: dict[str, str] = {}
    for code, text in pairwise(body):
        if isinstance(code, ast.Assign) and isinstance(text, ast.Expr):
            assert isinstance(code.targets[0], ast.Name)
            assert isinstance(text.value, ast.Constant)
            found[code.targets[0].id] = _one_line(str(text.value.value))
    return found


# --- pages ---------------------------------------------------------------------------------------


def _page(title: str, lines: list[str]) -> str:
    note = "<!-- Made by scripts/docs from the code. Change the code, not this file. -->"
    return "\n".join([f"# {title}", "", note, "", *lines, ""])


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |".replace(
        "|  |", "| |"
    )


def _one_line(text: str) -> str:
    return " ".join(text.split())


PAGES = {
    "settings.md": settings_page,
    "cli.md": cli_page,
    "http.md": http_page,
    "metrics.md": metrics_page,
    "errors.md": errors_page,
}


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page())
        print(FOLDER / name)


if __name__ == "__main__":
    main()
