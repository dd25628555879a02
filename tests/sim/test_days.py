"""Whole days: the seeds that failed once, the commands, and the planted bugs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from podium.sim.__main__ import main
from podium.sim.gate import hunt
from podium.sim.mutants import MUTANTS, Edit, Mutant, edited
from podium.sim.runner import ROTATION, Task, failure, live
from podium.sim.scenarios import SCENARIOS

REGRESSIONS = [
    (line.split()[0], int(line.split()[1]))
    for line in (Path(__file__).parent / "regressions.txt").read_text("utf-8").splitlines()
    if line and not line.startswith("#")
]


@pytest.mark.parametrize(("scenario", "seed"), REGRESSIONS)
def test_a_seed_that_failed_once_holds(scenario: str, seed: int) -> None:
    outcome = live(Task(scenario, seed))
    assert outcome.invariant is None, failure(outcome)


def test_every_scenario_has_its_turn() -> None:
    assert set(ROTATION) == SCENARIOS.keys()


def test_one_seed_is_one_history() -> None:
    first, second = live(Task("work", 5)), live(Task("work", 5))
    assert first.digest == second.digest
    assert first.digest != live(Task("work", 6)).digest


def test_a_history_does_not_depend_on_the_hash_seed() -> None:
    def digests(hash_seed: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "podium.sim", "digests", "4"]
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)

    histories = [process.communicate()[0] for process in [digests("1"), digests("2")]]
    assert histories[0] == histories[1]
    assert len(histories[0].split()) == 4


def test_a_replay_is_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", "work", "5"]) == 0
    out = capsys.readouterr().out
    assert "action" in out.splitlines()[0]
    assert "Work.claim" in out
    assert out.rstrip().endswith(f"nothing went wrong; history {live(Task('work', 5)).digest}")


def test_a_good_run_ends_well(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--seeds", "3", "--jobs", "1"]) == 0
    assert "seeds/s per core" in capsys.readouterr().out


def test_a_failure_is_one_line_with_the_command_that_replays_it() -> None:
    mutant = next(m for m in MUTANTS if m.name == "no_fencing")
    outcome = live(Task(mutant.scenario, 0, mutant.name, is_mutated=True))
    line = failure(outcome)
    assert line.startswith("FAILED fenced scenario=work seed=0: ")
    assert line.endswith("-> python -m podium.sim replay work 0 --mutant no_fencing")
    assert "\n" not in line


@pytest.mark.parametrize("name", ["gate_without_epoch", "ack_before_commit"])
def test_a_planted_bug_is_found_and_the_real_code_passes(name: str) -> None:
    found = hunt(name)
    assert found.seeds is not None
    assert found.clean == ""


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_still_fits_the_code(mutant: Mutant) -> None:
    mutant.queries()


def test_an_edit_that_changes_nothing_is_refused() -> None:
    with pytest.raises(LookupError, match="needs a new edit"):
        edited([Edit("work.claim", "words that nobody wrote")])
