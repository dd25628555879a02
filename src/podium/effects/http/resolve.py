"""From a name to its addresses, once per connection."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""All addresses of (host, port) as text. An OSError means that there is none."""

THREADS = 32


class SystemResolver:
    """The machine's own resolver, on threads of its own.

    A name whose server never answers holds its thread for as long as the C library likes. On the
    loop's few default threads six such names would stop every other lookup, and every file too.
    """

    def __init__(self, lookup: Callable[[str, int], Sequence[str]] | None = None) -> None:
        self._lookup = lookup or addresses_of
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="podium-resolve")

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._lookup, host, port)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def addresses_of(host: str, port: int) -> Sequence[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))
