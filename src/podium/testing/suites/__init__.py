"""One suite per kernel contract; each backend takes on all of them.

`SUITES` are for every store. `SHARED_SUITES` are for stores that several processes open at once.
"""

from podium.testing.suites.bus import BusSuite
from podium.testing.suites.idempotency import IdempotencySuite
from podium.testing.suites.journal import JournalSuite, SharedJournalSuite
from podium.testing.suites.ownership import OwnershipSuite
from podium.testing.suites.store import SharedStoreSuite, StoreSuite
from podium.testing.suites.values import ValuesSuite
from podium.testing.suites.work import (
    EndingSuite,
    HoldingSuite,
    PuttingInSuite,
    SharedWorkSuite,
    SweepingSuite,
    TakingOutSuite,
)

SUITES = (
    StoreSuite,
    ValuesSuite,
    PuttingInSuite,
    TakingOutSuite,
    HoldingSuite,
    EndingSuite,
    SweepingSuite,
    BusSuite,
    JournalSuite,
    IdempotencySuite,
    OwnershipSuite,
)

SHARED_SUITES = (SharedStoreSuite, SharedWorkSuite, SharedJournalSuite)
