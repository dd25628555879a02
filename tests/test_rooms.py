"""The map of rooms: who may import whom. When the map is wrong, change it, in its own commit.

Three more things are checked here because they too are about where code may stand: modules never
import each other in a circle, the rooms that are simulated ask the outside world for nothing (time,
randomness, threads), and SQL lives in `.sql` files. Each rule reads source as a tree, takes the
folder to look at, and is shown below to catch what it is for.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Container, Iterator
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path

import pytest

import podium

SRC = Path(podium.__file__).parent
PACKAGE = "podium"

# A door is a room, a folder in it or a module in it: what lies behind it may be imported.
MAY_IMPORT: dict[str, set[str]] = {
    "contracts": set(),
    "kernel": {"contracts"},
    "engine": {"kernel", "contracts"},
    "backends": {"kernel", "contracts"},
    "domains": {"kernel", "contracts"},
    "effects": {"kernel", "contracts"},
    "http": {"domains", "kernel", "contracts"},
    # A page is a route: it declares who may see it in the same way.
    "web": {"domains", "kernel", "contracts", "http/guard", "http/house"},
    "sdk": {"contracts"},
    "handlers": {"sdk", "effects", "contracts"},
    "runners": {
        "sdk",
        "handlers",
        "effects",
        "contracts",
        # A runner works through a client: of the kernel it gets what needs no store.
        "kernel/clock",
        "kernel/ids",
        "kernel/errors",
        "kernel/machine",
        "kernel/retry",
    },
    "sim": {"domains", "engine", "kernel", "contracts", "backends/sqlite"},
    "app": {
        "contracts",
        "kernel",
        "engine",
        "backends",
        "domains",
        "effects",
        "http",
        "web",
        "sdk",
        "handlers",
        "runners",
        "sim",
    },
    "cli": {"app", "sdk", "sim", "contracts"},
    "testing": {"sim", "engine", "kernel", "contracts"},
}

# In these rooms each folder is a room of its own and never sees the one beside it.
SIDE_BY_SIDE = {"backends", "domains"}

# The package itself and the front door stand outside the rooms.
DOORSTEP = {"__init__.py": set[str](), "__main__.py": {"cli"}}


# --- what a file imports -------------------------------------------------------------------------


@dataclass(frozen=True)
class Import:
    """One imported name, absolute: `from podium.kernel import clock` is `podium.kernel.clock`."""

    name: str
    line: int
    is_for_types_only: bool

    @property
    def path(self) -> str:
        """Inside our package, as a path: `kernel/clock`."""
        return "/".join(self.name.split(".")[1:])


def files(root: Path) -> list[Path]:
    return sorted(root.rglob("*.py"))


def imports(root: Path, path: Path) -> list[Import]:
    """What a file imports of ours, in functions and under TYPE_CHECKING too."""
    return [found for found in _walk(root, path) if found.name.split(".")[0] == PACKAGE]


def _walk(root: Path, path: Path) -> Iterator[Import]:
    tree = ast.parse(path.read_text())
    for_types_only = {
        id(child)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
        for statement in node.body
        for child in ast.walk(statement)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{_base(root, path, node)}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            yield Import(name, node.lineno, id(node) in for_types_only)


def _base(root: Path, path: Path, node: ast.ImportFrom) -> str:
    """The module after `from`, with its dots resolved against the folder the file is in."""
    if node.level == 0:
        return node.module or ""
    package = [PACKAGE, *path.relative_to(root).parent.parts]
    above = package[: len(package) - node.level + 1]
    return ".".join([*above, *filter(None, [node.module])])


# --- the rules -----------------------------------------------------------------------------------


def unknown_rooms(root: Path) -> list[str]:
    """What lies in the package and is on no map."""
    folders = {path.name for path in root.iterdir() if path.is_dir()} - {"__pycache__"}
    loose = {path.name for path in root.glob("*.py")}
    return sorted(folders - MAY_IMPORT.keys()) + sorted(loose - DOORSTEP.keys())


def strangers(root: Path) -> list[str]:
    """Imports that go through no door of their room."""
    found = []
    for path in files(root):
        where = path.relative_to(root)
        doors = doors_of(where)
        for wanted in imports(root, path):
            is_ours = (
                wanted.path.split("/")[0] in MAY_IMPORT
            )  # and not `from podium import __version__`
            if is_ours and not any(leads_to(door, wanted.path) for door in doors):
                found.append(f"{where}:{wanted.line} reaches into {wanted.path}")
    return found


def doors_of(where: Path) -> set[str]:
    room = where.parts[0]
    if len(where.parts) == 1:
        return DOORSTEP.get(room, set())
    own = "/".join(where.with_suffix("").parts[:2]) if room in SIDE_BY_SIDE else room
    return MAY_IMPORT.get(room, set()) | {own}


def leads_to(door: str, wanted: str, separator: str = "/") -> bool:
    return wanted == door or wanted.startswith(door + separator)


def circle(root: Path) -> str | None:
    """One circle of imports, as `a -> b -> a`. Imports for types only are never executed."""
    modules = {_module(root, path): path for path in files(root)}
    graph: dict[str, set[str]] = {}
    for module, path in modules.items():
        wanted = {i.name for i in imports(root, path) if not i.is_for_types_only}
        graph[module] = {_defining(name, modules) for name in wanted} - {module}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return " -> ".join(reversed(error.args[1]))
    return None


def _module(root: Path, path: Path) -> str:
    parts = [PACKAGE, *path.relative_to(root).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _defining(name: str, modules: Container[str]) -> str:
    """The module in which an imported name is looked up: itself, or the nearest package above."""
    while name not in modules and "." in name:
        name = name.rpartition(".")[0]
    return name


# --- determinism ---------------------------------------------------------------------------------

# One seed replays one history only if these rooms take time, randomness and order from outside.
SIMULATED = ("kernel", "engine", "domains")

FORBIDDEN = {
    "time": "ask the injected Clock",
    "datetime.datetime.now": "ask the injected Clock",
    "datetime.datetime.utcnow": "ask the injected Clock",
    "datetime.datetime.today": "ask the injected Clock",
    "datetime.date.today": "ask the injected Clock",
    "uuid.uuid1": "ask the injected Ids",
    "uuid.uuid4": "ask the injected Ids",
    "uuid.uuid7": "ask the injected Ids",
    "secrets": "take a random.Random",
    "random": "take a random.Random",
    "os.urandom": "take a random.Random",
    "os.getrandom": "take a random.Random",
    "threading": "threads belong to backends",
    "concurrent.futures": "threads belong to backends",
    "asyncio.to_thread": "threads belong to backends",
    "asyncio.wait": "it answers with sets, ordered by address",
    "asyncio.all_tasks": "it answers with a set, ordered by address",
    "asyncio.as_completed": "it goes through a set, ordered by address",
}
ALLOWED = {"random.Random"}
FORBIDDEN_METHODS = {"run_in_executor": "threads belong to backends"}
FORBIDDEN_BUILTINS = {"hash": "it differs from run to run", "id": "it differs from run to run"}

# (file, name) -> why it may.
EXCEPTIONS: dict[tuple[str, str], str] = {
    ("kernel/clock.py", "time.monotonic"): "the one place where time comes in",
    ("kernel/clock.py", "datetime.datetime.now"): "the one place where time comes in",
}


@dataclass(frozen=True)
class Use:
    """A forbidden thing in a simulated room."""

    file: str
    line: int
    name: str
    instead: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} uses {self.name}: {self.instead}"


def outside_world(root: Path) -> list[Use]:
    """Where the simulated rooms ask the outside world, exceptions included."""
    return [
        Use(str(path.relative_to(root)), line, name, instead)
        for room in SIMULATED
        for path in files(root / room)
        for line, name, instead in sorted(_forbidden(ast.parse(path.read_text())))
    ]


def _forbidden(tree: ast.Module) -> Iterator[tuple[int, str, str]]:
    names = _imported_names(tree)
    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Name) and id(node) not in inner:
            yield from _forbidden_name(node, names)
        if isinstance(node, ast.Attribute) and node.attr in FORBIDDEN_METHODS:
            yield node.lineno, node.attr, FORBIDDEN_METHODS[node.attr]
        if isinstance(node, ast.Call) and ast.unparse(node.func) in FORBIDDEN_BUILTINS:
            called = ast.unparse(node.func)
            yield node.lineno, f"{called}()", FORBIDDEN_BUILTINS[called]
        if isinstance(node, ast.For | ast.AsyncFor | ast.comprehension) and _is_set(node.iter):
            yield node.iter.lineno, "iteration over a set", "its order differs; sort it"


def _imported_names(tree: ast.Module) -> dict[str, str]:
    """What each imported name means: with `from time import monotonic as m`, m is time.monotonic."""
    names = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                whole = alias.name if alias.asname else alias.name.split(".")[0]
                names[alias.asname or whole] = whole
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names |= {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
    return names


def _forbidden_name(node: ast.expr, names: dict[str, str]) -> Iterator[tuple[int, str, str]]:
    first, *rest = _dotted(node)
    if first not in names:
        return
    name = ".".join([names[first], *rest])
    if any(leads_to(allowed, name, ".") for allowed in ALLOWED):
        return
    for forbidden, instead in FORBIDDEN.items():
        if leads_to(forbidden, name, "."):
            yield node.lineno, name, instead


def _dotted(node: ast.expr) -> list[str]:
    """`a.b.c` in parts; where the chain hangs on a call it begins with "", a name nobody imports."""
    if isinstance(node, ast.Attribute):
        return [*_dotted(node.value), node.attr]
    return [node.id] if isinstance(node, ast.Name) else [""]


def _is_set(node: ast.expr) -> bool:
    if isinstance(node, ast.Call):
        return ast.unparse(node.func) in {"set", "frozenset"}
    return isinstance(node, ast.Set | ast.SetComp)


# --- SQL -----------------------------------------------------------------------------------------

VERB = re.compile(r"\s*(select|insert|update|delete|create|SELECT|INSERT|UPDATE|DELETE|CREATE)\s")
NOUN = re.compile(r"\b(from|into|set|table)\b", re.IGNORECASE)


def sql_in_code(root: Path) -> list[str]:
    """String literals that are statements. Backends may: they speak to their database alone.
    Suites may: they ask the tables themselves, apart from the code that they check."""
    found = []
    for path in files(root):
        where = path.relative_to(root)
        if where.parts[0] in ("backends", "testing"):
            continue
        for line, text in _literals(ast.parse(path.read_text())):
            if VERB.match(text) and NOUN.search(text):
                found.append(f"{where}:{line} {' '.join(text.split())[:40]}")
    return found


def _literals(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Each string with its line; an f-string whole. Strings that stand alone are prose."""
    skipped = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            skipped |= {id(part) for part in node.values}
            yield node.lineno, "".join(_text(part) or "?" for part in node.values)
        elif id(node) not in skipped and _text(node):
            yield getattr(node, "lineno", 0), _text(node)


