"""The crank: what runs by itself. It knows the kernel and no domain.

Every service does one round at a time (`tick`), the loop exists once, and the supervisor starts
them in order and stops them in the opposite one. A test calls `tick()` and moves the clock.
"""

from podium.engine.auditor import Auditor, Check
from podium.engine.consumer import BusConsumer, WorkConsumer
from podium.engine.janitor import Janitor
from podium.engine.loop import Service, keep_ticking
from podium.engine.supervisor import Part, Supervisor, Ticking
from podium.engine.sweeper import Sweeper

__all__ = [
    "Auditor",
    "BusConsumer",
    "Check",
    "Janitor",
    "Part",
    "Service",
    "Supervisor",
    "Sweeper",
    "Ticking",
    "WorkConsumer",
    "keep_ticking",
]
