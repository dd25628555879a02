"""scripts/fleet [--stay]"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import tempfile
import time
from pathlib import Path

from tests.fleet.processes import Fleet, Ground, ground
from tests.fleet.smoke import smoke


async def main(found: Ground, folder: Path, *, stays: bool) -> None:
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"[{time.monotonic() - began:5.1f} s] {text}", flush=True)

    fleet = Fleet(found, folder)
    try:
        if stays:
            await _stay(fleet, say)
        else:
            await smoke(fleet, say)
    finally:
        await fleet.stop()
    say("the fleet is down")


async def _stay(fleet: Fleet, say) -> None:  # type: ignore[no-untyped-def]
    await fleet.migrate()
    for name in ("server-one", "server-two"):
        client = await fleet.start_server(name)
        say(f"{name}: {(await client.login_link()).url}")
    for name in ("orchestrator-one", "orchestrator-two"):
        await fleet.start_orchestrator(name)
    say(f"PostgreSQL {fleet.ground.postgres.url}, NATS {fleet.ground.nats.url}; Ctrl-C ends it")
    told = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, told.set)
    await told.wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="scripts/fleet", description=__doc__)
    parser.add_argument("--stay", action="store_true", help="leave it running until Ctrl-C")
    asked = parser.parse_args()
    with ground() as found, tempfile.TemporaryDirectory(prefix="podium-fleet-") as folder:
        try:
            asyncio.run(main(found, Path(folder), stays=asked.stay))
        except AssertionError as error:
            sys.exit(f"fleet: {error}")
