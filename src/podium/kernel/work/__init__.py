"""Work: the leased queue. What is *executed* is a row here, on every bus.

    enqueue ──► scheduled ──► ready ──► leased ──► running ──► done
                    ▲           ▲          │          │   └──► dead (a dead letter: replay)
                    └───────────┴──────────┴──────────┘

An item is claimed by one holder at a time, under an epoch that grows with every grant. Whoever
holds it starts it ("is it still current?"), renews, and completes or fails it, presenting the epoch
each time; a holder that was presumed dead finds its epoch refused. Waiting in the queue, running,
and silence have separate limits. Each row says when somebody must look at it next (`wake_at`), so
nothing is ever forgotten: `sweep` settles what is due.

Every operation is a transaction body that takes and returns lists, with one verdict per row:

    verdicts = await store.write(work.complete, [Done(lease), ...])

so that a domain can complete an item and record its result in one transaction. The proof is
`podium.testing.suites.work`, the simulator, and the kill tests.
"""

from podium.kernel.work.machine import ITEM, State
from podium.kernel.work.model import (
    Claimed,
    DeadLetter,
    Done,
    Enqueued,
    Failure,
    Lease,
    NewItem,
    Offered,
    Renewal,
    Verdict,
)
from podium.kernel.work.queue import Work
from podium.kernel.work.sweep import WorkSweep

__all__ = [
    "ITEM",
    "Claimed",
    "DeadLetter",
    "Done",
    "Enqueued",
    "Failure",
    "Lease",
    "NewItem",
    "Offered",
    "Renewal",
    "State",
    "Verdict",
    "Work",
    "WorkSweep",
]
