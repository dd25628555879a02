"""`podium up` from outside, and everybody it has started."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import orjson

ROOT = Path(__file__).parents[2]
START_SECONDS_MAX = 60.0
"""Longer than a start takes on a busy machine. Reaching it is a failure, not a wait."""
GONE_SECONDS_MAX = 2.0
LOOK_SECONDS = 0.02


class Announced(NamedTuple):
    pid: int
    port: int
    token: str


class Alive(NamedTuple):
    """A process, and when it began: numbers are given out again."""

    pid: int
    began: str


class Up:
    def __init__(self, process: Process, data_dir: Path, log: Path) -> None:
        self._process = process
        self._log = log
        self._data_dir = data_dir

    @classmethod
    async def start(cls, data_dir: Path, *options: str, port: int = 0) -> Up:
        log = data_dir.with_name(f"{data_dir.name}.log")
        with log.open("ab") as stderr:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "podium", "up", "--json"),
                *(f"--data-dir={data_dir}", f"--port={port}", *options),
                cwd=ROOT,
                stdin=DEVNULL,
                stdout=PIPE,
                stderr=stderr,
            )
        return cls(process, data_dir, log)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.returncode is None

    async def announced(self) -> Announced:
        """What it prints when it is up."""
        assert self._process.stdout is not None
        async with asyncio.timeout(START_SECONDS_MAX):
            line = await self._process.stdout.readline()
        assert line, f"it ended and announced nothing\n{self.tail()}"
        said: dict[str, Any] = orjson.loads(line)
        token = await asyncio.to_thread(Path(said["token_file"]).read_text)
        return Announced(said["pid"], int(said["url"].rpartition(":")[2]), token.strip())

    async def kill(self) -> None:
        """kill -9; whoever it had started is gone soon after."""
        family = {self.pid, *_descendants(self.pid)}
        those = {alive for alive in _everybody() if alive.pid in family}
        self._process.kill()
        await self._process.wait()
        await self._expect_gone(those)

    async def terminate(self, seconds: float) -> int:
        """SIGTERM; the exit code."""
        self.tell(signal.SIGTERM)
        return await self.wait(seconds)

    def tell(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    async def wait(self, seconds: float) -> int:
        try:
            async with asyncio.timeout(seconds):
                return await self._process.wait()
        except TimeoutError:
            raise AssertionError(f"it did not end within {seconds:g} s\n{self.tail()}") from None

    def rss_bytes(self) -> int:
        """Of the server's own process, now."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def rss_bytes_max(self) -> int:
        """The most it ever had."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return 1024 * int(status.partition("VmHWM:")[2].split()[0])

    def open_files(self) -> list[str]:
        try:
            return [str(each.readlink()) for each in Path(f"/proc/{self.pid}/fd").iterdir()]
        except OSError:
            return []  # one was closed while we looked, or it ended

    def tail(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines()[-15:]
        return "\n".join(["its log:", *lines])

    def log_text(self) -> str:
        return self._log.read_text(errors="replace")

    async def _expect_gone(self, those: set[Alive]) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + GONE_SECONDS_MAX
        while left := (those & _everybody()) | _who_names(self._data_dir):
            assert loop.time() < until, (
                f"left behind: {[_said(each.pid, 'cmdline') for each in left]}"
            )
            await asyncio.sleep(LOOK_SECONDS)


@asynccontextmanager
async def up(data_dir: Path, *options: str, port: int = 0) -> AsyncIterator[tuple[Up, Announced]]:
    """One life, for tests that need no second one."""
    house = await Up.start(data_dir, *options, port=port)
    try:
        yield house, await house.announced()
    finally:
        if house.is_running:
            await house.kill()


def _everybody() -> set[Alive]:
    """Whoever runs. One that is dead and not yet collected does not."""
    return {Alive(pid, stat[19]) for pid, stat in _stats() if stat[0] != "Z"}


def _descendants(pid: int) -> set[int]:
    parents = {child: int(stat[1]) for child, stat in _stats()}
    found: set[int] = set()
    fresh = {pid}
    while fresh:
        fresh = {child for child, parent in parents.items() if parent in fresh} - found
        found |= fresh
    return found


def _stats() -> list[tuple[int, list[str]]]:
    """The fields behind the name: state, parent …, and the start as the twentieth."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                text = (entry / "stat").read_text()
            except OSError:
                continue  # it ended while we looked
            found.append((int(entry.name), text.rpartition(")")[2].split()))
    return found


def _who_names(data_dir: Path) -> set[Alive]:
    """By its command line or its environment."""
    name = str(data_dir)
    return {
        alive
        for alive in _everybody()
        if any(name in _said(alive.pid, where) for where in ("cmdline", "environ"))
    }


def _said(pid: int, where: str) -> str:
    try:
        return Path(f"/proc/{pid}/{where}").read_text(errors="replace").replace("\0", " ").strip()
    except OSError:
        return ""  # it ended, or is another user's
