"""The data folder: what a server leaves there for the command line on the same machine.

DATA_DIR/admin.token   a token that may do everything, readable by its owner alone
DATA_DIR/url           where the server is
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

from podium.contracts.scopes import Scope
from podium.domains.access.model import Issued
from podium.domains.access.tokens import Tokens
from podium.kernel.errors import InvalidToken, Unavailable
from podium.kernel.store import Store

TOKEN_FILE = "admin.token"
URL_FILE = "url"
TOKEN_DAYS = 365.0
OWNER_ONLY = 0o600


def make_data_dir(path: Path) -> None:
    """Unavailable, saying what to do, if it cannot be made or written to."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise Unavailable(
            f"the data folder {path} cannot be made: {error.strerror}; give another --data-dir"
        ) from None
    if not os.access(path, os.W_OK | os.X_OK):
        raise Unavailable(f"the data folder {path} cannot be written to; give another --data-dir")


def make_private_file(path: Path) -> None:
    """For its owner alone, also where the folder is open to others. What lies beside a database (its log)
    gets the permissions of the database."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, OWNER_ONLY))
    if path.stat().st_mode & 0o077:
        path.chmod(OWNER_ONLY)


async def keep_admin_token(data_dir: Path, store: Store, tokens: Tokens) -> Path:
    """The local admin token, made anew if the one in the file is not good any more."""
    path = data_dir / TOKEN_FILE
    if not await _is_good(path, tokens):
        issued: Issued = await store.write(
            tokens.create,
            name=f"admin on {socket.gethostname()}"[:100],
            scopes=[Scope.ADMIN],
            valid_days=TOKEN_DAYS,
            actor="podium",
        )
        write_private(path, issued.text)
    return path


async def _is_good(path: Path, tokens: Tokens) -> bool:
    text = _read_private(path)
    if text is None:
        return False
    try:
        await tokens.authenticate(text)
    except InvalidToken:
        return False
    return True


def _read_private(path: Path) -> bytes | None:
    """None if it is not there, or if others could have read it: then it is replaced."""
    try:
        is_private = path.stat().st_mode & 0o077 == 0
        return path.read_bytes().strip() if is_private else None
    except FileNotFoundError:
        return None


def write_private(path: Path, text: str) -> None:
    """Whole or not at all, and never readable by others, not even for a moment."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY)
    with os.fdopen(descriptor, "w") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
