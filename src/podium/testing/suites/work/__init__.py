"""What any store must promise about the leased queue."""

from podium.testing.suites.work.ending import EndingSuite
from podium.testing.suites.work.holding import HoldingSuite
from podium.testing.suites.work.putting import PuttingInSuite
from podium.testing.suites.work.shared import SharedWorkSuite
from podium.testing.suites.work.sweeping import SweepingSuite
from podium.testing.suites.work.taking import TakingOutSuite

__all__ = [
    "EndingSuite",
    "HoldingSuite",
    "PuttingInSuite",
    "SharedWorkSuite",
    "SweepingSuite",
    "TakingOutSuite",
]