def _text(node: ast.AST) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return ""


# --- this house keeps the rules ------------------------------------------------------------------


def test_every_room_is_on_the_map() -> None:
    assert unknown_rooms(SRC) == []


def test_a_room_opens_only_its_own_doors() -> None:
    assert strangers(SRC) == []


def test_modules_do_not_import_each_other_in_a_circle() -> None:
    assert circle(SRC) is None


def test_simulated_rooms_do_not_ask_the_outside_world() -> None:
    uses = [use for use in outside_world(SRC) if (use.file, use.name) not in EXCEPTIONS]
    assert [str(use) for use in uses] == []


def test_an_exception_that_nobody_needs_is_removed() -> None:
    used = {(use.file, use.name) for use in outside_world(SRC)}
    assert EXCEPTIONS.keys() - used == set()


def test_sql_lives_in_sql_files() -> None:
    assert sql_in_code(SRC) == []


# --- the rules catch what they are for -----------------------------------------------------------


def build(root: Path, sources: dict[str, str]) -> None:
    """A tiny house: file names and what is in them."""
    for name, source in sources.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)


def test_a_folder_or_file_that_is_on_no_map_is_found(tmp_path: Path) -> None:
    build(tmp_path, {"helpers/things.py": "", "kernel/clock.py": "", "loose.py": ""})
    assert unknown_rooms(tmp_path) == ["helpers", "loose.py"]


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("kernel/work.py", "import podium.engine.loop"),
        ("kernel/work.py", "import podium.engine"),
        ("kernel/work.py", "from podium.engine.loop import Loop"),
        ("kernel/work.py", "from podium import contracts, engine"),
        ("kernel/work.py", "from ..engine import loop"),
        ("kernel/work.py", "from .. import engine"),
        ("kernel/deep/work.py", "from ...engine.loop import Loop"),
        ("kernel/work.py", "def f():\n    from podium.engine import loop"),
        ("kernel/work.py", "if TYPE_CHECKING:\n    from podium.engine import loop"),
        ("contracts/jobs.py", "from podium.kernel import clock"),
        ("engine/loop.py", "from podium.backends.sqlite import store"),
        ("backends/sqlite/store.py", "from podium.backends.postgres import store"),
        ("backends/sqlite/store.py", "from ..postgres import store"),
        ("backends/sqlite/store.py", "from podium.backends import common"),
        ("backends/common.py", "from podium.backends import sqlite"),
        ("domains/jobs/service.py", "from podium.domains.workflows import service"),
        ("domains/jobs/service.py", "from podium.engine import loop"),
        ("http/jobs.py", "from podium.backends.sqlite import store"),
        ("sdk/client.py", "from podium.kernel import clock"),
        ("handlers/raster.py", "from podium.kernel import clock"),
        ("runners/agent.py", "from podium.kernel import clock, store"),
        ("runners/agent.py", "import podium.kernel"),
        ("runners/agent.py", "from podium.kernel import *"),
        ("sim/world.py", "from podium.backends.postgres import store"),
        ("sim/world.py", "from podium import backends"),
        ("app/wiring.py", "from podium.cli import main"),
        ("app/wiring.py", "from podium.testing import servers"),
        ("cli/main.py", "from podium.kernel import work"),
        ("testing/suite.py", "from podium.backends.sqlite import store"),
        ("__init__.py", "from podium.kernel import clock"),
        ("__main__.py", "from podium.app import wiring"),
    ],
)
def test_a_stranger_is_found(tmp_path: Path, file: str, source: str) -> None:
    build(tmp_path, {file: source})
    assert len(strangers(tmp_path)) == 1


