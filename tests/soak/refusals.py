"""Writes that were refused, in what a process said."""

from __future__ import annotations

from tests.kill.history import History, Record

WRITES = ("tick", "submit")


def refusal(history: History, n: int = 0) -> Record | None:
    """The n-th refused write, or one whose outcome could not be found out."""
    refused = [
        record
        for record in list(history.records)
        if record.what in WRITES and record.phase in ("fail", "unknown")
    ]
    return refused[n] if len(refused) > n else None
