"""A client for the commands that call a server. It finds server and token as every client does:
PODIUM_URL and PODIUM_TOKEN, or else what `podium up` left in its data folder on this machine."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

from podium.cli.refusals import Refusal
from podium.sdk import NotConfigured, SyncClient

PAGE = 500
DEADLINE_SECONDS = 15.0
LOOPBACK = ("127.0.0.1", "localhost", "::1")


def client() -> SyncClient:
    try:
        found = SyncClient(deadline_seconds=DEADLINE_SECONDS)
    except NotConfigured as error:
        raise Refusal(str(error)) from None
    if not _is_there(found.url):
        found.close()
        raise Refusal(f"there is no server at {found.url}; start one: podium up")
    return found


def _is_there(url: str) -> bool:
    """A server elsewhere may come back while the client tries again. One on this machine that does
    not listen was not started, and nobody should wait to hear it."""
    parts = urlsplit(url)
    if parts.hostname not in LOOPBACK:
        return True
    try:
        port = parts.port or (443 if parts.scheme == "https" else 80)
        socket.create_connection((parts.hostname, port), timeout=2.0).close()
    except OSError:
        return False
    return True


def pages(
    ask: Callable[..., Any], items: Callable[[Any], list[Any]], limit: int, **filters: Any
) -> Iterator[Any]:
    """The first `limit` of a list that comes page by page."""
    cursor: dict[str, Any] = {}
    while limit > 0:
        page = ask(**filters, **cursor, limit=min(limit, PAGE))
        yield from items(page)
        limit -= len(items(page))
        if page.next_cursor is None:
            return
        cursor = {"cursor": page.next_cursor}