def test_an_open_door_is_no_offence(tmp_path: Path) -> None:
    build(
        tmp_path,
        {
            "kernel/work.py": "from podium import __version__\nfrom podium.contracts import errors\nfrom . import clock\nimport os",
            "backends/sqlite/store.py": "from podium.backends.sqlite import pragmas\nfrom .pragmas import ALL",
            "domains/jobs/service.py": "from podium.domains.jobs import decide\nfrom podium.kernel import work",
            "runners/agent.py": "from podium.kernel.retry import Retry\nfrom podium.kernel import clock, ids",
            "sim/world.py": "from podium.backends.sqlite.store import SQLiteStore",
            "app/wiring.py": "from podium.backends.postgres import store\nfrom podium.backends import sqlite",
            "__main__.py": "from podium.cli import main",
        },
    )
    assert strangers(tmp_path) == []


def test_a_circle_is_found_and_printed(tmp_path: Path) -> None:
    build(
        tmp_path,
        {
            "kernel/a.py": "from podium.kernel.b import thing",
            "kernel/b.py": "from . import c",
            "kernel/c.py": "def late():\n    import podium.kernel.a",
        },
    )
    found = circle(tmp_path)
    assert found is not None
    names = found.split(" -> ")
    assert names[0] == names[-1]
    steps = set(pairwise(names))
    assert steps == {
        ("podium.kernel.a", "podium.kernel.b"),
        ("podium.kernel.b", "podium.kernel.c"),
        ("podium.kernel.c", "podium.kernel.a"),
    }


