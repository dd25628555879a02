"""The processes of these tests: `worker`, remote or as a child, and `parent`, a server with a worker."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from podium.app.channel import work_calls
from podium.app.children import Child
from podium.app.worker import run_worker
from podium.kernel.telemetry import log_to
from tests.sdk.served import served

HANDLERS = "tests.runners.handlers"
WORKER = [sys.executable, "-m", "tests.runners.program", "worker"]


async def parent(data_dir: str) -> None:
    async with served(Path(data_dir)) as server:
        child = Child("worker", WORKER, work_calls(server.desk))
        await child.start()
        facts = {"url": server.url, "token": server.token, "child": child.pid}
        print(json.dumps(facts), flush=True)
        await asyncio.Event().wait()


def main() -> int:
    what = sys.argv[1]
    if what == "parent":
        log_to()
        asyncio.run(parent(sys.argv[2]))
    stop_seconds = float(sys.argv[2]) if len(sys.argv) > 2 else None
    return run_worker([], [HANDLERS], concurrency=8, stop_seconds=stop_seconds)


if __name__ == "__main__":
    sys.exit(main())
