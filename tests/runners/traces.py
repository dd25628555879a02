"""What the handlers of `tests.runners.handlers` wrote, and waiting for more of it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from podium.contracts.work import NewWork
from podium.sdk.client import Client
from tests.runners.handlers import QUEUE

DEADLINE_SECONDS = 30.0
T = TypeVar("T")


class Trace(NamedTuple):
    what: str
    id: str
    epoch: int
    pid: int
    more: str


def read(file: Path, what: str | None = None) -> list[Trace]:
    if not file.exists():
        return []
    found = []
    for line in file.read_text().splitlines():
        parts = line.split(" ", 4)
        found.append(Trace(parts[0], parts[1], int(parts[2]), int(parts[3]), parts[4]))
    return [trace for trace in found if what in (None, trace.what)]


async def until(look: Callable[[], T], seconds: float = DEADLINE_SECONDS) -> T:
    """The first answer that is true. What is looked at lives in other processes: nobody can call us."""
    async with asyncio.timeout(seconds):
        while not (found := look()):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        return found


async def until_done(client: Client, ids: list[str], seconds: float = DEADLINE_SECONDS) -> None:
    async with asyncio.timeout(seconds):
        for id in ids:
            while (await client.show(id)).state != "done":  # noqa: ASYNC110
                await asyncio.sleep(0.02)


def item(
    id: str, handler: str, file: Path, *, lease_seconds: float = 60.0, **params: Any
) -> NewWork:
    return NewWork(
        queue=QUEUE,
        id=id,
        payload={"handler": handler, "params": {"file": str(file), **params}},
        lease_seconds=lease_seconds,
        attempts_max=5,
    )


def is_alive(pid: int) -> bool:
    """A zombie that nobody has collected yet is dead."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False
    except ProcessLookupError:
        return False


def environment(url: str, token: str) -> dict[str, str]:
    return {**os.environ, "PODIUM_URL": url, "PODIUM_TOKEN": token}
