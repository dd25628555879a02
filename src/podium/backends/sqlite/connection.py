"""A connection with our settings. What each is for stands beside it."""

from __future__ import annotations

import apsw

from podium.kernel.clock import Clock, to_micros

VERSION_MIN = (3, 51, 3)
"""Before this, a checkpoint at the wrong moment could damage the file (the WAL-reset bug)."""


def connect(path: str, clock: Clock, *, create: bool = True) -> apsw.Connection:
    version = tuple(int(part) for part in apsw.sqlite_lib_version().split("."))
    if version < VERSION_MIN:
        raise RuntimeError(
            f"SQLite {apsw.sqlite_lib_version()} can damage a database; install a newer apsw"
        )
    flags = apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if create else 0)
    db = apsw.Connection(path, flags, statementcachesize=256)
    # The loop waits outside SQLite, not inside it (see SQLiteStore._wait_for_lock).
    db.set_busy_timeout(0)
    # On a table with partial indexes SQLite would look at each bound value again, and compile the
    # statement anew on every call: a claim takes 116 µs then instead of 10.
    db.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)

    def podium_now(*_: apsw.SQLiteValue) -> int:
        return to_micros(clock.now())

    db.create_scalar_function("podium_now", podium_now, 0, flags=apsw.SQLITE_INNOCUOUS)
    db.execute(
        """
        pragma journal_mode = wal;        -- readers and the writer do not wait for each other
        pragma synchronous = full;        -- what is acknowledged survives a power cut
        pragma foreign_keys = on;
        pragma trusted_schema = off;      -- a crafted file cannot run functions of ours
        pragma cache_size = -65536;       -- 64 MiB, so that the hot indexes stay in memory
        pragma temp_store = memory;
        pragma journal_size_limit = 67108864;
        """
    ).fetchall()  # a statement that returns a row waits until it is read, and so do all behind it
    return db


def restart_log(db: apsw.Connection) -> None:
    """Copy the whole log into the database, sync it, and begin the log anew; raises if any fails."""
    for busy, *_ in db.execute("pragma wal_checkpoint(truncate)"):
        if busy:
            raise apsw.BusyError("a reader keeps the log from being restarted")
