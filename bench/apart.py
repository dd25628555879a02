"""Run a function in a process of its own, so that no measure inherits another one's memory."""

from __future__ import annotations

import multiprocessing
import re
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

R = TypeVar("R")

MIB = 1_024


def apart(function: Callable[..., R], *args: Any) -> tuple[R, float]:
    """The function's answer, and the most memory (MiB) its process had."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, mp_context=context) as pool:
        return pool.submit(_run, function, args).result()


def _run(function: Callable[..., R], args: tuple[Any, ...]) -> tuple[R, float]:
    answer = function(*args)
    return answer, _memory_peak_mib()


def _memory_peak_mib() -> float:
    """From /proc, because what `getrusage` says of a new process includes its parent's peak."""
    status = Path("/proc/self/status")
    found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text()) if status.exists() else None
    return int(found[1]) / MIB if found else float("nan")
