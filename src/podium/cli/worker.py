"""`podium worker`: everything behind it is loaded when it is called, not when help is shown."""

from __future__ import annotations

from collections.abc import Sequence


def run_worker(
    queues: Sequence[str] = (),
    handlers_modules: Sequence[str] = (),
    url: str | None = None,
    token: str | None = None,
    concurrency: int = 8,
) -> int:
    """Work until told to stop; the exit code. As a child (PODIUM_CHANNEL_FD is set) it needs no address."""
    from podium.app.worker import run_worker as run

    return run(queues, handlers_modules, url, token, concurrency)
