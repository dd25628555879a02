"""`podium` as a program of its own, the way people and scripts run it."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PODIUM = [sys.executable, "-m", "podium"]
SECONDS_MAX = 50.0


@dataclass(frozen=True)
class Told:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def json_lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def complaint(self) -> str:
        """The one line that says what is wrong, after what a server may have logged."""
        *logged, line = self.err.splitlines()
        assert all(each.startswith("{") for each in logged), self.err
        assert line.startswith("podium: "), self.err
        return line.removeprefix("podium: ")


def environment(data_dir: Path, more: dict[str, str] | None = None) -> dict[str, str]:
    # Unbuffered, a program would notice a reader that has gone earlier than it does for most people.
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("PODIUM_") and name != "PYTHONUNBUFFERED"
    }
    return {**kept, "PODIUM_DATA_DIR": str(data_dir), **(more or {})}


def podium(data_dir: Path, *arguments: str, **more: str) -> Told:
    """Run a command to its end, as somebody who knows where the data folder is."""
    done = subprocess.run(
        [*PODIUM, *arguments],
        env=environment(data_dir, more),
        cwd=data_dir.parent,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
    )
    return Told(done.returncode, done.stdout, done.stderr)


def seen_on_a_terminal(data_dir: Path, *arguments: str, **more: str) -> str:
    """What somebody sees who runs a command, both of its streams together."""
    ours, theirs = os.openpty()
    with subprocess.Popen(
        [*PODIUM, *arguments],
        env=environment(data_dir, {"TERM": "xterm-256color", **more}),
        cwd=data_dir.parent,
        stdout=theirs,
        stderr=theirs,
    ) as process:
        os.close(theirs)
        seen = b""
        try:
            while piece := os.read(ours, 65_536):
                seen += piece
                if b"Ctrl-C" in seen and process.poll() is None:
                    process.send_signal(signal.SIGINT)
        except OSError:
            # The other end of a terminal that has gone is an error, not an end.
            pass
        finally:
            os.close(ours)
    return seen.decode()


@dataclass(frozen=True)
class Up:
    data_dir: Path
    url: str
    facts: dict[str, Any]
    process: subprocess.Popen[str]

    def __call__(self, *arguments: str, **more: str) -> Told:
        return podium(self.data_dir, *arguments, **more)


@contextmanager
def up(data_dir: Path, *arguments: str) -> Iterator[Up]:
    """A real server on a free port, ready when this returns, stopped as with Ctrl-C."""
    process = subprocess.Popen(
        [*PODIUM, "up", "--port", "0", "--json", "--quiet", *arguments],
        env=environment(data_dir),
        cwd=data_dir.parent,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            facts = json.loads(first_line(process))
            yield Up(data_dir, facts["url"], facts, process)
            assert process.poll() is None, "the server has ended by itself"
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(SECONDS_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
    assert process.returncode == 0


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    until = time.monotonic() + SECONDS_MAX
    ready, _, _ = select.select([process.stdout], [], [], until - time.monotonic())
    assert ready, "nothing was printed in time"
    line = process.stdout.readline()
    assert line, f"it ended with {process.wait()} and printed nothing"
    return line