def test_a_circle_through_a_package_is_found(tmp_path: Path) -> None:
    package = "from podium.kernel.a import thing"
    build(
        tmp_path,
        {"kernel/__init__.py": package, "kernel/a.py": "from podium.kernel import thing"},
    )
    assert circle(tmp_path) in {
        "podium.kernel -> podium.kernel.a -> podium.kernel",
        "podium.kernel.a -> podium.kernel -> podium.kernel.a",
    }


def test_an_import_for_types_only_closes_no_circle(tmp_path: Path) -> None:
    build(
        tmp_path,
        {
            "kernel/a.py": "from podium.kernel import b",
            "kernel/b.py": "import typing\nif typing.TYPE_CHECKING:\n    from podium.kernel.a import Thing",
        },
    )
    assert circle(tmp_path) is None


def test_the_else_of_a_types_only_import_counts(tmp_path: Path) -> None:
    late = "if TYPE_CHECKING:\n    pass\nelse:\n    from podium.kernel import a"
    build(tmp_path, {"kernel/a.py": "from podium.kernel import b", "kernel/b.py": late})
    assert circle(tmp_path) is not None


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("import time\ntime.time()", "time.time"),
        ("import time\ntime.strftime('%Y')", "time.strftime"),
        ("import time as t\nt.monotonic()", "time.monotonic"),
        ("from time import monotonic as m\nclock = m", "time.monotonic"),
        ("from datetime import datetime\ndatetime.now(UTC)", "datetime.datetime.now"),
        ("import datetime as dt\ndt.datetime.utcnow()", "datetime.datetime.utcnow"),
        ("from uuid import uuid4\nuuid4().hex", "uuid.uuid4"),
        ("import uuid\nuuid.uuid1()", "uuid.uuid1"),
        ("import secrets\nsecrets.token_hex()", "secrets.token_hex"),
        ("from secrets import token_hex\ntoken_hex()", "secrets.token_hex"),
        ("import random\nrandom.choice([1])", "random.choice"),
        ("import random\ndraw(rng=random)", "random"),
        ("from random import SystemRandom\nSystemRandom()", "random.SystemRandom"),
        ("import os\nos.urandom(8)", "os.urandom"),
        ("import threading\nthreading.Thread()", "threading.Thread"),
        ("import asyncio\nasyncio.to_thread(f)", "asyncio.to_thread"),
        ("from asyncio import wait\nwait(tasks)", "asyncio.wait"),
        ("import asyncio\nasyncio.all_tasks()", "asyncio.all_tasks"),
        ("loop.run_in_executor(None, f)", "run_in_executor"),
        ("hash(name)", "hash()"),
        ("def f(thing):\n    return id(thing)", "id()"),
        ("for x in {1, 2}: pass", "iteration over a set"),
        ("[x for x in set(xs)]", "iteration over a set"),
    ],
)
@pytest.mark.parametrize("room", SIMULATED)
def test_a_question_to_the_outside_world_is_found(
    tmp_path: Path, room: str, source: str, name: str
) -> None:
    build(tmp_path, {f"{room}/deep/file.py": source})
    assert [use.name for use in outside_world(tmp_path)] == [name]


