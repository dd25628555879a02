"""One trial: it is counted, and when it fails the soak goes on and tells how to repeat it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.soak.needs import Missing
from tests.soak.results import Result

Say = Callable[[str], None]


@contextmanager
def trial(
    result: Result, folder: Path, seed: int, say: Say, *, trials: int = 1, rounds: int = 1
) -> Iterator[None]:
    """`rounds` is what to ask of its part to get this trial again, alone or first."""
    folder.mkdir(parents=True, exist_ok=True)
    # PostgreSQL under root runs as another user, who must be able to enter.
    folder.chmod(0o755)
    result.trials += trials
    try:
        yield
    except Missing:
        raise
    except Exception as error:
        result.failures += 1
        repeat = f"scripts/soak {result.part} --rounds {rounds} --seed {seed - 1}"
        result.problems.append(
            f"{result.case}, seed {seed}: {type(error).__name__}: {error}\nrepeat: {repeat}"
        )
        say(f"FAILED: {result.problems[-1]}")
