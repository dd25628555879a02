"""The front door: quick to open, and it lists everything without fetching it."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from podium import __version__
from podium.cli.front import TOPICS, load
from tests.cli.programs import PODIUM, environment, podium

HELP_SECONDS_MAX = 0.4
HEAVY = ("podium.app", "podium.sdk", "pydantic", "rich", "httpx", "fastapi", "asyncio")


def cpu_seconds_of(command: list[str], data_dir: Path) -> float:
    """What it costs, however busy the machine is."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=environment(data_dir), check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_help_is_there_at_once(tmp_path: Path) -> None:
    best = min(cpu_seconds_of([*PODIUM, "--help"], tmp_path) for _ in range(5))
    assert best < HELP_SECONDS_MAX


def test_help_imports_nothing_that_it_does_not_show(tmp_path: Path) -> None:
    look = (
        "import sys; from podium.cli.front import run; run(['--help']);"
        f"print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr)"
    )
    told = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert told.stderr.strip() == "[]"


def test_help_lists_every_command_with_its_line(tmp_path: Path) -> None:
    told = podium(tmp_path, "--help")
    assert told.code == 0
    for name, topic in TOPICS.items():
        assert any(line.split() == [name, *topic.help.split()] for line in told.out.splitlines())


def test_no_words_at_all_show_the_help(tmp_path: Path) -> None:
    assert podium(tmp_path).out == podium(tmp_path, "--help").out


@pytest.mark.parametrize("name", TOPICS)
def test_a_command_says_of_itself_what_the_list_says_of_it(name: str) -> None:
    command = load(name)
    said = " ".join(command.help.split("\n\n")[0].split())
    begin = TOPICS[name].help.rstrip(".").split(",")[0].split(";")[0].split(":")[0]
    assert said.startswith(begin), f"{said!r} is not {TOPICS[name].help!r}"


def test_names_are_completed_without_fetching_them(tmp_path: Path) -> None:
    told = podium(tmp_path, _PODIUM_COMPLETE="complete_bash", COMP_WORDS="podium d", COMP_CWORD="1")
    assert told.out.split() == ["demo", "doctor", "deadletter"]


def test_the_version_is_that_of_the_package(tmp_path: Path) -> None:
    assert podium(tmp_path, "--version").out == f"{__version__}\n"
    assert podium(tmp_path, "version", "--json").json["version"] == __version__


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["vrsion"], "no such command 'vrsion'. Did you mean 'version'?; see podium --help"),
        (["version", "--loud"], "no such option: --loud; see podium version --help"),
        (["token"], "missing command; see podium token --help"),
        (["why", "work"], "missing argument 'id'; see podium why --help"),
    ],
)
def test_wrong_usage_is_one_line_and_2(tmp_path: Path, words: list[str], complaint: str) -> None:
    told = podium(tmp_path, *words)
    assert (told.code, told.complaint, told.out) == (2, complaint, "")
