"""Named queries: SQL with a name, a home and a reason, in two dialects.

A query is known by `<file>.<name>`, as in `work.claim`. Its text lives in a `.sql` file beside the
code that uses it; where a dialect must say it differently, `<file>.<dialect>.sql` has just that
query. The few words that differ everywhere are written once and translated here:

    :name                           a parameter
    :items(id text, epoch int) i    a list, as a table named i; the caller passes tuples in order
    podium_now()                    the database's clock, read once per statement
    seconds(x)                      a span of x seconds, to add to a time
    micros(t)                       the time t as whole microseconds since 1970
    least(a, b), greatest(a, b)     the smaller, the larger of two values that are not null
    for update [skip locked]        dropped on SQLite, which has one writer

In `update … from :items(…)` give the list's columns names that the table does not have: then
`returning id` means the same in both dialects.

A list travels as one JSON parameter: `jsonb_each` on SQLite, `jsonb_to_recordset` on PostgreSQL.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

SQLITE = "sqlite"
POSTGRES = "postgres"

HEADING = re.compile(r"^-- (?P<name>[a-z_]+) --$", re.MULTILINE)
COMMENT = re.compile(r"--[^\n]*")
LIST = re.compile(r":(?P<name>[a-z_]+)\((?P<columns>[^()]*)\)\s+(?:as\s+)?(?P<alias>[a-z_]+)")
PARAMETER = re.compile(r"(?<![:\w]):(?P<name>[a-z_]+)\b")
LOCKING = re.compile(r"\s+for update(?: of [a-z_]+)?(?: skip locked)?\b")
IDENTIFIER = re.compile(r"[a-z_][a-z0-9_]{0,62}")
POSTGRES_TYPES = {
    "text": "text",
    "int": "int",
    "bigint": "bigint",
    "real": "double precision",
    "bool": "boolean",
    "time": "timestamptz",
}


@dataclass(frozen=True, slots=True)
class Query:
    name: str
    text: str
    parameters: frozenset[str]
    lists: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The list parameters, each with its column names in the order the caller passes them."""


class Queries:
    """Every query one store knows, already in its dialect."""

    def __init__(self, dialect: str, folders: Iterable[Path] = ()) -> None:
        self.dialect = dialect
        self._queries: dict[str, Query] = {}
        for folder in folders:
            self.load(folder)

    def __getitem__(self, name: str) -> Query:
        try:
            return self._queries[name]
        except KeyError:
            raise LookupError(f"no query is named {name!r}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._queries)

    def load(self, folder: Path) -> None:
        """Read every `.sql` file in a folder, letting `<file>.<dialect>.sql` have the last word."""
        for suffix in (".sql", f".{self.dialect}.sql"):
            for path in sorted(folder.glob(f"*{suffix}")):
                stem = path.name.removesuffix(suffix)
                if "." not in stem:  # otherwise it is another dialect's file
                    self._load_file(path, stem)

    def add(self, name: str, source: str) -> None:
        """Know one more query, or another text under a name already known."""
        self._queries[name] = translate(name, source, self.dialect)

    def instantiate(self, template: str, name: str, **words: str) -> None:
        """Copy the queries of file `template` as `name`, with `{word}` filled in.

        For pieces that work on a table of the caller's (see `ownership`). Only identifiers go in:
        this is where a value would become SQL.
        """
        for word in words.values():
            if not IDENTIFIER.fullmatch(word):
                raise ValueError(f"{word!r} is not an identifier")
        prefix = f"{template}."
        for known in [q for q in self._queries if q.startswith(prefix)]:
            query = self._queries[known]
            self._queries[f"{name}.{known.removeprefix(prefix)}"] = Query(
                name=f"{name}.{known.removeprefix(prefix)}",
                text=_fill(query.text, words),
                parameters=query.parameters,
                lists=query.lists,
            )

    def _load_file(self, path: Path, stem: str) -> None:
        _, *parts = HEADING.split(path.read_text(encoding="utf-8"))
        for name, source in zip(parts[::2], parts[1::2], strict=True):
            self.add(f"{stem}.{name}", source)


def translate(name: str, source: str, dialect: str) -> Query:
    """One query as its dialect says it."""
    lists: dict[str, tuple[str, ...]] = {}
    text = COMMENT.sub("", source).strip().rstrip(";")

    def expand(match: re.Match[str]) -> str:
        columns = [column.split() for column in match["columns"].split(",")]
        lists[match["name"]] = _longer(lists.get(match["name"], ()), [name for name, _ in columns])
        as_table = _sqlite_list if dialect == SQLITE else _postgres_list
        return as_table(match["name"], columns, match["alias"])

    parameters = frozenset(m["name"] for m in PARAMETER.finditer(text))
    if dialect == POSTGRES:
        text = text.replace("%", "%%")
    text = LIST.sub(expand, text)
    text = text.replace("podium_now()", "(select podium_now())")
    if dialect == SQLITE:
        text = LOCKING.sub("", text)
        text = _call(text, "seconds", "cast(({}) * 1000000 as integer)")
        text = _call(text, "micros", "({})")
        text = _call(text, "least", "min({})")
        text = _call(text, "greatest", "max({})")
    else:
        text = _call(text, "seconds", "make_interval(secs => {})")
        text = _call(text, "micros", "(extract(epoch from {}) * 1000000)::bigint")
        text = PARAMETER.sub(r"%(\g<name>)s", text)
    return Query(name, text, parameters, lists)


def _longer(known: tuple[str, ...], columns: list[str]) -> tuple[str, ...]:
    """A query of several statements may name only the first columns of a list again."""
    shorter, longer = sorted([known, tuple(columns)], key=len)
    if longer[: len(shorter)] != shorter:
        raise ValueError(f"one list, two orders of columns: {known} and {columns}")
    return longer


def _sqlite_list(name: str, columns: list[list[str]], alias: str) -> str:
    parts = ", ".join(f"value ->> {n} as {column}" for n, (column, _) in enumerate(columns))
    return f"(select {parts} from jsonb_each(:{name})) as {alias}"


def _postgres_list(name: str, columns: list[list[str]], alias: str) -> str:
    parts = ", ".join(f"{column} {POSTGRES_TYPES[kind]}" for column, kind in columns)
    return f"jsonb_to_recordset(:{name}::jsonb) as {alias}({parts})"


def _call(text: str, function: str, template: str) -> str:
    """Rewrite each `function(argument)`, whatever parentheses the argument has."""
    pattern = re.compile(rf"\b{function}\(")
    while match := pattern.search(text):
        end = _closing(text, match.end())
        argument = text[match.end() : end]
        text = text[: match.start()] + template.format(argument) + text[end + 1 :]
    return text


def _closing(text: str, start: int) -> int:
    depth = 1
    for position in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[position], 0)
        if depth == 0:
            return position
    raise ValueError(f"a parenthesis is never closed: {text[start - 20 : start + 40]!r}")


def _fill(text: str, words: Mapping[str, str]) -> str:
    fill: Callable[[re.Match[str]], str] = lambda match: words[match[1]]  # noqa: E731
    return re.sub(r"\{([a-z_]+)\}", fill, text)