def test_what_is_passed_in_is_no_question(tmp_path: Path) -> None:
    build(
        tmp_path,
        {
            "kernel/work.py": """
import asyncio, datetime, random
from podium.kernel import secrets
def f(clock, rng: random.Random, id: str, hash: str, wait):
    key = secrets.open(id)
    asyncio.wait_for(clock.now(), 1)
    own = random.Random(7).random()
    wait(row.time.time, self.random.choice, datetime.datetime(2026, 1, 1))
    for x in sorted({1, 2}): pass
""",
            "backends/sqlite/store.py": "import time, threading\ntime.monotonic()\nthreading.Thread()",
        },
    )
    assert outside_world(tmp_path) == []


@pytest.mark.parametrize(
    "source",
    [
        'x = "select id from work"',
        'x = "INSERT INTO work values (1)"',
        'x = """\n    update work\n       set state = 1"""',
        'x = f"delete from {table}"',
        "x = f\"{'a'}\" + 'create table t (id int)'",
    ],
)
def test_sql_in_code_is_found(tmp_path: Path, source: str) -> None:
    build(tmp_path, {"kernel/work.py": source})
    assert len(sql_in_code(tmp_path)) == 1


def test_prose_and_backends_are_no_sql_in_code(tmp_path: Path) -> None:
    build(
        tmp_path,
        {
            "kernel/work.py": '"""Select rows from the table."""\nx = "created_at"\ny = "select a file"\nz = 7',
            "backends/sqlite/store.py": 'x = "select name from sqlite_schema"',
        },
    )
    assert sql_in_code(tmp_path) == []
