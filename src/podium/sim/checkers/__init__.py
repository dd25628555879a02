"""What must hold, written a second time and from the outside.

A checker sees the rows that each transaction changed, at the instant it changed them, with who
asked and what was presented. It keeps its own picture of the tables and its own list of legal
moves; it shares no rule with the kernel. The first thing that must not be stops the world.
"""

from podium.sim.checkers.bus import BusChecker
from podium.sim.checkers.ownership import OwnershipChecker
from podium.sim.checkers.work import Item, WorkChecker

__all__ = ["BusChecker", "Item", "OwnershipChecker", "WorkChecker"]
