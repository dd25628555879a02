"""Who may come in, how often, and the record of what they did: tokens, limits, audit."""

from pathlib import Path

from podium.kernel.migrate import Room

ROOM = Room("access", Path(__file__).parent / "migrations")
SQL = Path(__file__).parent / "sql"
