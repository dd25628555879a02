"""Where the master keys come from: PODIUM_MASTER_KEY, or else a file that only we can read.

The file is made at the first start, where that is allowed. It appears whole or not at all, with its
final permissions: it is written under another name and then linked, which fails if somebody else
was first. A file that others can read is refused, because nobody knows who has read it.
"""

from __future__ import annotations

import os
import stat
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path

from podium.kernel.errors import Invalid
from podium.kernel.secrets.keyring import KEY_BYTES, Keyring, MasterKey

RandomBytes = Callable[[int], bytes]

VARIABLE = "PODIUM_MASTER_KEY"
FILE_BYTES_MAX = 64 * 1024
ONLY_US = 0o600


def load_keyring(
    variable: str | None, path: Path, *, random_bytes: RandomBytes, may_create: bool
) -> Keyring:
    """The keys in the variable's text, or else in the file, which is made if need be and allowed."""
    if variable is not None:
        # Set but empty is a mistake in a deployment: a new key would open nothing.
        return Keyring.parse(variable, VARIABLE)
    try:
        if may_create and not path.exists():
            create(path, random_bytes)
        return Keyring.parse(read(path), str(path))
    except FileNotFoundError:
        raise Invalid(
            f"there is no master key: {path} does not exist and {VARIABLE} is not set. "
            "Restore the file, or set the variable",
            field="master_key",
        ) from None
    except OSError as error:
        raise Invalid(
            f"the master key file {path} cannot be used: {error.strerror}", field="master_key"
        ) from error


def read(path: Path) -> str:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    with os.fdopen(descriptor, encoding="utf-8") as file:
        # Asked of the open file: the name may lead elsewhere by now.
        _refuse_readers(path, os.fstat(descriptor))
        try:
            return file.read(FILE_BYTES_MAX)
        except UnicodeDecodeError:
            raise Invalid(f"{path} is not a key file: it is not text", field="master_key") from None


def _refuse_readers(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise Invalid(f"{path} is not a file", field="master_key")
    if status.st_mode & 0o077:
        mode = stat.S_IMODE(status.st_mode)
        raise Invalid(
            f"{path} has permissions {mode:03o}: others than its owner can get at the master key. "
            f"If nobody has, run: chmod 600 {path}. Otherwise rotate the key",
            field="master_key",
        )


def create(path: Path, random_bytes: RandomBytes) -> None:
    """A file with a new key; if somebody else makes one at the same moment, theirs stays."""
    key = random_bytes(KEY_BYTES)
    MasterKey(key, "the new key")  # a broken source of randomness shows here, not years later
    draft = path.with_name(f".{path.name}.{random_bytes(8).hex()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, ONLY_US)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, ONLY_US)  # whatever the umask says
            file.write(b64encode(key) + b"\n")
            file.flush()
            os.fsync(descriptor)
        try:
            os.link(draft, path)
        except FileExistsError:
            return
    finally:
        draft.unlink()
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Until its name is on the disk too, a key that has sealed something could vanish."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
