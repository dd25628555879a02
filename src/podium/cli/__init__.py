"""The front door: starts the house, or calls it.

A command's module is imported when the command is called, so that `podium --help` costs nothing that
it does not show. What starts the house imports `podium.app`; what calls it goes over HTTP like anybody.
"""

from podium.cli.front import main

__all__ = ["main"]
