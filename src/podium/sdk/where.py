"""Where Podium is, and who asks.

Arguments win over PODIUM_URL and PODIUM_TOKEN, and these over what a server on this machine left in
its data folder (DATA_DIR/url and DATA_DIR/admin.token). The local token opens everything, so it is
sent to the local server only: never to another address that somebody gave.
"""

from __future__ import annotations

import logging
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from podium.sdk.errors import NotConfigured

URL_FILE = "url"
TOKEN_FILE = "admin.token"
DATA_DIR = "./podium-data"
CONFIG_FILE = "podium.toml"
READABLE_BY_OTHERS = 0o077
LOOPBACK = ("127.0.0.1", "localhost", "::1")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Place:
    url: str
    token: str | None = field(repr=False)

    @property
    def is_local(self) -> bool:
        return urlsplit(self.url).hostname in LOOPBACK


def find(
    url: str | None = None,
    token: str | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Place:
    """NotConfigured, saying what to do, if there is nothing to go by."""
    url = url or environment.get("PODIUM_URL") or None
    token = _sendable(token or environment.get("PODIUM_TOKEN") or None)
    folder = Path(environment.get("PODIUM_DATA_DIR") or _configured() or DATA_DIR).expanduser()
    local_url = _read(folder / URL_FILE)
    url = url or local_url
    if url is None:
        raise NotConfigured(
            f"no server is known: set PODIUM_URL and PODIUM_TOKEN, or start one here with "
            f"`podium up` (looked for {folder / URL_FILE})"
        )
    url = _checked(url)
    if token is None and local_url is not None and url == local_url.rstrip("/"):
        token = _read_token(folder / TOKEN_FILE)
    return Place(url, token)


def _sendable(token: str | None) -> str | None:
    """A token as it can be sent. What cannot be one is refused here, where nobody repeats it in an error."""
    if token is None:
        return None
    token = token.strip()
    if not token.isascii() or not token.isprintable() or " " in token:
        raise NotConfigured(
            "PODIUM_TOKEN is no token: it has spaces, line breaks or odd characters"
        )
    return token


def _configured() -> str | None:
    """Where podium.toml in this folder puts the data: who starts a server here looks for it there."""
    text = _read(Path(CONFIG_FILE))
    try:
        folder = tomllib.loads(text or "").get("data_dir")
    except tomllib.TOMLDecodeError:
        return None
    return folder if isinstance(folder, str) else None


def _checked(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise NotConfigured(f"{url[:100]!r} is no address of a server; give https://host[:port]")
    return url.rstrip("/")


def _read_token(path: Path) -> str | None:
    try:
        if path.stat().st_mode & READABLE_BY_OTHERS:
            log.warning(
                "a token file can be read by others; make it yours alone with chmod 600",
                extra={"facts": {"file": str(path)}},
            )
    except OSError:
        return None
    return _read(path)


def _read(path: Path) -> str | None:
    try:
        return path.read_text().strip() or None
    except (OSError, UnicodeDecodeError):
        return None
