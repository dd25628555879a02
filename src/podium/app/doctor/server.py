"""The server, asked over HTTP as anybody would: is it there, ready, ours, and is its work well."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx

from podium import __version__
from podium.app.doctor.report import Finding, fail, ok, warn
from podium.app.local import TOKEN_FILE, URL_FILE
from podium.app.parts import listen
from podium.app.settings import Settings
from podium.kernel.errors import Unavailable

ANSWER_SECONDS_MAX = 5.0


@dataclass(frozen=True, slots=True)
class Server:
    """What answered. The counts are None if our token does not open them."""

    url: str
    is_ready: bool
    status: str
    version: str
    dead_letters: int | None = None
    violations: dict[str, int] | None = None


async def find_server(settings: Settings) -> Server | None:
    """The server of this data folder or of these settings; None if nothing of ours answers."""
    token = _read(settings, TOKEN_FILE)
    headers = {"authorization": f"Bearer {token}"} if token else {}
    for url in dict.fromkeys(filter(None, [_read(settings, URL_FILE), settings.url])):
        async with httpx.AsyncClient(
            base_url=url, headers=headers, timeout=ANSWER_SECONDS_MAX, trust_env=False
        ) as client:
            found = await _ask(client, url)
        if found is not None:
            return found
    return None


async def _ask(client: httpx.AsyncClient, url: str) -> Server | None:
    try:
        ready = await client.get("/readyz")
        status = ready.json()["status"]
    except (httpx.HTTPError, ValueError, KeyError, TypeError):
        return None
    queues = await _get(client, "/api/queues")
    counted = await _get(client, "/api/audit/violations")
    return Server(
        url,
        ready.status_code == 200,
        str(status),
        ready.headers.get("x-service-version", "unknown"),
        dead_letters=queues and sum(each["counts"].get("dead", 0) for each in queues["queues"]),
        violations=counted and counted["violations"],
    )


async def _get(client: httpx.AsyncClient, path: str) -> Any:
    try:
        answer = await client.get(path)
        return answer.json() if answer.status_code == 200 else None
    except (httpx.HTTPError, ValueError):
        return None


def _read(settings: Settings, name: str) -> str:
    try:
        return (settings.data_path / name).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def examine_server(settings: Settings, server: Server | None) -> Iterator[Finding]:
    if server is None:
        yield _port(settings)
        yield warn("server", "none is running", "podium up")
        return
    yield ok("port", f"ours answers at {server.url}")
    if not server.is_ready:
        yield fail("server", f"it is not ready: {server.status}", "look in its log; restart it")
    elif server.version != __version__:
        versions = f"it is {server.version}, this command is {__version__}"
        yield warn("server", versions, "restart the server with the version that is installed")
    else:
        yield ok("server", f"ready, version {server.version}")
    if server.violations is None:
        yield warn("work", "the token here does not open it", "podium doctor --data-dir its folder")
    yield from _work(server)


def _port(settings: Settings) -> Finding:
    try:
        listen(settings).close()
    except Unavailable as error:
        what, _, mend = str(error).partition("; ")
        return fail("port", what, mend)
    return ok("port", f"{settings.host} port {settings.port} is free")


def _work(server: Server) -> Iterator[Finding]:
    if server.dead_letters:
        text = f"{server.dead_letters} dead letters wait for somebody to look"
        yield warn("dead letters", text, "podium deadletter list")
    elif server.dead_letters is not None:
        yield ok("dead letters", "there are none")
    if server.violations is not None:
        broken = {name: count for name, count in server.violations.items() if count}
        if broken:
            yield fail("audit", f"promises are broken: {broken}", "podium audit; report it")
        else:
            yield ok("audit", "no promise is broken")
