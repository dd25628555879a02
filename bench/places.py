"""Where a measure happens: a fresh database on the run's one PostgreSQL, or a fresh SQLite file."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from types import MappingProxyType

import psycopg

from podium.testing import servers

POSTGRES = "PostgreSQL"
SQLITE = "SQLite"

# What an operator of a small server would set. Everything that makes a commit durable stays on.
SETTINGS: Mapping[str, str] = MappingProxyType(
    {
        "fsync": "on",
        "synchronous_commit": "on",
        "full_page_writes": "on",
        "shared_buffers": "1GB",
        "max_wal_size": "8GB",
        "checkpoint_timeout": "15min",
        "autovacuum": "on",
    }
)


class Places:
    def __init__(self, server: servers.Postgres, folder: Path) -> None:
        self.server = server
        self.folder = folder
        self._numbers = count(1)

    @contextmanager
    def fresh(self, store: str) -> Iterator[str]:
        """An empty place, as a URL or a path; it is removed afterwards."""
        name = f"bench_{next(self._numbers)}"
        if store == SQLITE:
            folder = self.folder / name
            folder.mkdir()
            try:
                yield str(folder / "bench.db")
            finally:
                shutil.rmtree(folder, ignore_errors=True)
            return
        self._admin(f"create database {name}")
        try:
            yield self.server.url_of(name)
        finally:
            self._admin(f"drop database {name} with (force)")
            # What one contestant left to be written must not slow the next one.
            self._admin("checkpoint")

    def _admin(self, statement: str) -> None:
        with psycopg.connect(self.server.url, autocommit=True) as connection:
            connection.execute(statement.encode())


@contextmanager
def places() -> Iterator[Places]:
    folder = Path(tempfile.mkdtemp(prefix="podium-bench-"))
    try:
        with servers.postgres(fsync=True, settings=SETTINGS) as server:
            yield Places(server, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def is_postgres(at: str) -> bool:
    return at.startswith("postgresql://")
