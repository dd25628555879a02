"""The stage: `podium up` in a folder of its own, and workers that can be killed."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from asyncio.subprocess import Process
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from podium.cli.refusals import Refusal
from podium.contracts.scopes import Scope
from podium.sdk import Client

START_SECONDS_MAX = 30.0
STOP_SECONDS_MAX = 15.0


class Stage:
    def __init__(self, port: int) -> None:
        self._port = port
        self._folder = Path(tempfile.mkdtemp(prefix="podium-demo-"))
        self._server: Process | None = None
        self._workers: dict[str, Process] = {}
        self.client: Client
        self.url = ""
        self.login_url = ""

    async def __aenter__(self) -> Self:
        try:
            await self._start_server()
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stop()

    async def start_worker(self, name: str, *, queues: str, handlers: str) -> int:
        """A worker in a process of its own, with a token that lets it work and nothing else."""
        token = await self.client.create_token(name, [Scope.WORKER], days=1)
        self._workers[name] = await self._spawn(
            ["worker", "--queues", queues, "--handlers", handlers],
            {"PODIUM_URL": self.url, "PODIUM_TOKEN": token.token},
        )
        return self._workers[name].pid

    async def kill(self, name: str) -> None:
        """kill -9: no goodbye, no clean-up."""
        worker = self._workers.pop(name)
        worker.send_signal(signal.SIGKILL)
        await worker.wait()

    @property
    def folder(self) -> Path:
        return self._folder

    def log(self) -> str:
        path = self._folder / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    async def ended(self) -> None:
        """Until the server is gone."""
        assert self._server is not None
        await self._server.wait()

    async def _start_server(self) -> None:
        where = ("--data-dir", str(self._folder / "data"), "--port", str(self._port))
        self._server = await self._spawn(
            ["up", "--json", "--quiet", "--no-worker", *where],
            {},
            stdout=subprocess.PIPE,
        )
        assert self._server.stdout is not None
        try:
            async with asyncio.timeout(START_SECONDS_MAX):
                line = await self._server.stdout.readline()
        except TimeoutError:
            line = b""
        if not line:
            said = self.log().strip().splitlines() or ["it said nothing"]
            raise Refusal(f"the demo's server did not start: {said[-1]}; try podium doctor")
        told: dict[str, Any] = json.loads(line)
        self.url, self.login_url = told["url"], told["login_url"]
        self.client = Client(self.url, _first_line(told["token_file"]))

    async def _spawn(
        self, arguments: list[str], environment: dict[str, str], stdout: int | None = None
    ) -> Process:
        # What the user's environment says is for the user's server, not for this one.
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("PODIUM_")}
        with (self._folder / "log").open("ab") as log:
            return await asyncio.create_subprocess_exec(
                sys.executable,
                *("-m", "podium", *arguments),
                env={**inherited, **environment},
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log if stdout is None else stdout,
                stderr=log,
                # Ctrl-C is for the demo, which then stops them in order.
                start_new_session=True,
            )

    async def _stop(self) -> None:
        if hasattr(self, "client"):
            await self.client.close()
        processes = [*self._workers.values(), *([self._server] if self._server else [])]
        for process in processes:
            await _end(process)
        shutil.rmtree(self._folder, ignore_errors=True)


def _first_line(path: str) -> str:
    return Path(path).read_text().strip()


async def _end(process: Process) -> None:
    if process.returncode is not None:
        return
    process.terminate()
    try:
        async with asyncio.timeout(STOP_SECONDS_MAX):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
