"""`podium doctor`: the most likely problems, each with what mends it.

It works with the server running or not. What the server holds (the SQLite file) is asked of it over
HTTP; everything else is looked at from here, with the settings that a server would have. Nothing is
changed but a probe object, which is deleted again.
"""

from __future__ import annotations

from collections.abc import Sequence

from podium.app.doctor.machine import examine_machine
from podium.app.doctor.reach import examine_reach
from podium.app.doctor.report import Finding, Level
from podium.app.doctor.server import examine_server, find_server
from podium.app.doctor.stores import examine_stores
from podium.app.settings import Settings

__all__ = ["Finding", "Level", "examine"]


async def examine(settings: Settings, reach: Sequence[str] = ()) -> list[Finding]:
    """What is well and what is not, in the order in which to mend it."""
    server = await find_server(settings)
    return [
        *examine_machine(settings),
        *[finding async for finding in examine_stores(settings, server)],
        *examine_server(settings, server),
        *[finding async for finding in examine_reach(settings, reach)],
    ]
