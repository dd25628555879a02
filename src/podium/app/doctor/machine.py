"""The machine: versions, the data folder, the files in it, the disk below it, the limits above."""

from __future__ import annotations

import os
import platform
import resource
import shutil
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import apsw

from podium.app.doctor.report import Finding, fail, ok, warn
from podium.app.local import TOKEN_FILE
from podium.app.settings import MEBIBYTE, Profile, Settings
from podium.app.wiring import KEY_FILE
from podium.backends.sqlite.connection import VERSION_MIN

PYTHON_MIN = (3, 11)
FREE_BYTES_LOW = 1024 * MEBIBYTE
FREE_BYTES_MIN = 100 * MEBIBYTE
OPEN_FILES_LOW = 4_096
NETWORK_SYSTEMS = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs", "ceph", "glusterfs"}
MOUNTS = Path("/proc/mounts")


def examine_machine(settings: Settings) -> Iterator[Finding]:
    yield _versions()
    yield _folder(settings)
    yield from _disk(settings)
    yield _private(settings.data_path / TOKEN_FILE, "token", "it is made at the first start")
    yield _master_key(settings)
    yield _open_files(settings)


def _versions() -> Finding:
    sqlite = apsw.sqlite_lib_version()
    text = f"Python {platform.python_version()}, SQLite {sqlite}"
    if sys.version_info < PYTHON_MIN:
        return fail("versions", text, "install Python 3.11 or newer")
    if tuple(map(int, sqlite.split("."))) < VERSION_MIN:
        return fail("versions", f"{text}, which can damage a database", "pip install -U apsw")
    return ok("versions", text)


def _folder(settings: Settings) -> Finding:
    path = settings.data_path
    if not path.exists():
        above = _nearest(path)
        if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
            return fail("folder", f"{path} cannot be made in {above}", "give another --data-dir")
        return ok("folder", f"{path} is made at the first start")
    if not path.is_dir():
        return fail("folder", f"{path} is not a folder", "give another --data-dir")
    if not os.access(path, os.W_OK | os.X_OK):
        return fail("folder", f"{path} cannot be written to", f"chown $USER {path}")
    if path.stat().st_mode & 0o077:
        return warn("folder", f"{path} is open to others", f"chmod 700 {path}")
    return ok("folder", f"{path} is there, for its owner alone")


def _disk(settings: Settings) -> Iterator[Finding]:
    path = _nearest(settings.data_path)
    free = shutil.disk_usage(path).free
    text = f"{free / (1024 * MEBIBYTE):.1f} GiB are free"
    mend = "make room, or give a --data-dir on a larger disk"
    if free < FREE_BYTES_MIN:
        yield fail("disk", text, mend)
    elif free < FREE_BYTES_LOW:
        yield warn("disk", text, mend)
    else:
        yield ok("disk", text)
    system = _file_system(path)
    if system in NETWORK_SYSTEMS and settings.profile is Profile.EMBEDDED:
        yield warn(
            "disk",
            f"{path} is on {system}: a lock there may not hold, and a sync may not reach the disk",
            "give a --data-dir on a local disk",
        )


def _private(path: Path, check: str, when_absent: str) -> Finding:
    try:
        status = path.stat()
    except FileNotFoundError:
        return ok(check, f"{path} is not there yet: {when_absent}")
    except OSError as error:
        return fail(check, f"{path}: {error.strerror}", f"chmod 600 {path}")
    if not stat.S_ISREG(status.st_mode) or not os.access(path, os.R_OK):
        return fail(check, f"{path} cannot be read", f"chmod 600 {path}")
    if status.st_mode & 0o077:
        return fail(check, f"{path} can be read by others", f"chmod 600 {path}")
    return ok(check, f"{path} is there, for its owner alone")


def _master_key(settings: Settings) -> Finding:
    path = settings.data_path / KEY_FILE
    if settings.master_key.get_secret_value():
        return ok("master key", "given as a setting")
    if settings.profile is Profile.DISTRIBUTED and not path.exists():
        return fail(
            "master key",
            f"{path} is not there, and servers that share a database must share a key",
            "PODIUM_MASTER_KEY=$(openssl rand -base64 32), the same for all of them",
        )
    return _private(path, "master key", "it is made at the first start")


def _open_files(settings: Settings) -> Finding:
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    text = f"{most} files and connections may be open at once"
    if most < OPEN_FILES_LOW:
        return warn("open files", text, f"ulimit -n {2 * settings.limits.connections_max}")
    return ok("open files", text)


def _nearest(path: Path) -> Path:
    """The path itself, or the first folder above it that is there."""
    path = path.absolute()
    return next(each for each in (path, *path.parents) if each.exists())


def _file_system(path: Path) -> str:
    """What kind of disk a path is on; empty where the system does not tell."""
    try:
        mounts = [line.split() for line in MOUNTS.read_text().splitlines()]
    except OSError:
        return ""
    real = path.resolve()
    found = [(Path(at), kind) for _, at, kind, *_ in mounts if real.is_relative_to(at)]
    return max(found, key=lambda mount: len(mount[0].parts), default=(Path(), ""))[1]
