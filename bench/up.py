"""What the command costs: time until it is ready, memory, and CPU while nothing happens."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import httpx
import psutil

MIB = 1024 * 1024
START_SECONDS_MAX = 30.0
SETTLE_SECONDS = 2.0


class Up(NamedTuple):
    ready_seconds: float
    memory_mib: float
    idle_cpu_share: float


def up(idle_seconds: float) -> Up:
    """A second start on the same folder: the files are there, and the modules are in memory."""
    with tempfile.TemporaryDirectory() as folder:
        _start_and_end(Path(folder), 0)
        return _start_and_end(Path(folder), idle_seconds)


def help_seconds() -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-m", "podium", "--help"], check=True, capture_output=True)
    return time.perf_counter() - began


def _start_and_end(folder: Path, idle_seconds: float) -> Up:
    (folder / "url").unlink(missing_ok=True)
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "podium", "up", "--data-dir", folder, "--port", "0"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_until_ready(folder, process)
        ready_seconds = time.perf_counter() - began
        parent = psutil.Process(process.pid)
        if not idle_seconds:
            return Up(ready_seconds, 0, 0)
        time.sleep(SETTLE_SECONDS)
        cpu_began = _cpu_seconds(parent)
        time.sleep(idle_seconds)
        share = (_cpu_seconds(parent) - cpu_began) / idle_seconds
        return Up(ready_seconds, parent.memory_info().rss / MIB, share)
    finally:
        process.terminate()
        process.wait()


def _wait_until_ready(folder: Path, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < until and process.poll() is None:
        try:
            url = (folder / "url").read_text().strip()
            if httpx.get(f"{url}/readyz", trust_env=False).status_code == httpx.codes.OK:
                return
        except (OSError, httpx.HTTPError):
            pass
        time.sleep(0.01)
    raise RuntimeError(f"podium up did not become ready (exit {process.poll()})")


def _cpu_seconds(process: psutil.Process) -> float:
    """Of the parent and its children: idle is idle."""
    total = 0.0
    for each in [process, *process.children(recursive=True)]:
        times = each.cpu_times()
        total += times.user + times.system
    return total
