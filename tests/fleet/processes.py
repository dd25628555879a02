"""The processes of a fleet, each with a folder of its own, as on machines of their own."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import subprocess
import sys
from asyncio.subprocess import Process
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from podium.sdk import Client
from podium.testing.broker_server import Nats, nats
from podium.testing.object_server import (
    ACCESS_KEY_ID,
    SECRET_ACCESS_KEY,
    ObjectServer,
    object_server,
)
from podium.testing.servers import Postgres, postgres
from tests.buckets import make_bucket

BUCKET = "podium"
EVENTS = "fleet-events"
START_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 40.0


@dataclass(frozen=True, slots=True)
class Ground:
    """What a fleet stands on."""

    postgres: Postgres
    nats: Nats
    objects: ObjectServer

    def settings(self) -> dict[str, str]:
        key = base64.b64encode(os.urandom(32)).decode()
        return {
            "PODIUM_DATABASE_URL": self.postgres.url,
            "PODIUM_BUS_URL": self.nats.url,
            "PODIUM_BUS_QUEUES": EVENTS,
            "PODIUM_BLOBS_URL": self.objects.url_of(BUCKET),
            "PODIUM_BLOBS_ACCESS_KEY_ID": ACCESS_KEY_ID,
            "PODIUM_BLOBS_SECRET_ACCESS_KEY": SECRET_ACCESS_KEY,
            "PODIUM_MASTER_KEY": key,
        }


@contextmanager
def ground() -> Iterator[Ground]:
    with ExitStack() as stack:
        objects = stack.enter_context(object_server())
        make_bucket(objects, BUCKET)
        yield Ground(stack.enter_context(postgres()), stack.enter_context(nats()), objects)


class Fleet:
    def __init__(self, ground: Ground, folder: Path) -> None:
        self.ground = ground
        self.folder = folder
        self._settings = ground.settings()
        self._processes: dict[str, Process] = {}
        self._clients: dict[str, Client] = {}
        self._ports: dict[str, int] = {}

    # Starting --------------------------------------------------------------------------------

    async def migrate(self) -> None:
        process = await self._spawn("migrate", ["-m", "podium", "migrate"], {})
        assert await process.wait() == 0, self.log("migrate")
        del self._processes["migrate"]

    async def start_server(self, name: str) -> Client:
        """Again on the same port, if it was here before: clients find it where it was."""
        port = str(self._ports.get(name, 0))
        said = await self._start(name, ["server", "--json", "--quiet", "--port", port])
        self._ports[name] = int(said["url"].rpartition(":")[2])
        if name in self._clients:
            await self._clients[name].close()
        token = Path(said["token_file"]).read_text().strip()
        self._clients[name] = Client(said["url"], token)
        return self._clients[name]

    async def start_orchestrator(self, name: str) -> None:
        await self._start(name, ["orchestrator", "--json", "--quiet"])

    async def start_worker(self, name: str, *, at: str, token: str, queues: str) -> None:
        arguments = ["worker", "--queues", queues, "--handlers", "podium.handlers.demo"]
        environment = {"PODIUM_URL": self._clients[at].url, "PODIUM_TOKEN": token}
        await self._spawn(name, ["-m", "podium", *arguments], environment, is_client=True)

    async def start_listener(self, name: str) -> None:
        process = await self._spawn(
            name, ["-m", "tests.fleet.listener", name], {}, stdout=subprocess.PIPE
        )
        await self._first_line(name, process)

    # Ending ----------------------------------------------------------------------------------

    async def kill(self, name: str) -> None:
        """kill -9."""
        process = self._processes.pop(name)
        process.kill()
        await process.wait()

    async def stop(self) -> dict[str, int]:
        """All of them, politely. The exit codes."""
        for client in self._clients.values():
            await client.close()
        for process in self._processes.values():
            if process.returncode is None:
                process.terminate()
        codes = {}
        for name, process in self._processes.items():
            try:
                async with asyncio.timeout(STOP_SECONDS_MAX):
                    codes[name] = await process.wait()
            except TimeoutError:
                process.kill()
                codes[name] = await process.wait()
        self._processes.clear()
        return codes

    def log(self, name: str) -> str:
        path = self.folder / name / "log"
        return path.read_text(errors="replace")[-4_000:] if path.exists() else ""

    # -----------------------------------------------------------------------------------------

    async def _start(self, name: str, arguments: list[str]) -> dict[str, Any]:
        process = await self._spawn(name, ["-m", "podium", *arguments], {}, stdout=subprocess.PIPE)
        said: dict[str, Any] = json.loads(await self._first_line(name, process))
        return said

    async def _first_line(self, name: str, process: Process) -> bytes:
        assert process.stdout is not None
        async with asyncio.timeout(START_SECONDS_MAX):
            line = await process.stdout.readline()
        if not line:
            raise RuntimeError(f"{name} did not start:\n{self.log(name)}")
        return line

    async def _spawn(
        self,
        name: str,
        arguments: list[str],
        environment: dict[str, str],
        *,
        stdout: int | None = None,
        is_client: bool = False,
    ) -> Process:
        home = self.folder / name
        home.mkdir(exist_ok=True)
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("PODIUM_")}
        settings = {} if is_client else {**self._settings, "PODIUM_DATA_DIR": str(home / "data")}
        with (home / "log").open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *arguments,
                env={**inherited, **settings, **environment},
                stdin=subprocess.DEVNULL,
                stdout=log if stdout is None else stdout,
                stderr=log,
            )
        self._processes[name] = process
        return process
