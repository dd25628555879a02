"""A server in a process of its own, as `podium up` runs it, on loopback and a port of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil

STOP_SECONDS_MAX = 20.0

PROGRAM = """
import json, os, sys
from podium.app.run import log_as, up
from podium.app.sources import load

def announce(started):
    print(json.dumps([started.url, started.login_url, str(started.token_file)]), flush=True)

flags = {"data_dir": sys.argv[1], "port": 0, "no_worker": sys.argv[2] == "alone"}
settings = load(flags=flags, environment=os.environ)
log_as(settings)
up(settings, announce)
"""


@dataclass(frozen=True)
class Running:
    url: str
    login_url: str
    token_file: Path
    process: psutil.Process
    log: Path
    data: Path

    @property
    def token(self) -> str:
        return self.token_file.read_text().strip()

    @property
    def port(self) -> int:
        return httpx.URL(self.url).port or 0

    def caller(self) -> httpx.Client:
        headers = {"authorization": f"Bearer {self.token}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=30.0)

    def cpu_seconds(self) -> float:
        times = self.process.cpu_times()
        return float(times.user + times.system)

    def resident_bytes(self) -> int:
        return int(self.process.memory_info().rss)

    def resident_bytes_max(self) -> int:
        """The most it ever had, as the kernel remembers."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
        raise AssertionError("the kernel does not say")


@contextmanager
def running(
    folder: Path, environment: Mapping[str, str] | None = None, *, with_worker: bool = False
) -> Iterator[Running]:
    """Up, and down again with SIGTERM, which it must obey with exit code 0."""
    log, data = folder / "server.log", folder / "data"
    company = "with its worker" if with_worker else "alone"
    plain = {name: text for name, text in os.environ.items() if not name.startswith("PODIUM_")}
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(data), company],
            stdout=subprocess.PIPE,
            stderr=stderr,
            cwd=folder,
            env={**plain, **(environment or {})},
        )
    assert process.stdout is not None
    try:
        said = process.stdout.readline()
        assert said, log.read_text()
        url, login_url, token_file = json.loads(said)
        yield Running(url, login_url, Path(token_file), psutil.Process(process.pid), log, data)
        process.terminate()
        assert process.wait(STOP_SECONDS_MAX) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
