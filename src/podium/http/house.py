"""What the HTTP room is given to serve: the services of the house, wired by `app`."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from podium.domains.access.service import Access
from podium.kernel.clock import Clock
from podium.kernel.ids import Ulids
from podium.kernel.store import Store
from podium.kernel.telemetry import Metrics
from podium.kernel.work import Work


@dataclass(frozen=True, slots=True)
class Front:
    """How callers reach us, and how much they may ask at once."""

    public_url: str
    hosts: frozenset[str]
    """Host names that are ours, without port, lower case."""
    behind_proxy: bool
    body_bytes_max: int
    requests_at_once_max: int
    streams_max: int
    version: str


@dataclass(slots=True)
class Readiness:
    """Ready when everything has started, and not any more when it begins to stop."""

    is_ready: bool = False
    reason: str = "starting"
    is_stopping: bool = False
    """Whoever waits for something is sent home."""

    def ready(self) -> None:
        self.is_ready, self.reason = True, "ready"

    def stopping(self) -> None:
        self.is_ready, self.reason, self.is_stopping = False, "stopping", True


@dataclass(frozen=True, slots=True)
class House:
    store: Store
    work: Work
    access: Access
    clock: Clock
    ids: Ulids
    rng: random.Random
    metrics: Metrics
    front: Front
    readiness: Readiness
    violations: Callable[[], Awaitable[dict[str, int]]]
    """The auditor's count, made now."""
