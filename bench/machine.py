"""What the numbers were measured on: without it they mean nothing."""

from __future__ import annotations

import os
import platform
import statistics
import time
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import apsw
import psycopg

PACKAGES = (
    "podium",
    "apsw",
    "psycopg",
    "uvloop",
    "procrastinate",
    "pgqueuer",
    "asyncpg",
    "huey",
)
SYNCS = 200


def describe(folder: Path, postgres_url: str) -> dict[str, str]:
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": f"{os.cpu_count()} cores ({_processor()}), {_memory_gib():.0f} GiB, {platform.system()}",
        "load before": f"{os.getloadavg()[0]:.1f}",
        "write of 4 KiB + fdatasync": f"{sync_seconds(folder) * 1e3:.2f} ms (median of {SYNCS})",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "PostgreSQL": _postgres_version(postgres_url),
        "SQLite": apsw.sqlite_lib_version(),
        "packages": ", ".join(f"{name} {_version(name)}" for name in PACKAGES),
    }


def sync_seconds(folder: Path) -> float:
    """How long the disk takes to keep a page: the floor of every durable commit."""
    seconds = []
    path = folder / "sync"
    with path.open("wb", buffering=0) as file:
        for _ in range(SYNCS):
            began = time.perf_counter()
            file.write(b"\0" * 4096)
            os.fdatasync(file.fileno())
            seconds.append(time.perf_counter() - began)
    path.unlink()
    return statistics.median(seconds)


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()


def _memory_gib() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30


def _postgres_version(url: str) -> str:
    with psycopg.connect(url) as connection:
        row = connection.execute("show server_version").fetchone()
    return str(row[0]) if row else "unknown"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "missing"
