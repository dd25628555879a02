"""How data is printed: a table for people, JSON for programs.

Colour comes only on a terminal, and not with NO_COLOR. What comes from others (a payload, an error
text) is shown as it is, but for what would move the cursor.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from pydantic import BaseModel
from rich.console import Console
from rich.table import Table
from rich.text import Text

WIDE = 10_000
"""A table that nobody looks at is not cut at the edge of a screen that is not there."""

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]

STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}


def console() -> Console:
    is_watched = sys.stdout.isatty()
    return Console(
        width=None if is_watched else WIDE,
        color_system=None if os.environ.get("NO_COLOR") or not is_watched else "auto",
        highlight=False,
        markup=False,
    )


def document(value: Any) -> None:
    """One JSON document."""
    print(json.dumps(plain(value), indent=2, ensure_ascii=False))


def documents(values: Iterable[Any]) -> None:
    """A JSON document per line, as they come."""
    for value in values:
        print(json.dumps(plain(value), ensure_ascii=False))


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, empty: str) -> None:
    """Rows under their headings, or one line that says that there are none."""
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        shown.add_column(column, overflow="fold")
    for row in rows:
        shown.add_row(*(cell(value) for value in row))
    if not shown.row_count:
        line(empty)
        return
    screen = console()
    with screen.capture() as captured:
        screen.print(shown)
    # The spaces after the last column are nobody's.
    print("\n".join(each.rstrip() for each in captured.get().splitlines()))


def facts(pairs: Iterable[tuple[str, Any]]) -> None:
    """Names and values, one pair per line; what has no value is left out."""
    told = [(name, value) for name, value in pairs if value is not None and value != ""]
    width = max((len(name) for name, _ in told), default=0)
    for name, value in told:
        line(f"{name:<{width}}  {words(value)}")


def line(text: str) -> None:
    console().print(Text(clean(text)), soft_wrap=True)


def cell(value: Any) -> Text:
    text = clean(words(value))
    return Text(text, style=STYLES.get(text, ""))


def words(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
    if isinstance(value, list | tuple | set | frozenset):
        return ", ".join(str(each) for each in value)
    return value if isinstance(value, str) else json.dumps(plain(value), ensure_ascii=False)


def clean(text: str) -> str:
    """Control characters as `\\x1b`: an error text of somebody else is not to colour our screen."""
    return "".join(
        each if each.isprintable() or each == " " else each.encode("unicode_escape").decode()
        for each in text
    )


def plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(each) for each in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)
