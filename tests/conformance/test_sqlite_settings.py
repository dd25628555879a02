"""The settings that durability and speed rest on are really in force, on every connection."""

from __future__ import annotations

from pathlib import Path

import pytest

from podium.backends.sqlite.connection import VERSION_MIN, connect
from podium.kernel.clock import ManualClock

SETTINGS = {
    "journal_mode": "wal",
    "synchronous": 2,  # full
    "foreign_keys": 1,
    "trusted_schema": 0,
    "cache_size": -65_536,
    "temp_store": 2,  # memory
    "journal_size_limit": 67_108_864,
    "busy_timeout": 0,
}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_connection_has_its_setting(name: str, tmp_path: Path) -> None:
    db = connect(str(tmp_path / "podium.db"), ManualClock())
    assert db.execute(f"pragma {name}").fetchall() == [(SETTINGS[name],)]
    db.close()


def test_the_library_is_newer_than_the_bug_that_damages_files(tmp_path: Path) -> None:
    db = connect(str(tmp_path / "podium.db"), ManualClock())
    [(version,)] = db.execute("select sqlite_version()").fetchall()
    assert tuple(map(int, str(version).split("."))) >= VERSION_MIN
    db.close()
