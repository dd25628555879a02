"""The embedded store: one file, one writer, no server."""

from podium.backends.sqlite.store import SQLiteStore

__all__ = ["SQLiteStore"]
