"""One process of the program, from outside: hear what it says, kill it, pause it, stop it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, TypeVar

import orjson

from tests.kill.history import History, Record

ROOT = Path(__file__).parents[2]
DEADLINE_SECONDS = 30.0
"""Longer than anything takes on a busy machine. Reaching it is a failure, not a wait."""

T = TypeVar("T")


class Child:
    def __init__(
        self,
        name: str,
        arguments: Sequence[str],
        *,
        log: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.history = History(name)
        self._log = log
        self._changed = threading.Condition()
        self._ended = False
        with log.open("ab") as stderr:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.kill.program", *arguments],
                cwd=ROOT,
                env={**os.environ, **(environment or {})},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
            )
        assert self._process.stdout is not None
        self._reader = threading.Thread(
            target=self._read, args=(self._process.stdout,), name=f"reader of {name}", daemon=True
        )
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def tell(self, do: str, **facts: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(orjson.dumps({"do": do, **facts}) + b"\n")
        self._process.stdin.flush()

    def ask(self, do: str) -> Record:
        """Tell it, and wait for the event of the same name."""
        seen = self.history.count(do)
        self.tell(do)
        self.wait_for(lambda history: history.count(do) > seen)
        return list(self.history.all(do))[seen]

    def wait_for(self, what: Callable[[History], T | None], seconds: float = DEADLINE_SECONDS) -> T:
        """The first answer that is true, as soon as the process says what makes it so."""
        with self._changed:
            self._changed.wait_for(lambda: what(self.history) or self._ended, seconds)
            found = what(self.history)
            if found:
                return found
            why = "it ended" if self._ended else f"not within {seconds:g} s"
        raise AssertionError(f"{self.name} (pid {self.pid}): {why}\n{self.tail()}")

    def wait_for_event(self, what: str, seconds: float = DEADLINE_SECONDS) -> Record:
        return self.wait_for(lambda history: history.first(what), seconds)

    def wait_for_more(
        self, what: str, phase: str, more: int, seconds: float = DEADLINE_SECONDS
    ) -> None:
        wanted = self.history.count(what, phase) + more
        self.wait_for(lambda history: history.count(what, phase) >= wanted, seconds)

    def live_on(self, seconds: float) -> None:
        """Let it work for a while: it must not end by itself."""
        try:
            code = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return
        raise AssertionError(f"{self.name} ended by itself with {code}\n{self.tail()}")

    def kill(self) -> None:
        """kill -9, and hear out what it had said before."""
        self._process.kill()
        self._collect()

    def pause(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def terminate(self, seconds: float = DEADLINE_SECONDS) -> int:
        """SIGTERM; the exit code."""
        self._process.send_signal(signal.SIGTERM)
        return self.wait(seconds)

    def wait(self, seconds: float = DEADLINE_SECONDS) -> int:
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(
                f"{self.name} did not end within {seconds:g} s\n{self.tail()}"
            ) from None
        return self._collect()

    def tail(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines()[-15:]
        last = [record.line().decode().strip() for record in self.history.records[-5:]]
        return "\n".join(["its last words:", *last, "its log:", *lines])

    def _collect(self) -> int:
        code = self._process.wait()
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout):
            if stream:
                _close(stream)
        return code

    def _read(self, stream: IO[bytes]) -> None:
        for line in stream:
            record = Record.parse(line)
            with self._changed:
                self.history.add(record)
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()


def _close(stream: IO[bytes]) -> None:
    try:
        stream.close()
    except BrokenPipeError:
        pass  # a command was on its way to a process that is gone
