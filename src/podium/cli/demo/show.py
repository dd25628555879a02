"""How the demo speaks: a heading per act, a line per thing that happens, bars for what takes a while."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from rich.table import Table


@dataclass(frozen=True, slots=True)
class Seen:
    """One line of the table at the end."""

    what: str
    measured: str
    is_as_promised: bool = True


class Bar:
    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress = progress
        self._task = task

    def to(self, count: int) -> None:
        self._progress.update(self._task, completed=count)


class Show:
    def __init__(self, console: Console) -> None:
        self._console = console

    def heading(self, text: str) -> None:
        self._console.print()
        self._console.rule(text, align="left", characters="─", style="dim")

    def say(self, text: str) -> None:
        # A link that was broken over two lines is no link.
        self._console.print(f"  {text}", highlight=False, markup=False, soft_wrap=True)

    @contextmanager
    def bar(self, text: str, total: int) -> Iterator[Bar]:
        columns = (TextColumn("  {task.description}"), BarColumn(40), MofNCompleteColumn())
        with Progress(*columns, console=self._console) as progress:
            yield Bar(progress, progress.add_task(text, total=total))

    def table(self, seen: Sequence[Seen]) -> None:
        table = Table("what", "seen", "as promised", title="What happened", title_justify="left")
        for each in seen:
            table.add_row(each.what, each.measured, "yes" if each.is_as_promised else "NO")
        self._console.print()
        self._console.print(table)
