"""The desk: what a runner needs of Podium, and how it says it.

Lists in, lists out, in the models of the contract. A runner does not know where its desk stands: a
`Client` is one over HTTP, a `ChannelDesk` is one over the socket to the parent process, and the
server's own work API is one by call. One suite holds for all of them (`podium.testing.suites.desk`).
"""

from __future__ import annotations

from typing import Protocol

from podium.contracts.work import Claim, Claimed, Enqueue, Enqueued, Grants, Report, Verdicts

ENQUEUE, CLAIM, START, RENEW = "enqueue", "claim", "start", "renew"
RELEASE, REPORT = "release", "report"


class WorkDesk(Protocol):
    async def enqueue(self, body: Enqueue, /) -> Enqueued:
        """Hand in items."""

    async def claim(self, body: Claim, /) -> Claimed:
        """Lease items, the most urgent first; wait up to `wait_seconds` for some."""

    async def start(self, body: Grants, /) -> Verdicts:
        """Begin what was claimed. Whoever does not get `ok` must not begin."""

    async def renew(self, body: Grants, /) -> Verdicts:
        """Stay the holder. Anything but `ok`: stop, it is not yours any more."""

    async def release(self, body: Grants, /) -> Verdicts:
        """Give items back as if nothing had happened."""

    async def report(self, body: Report, /) -> Verdicts:
        """How it went: verdicts of `done` first, then of `failed`."""
