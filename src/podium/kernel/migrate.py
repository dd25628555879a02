"""Migrations: numbered files, the same number and name in every dialect, each applied once.

    kernel/migrations/0001_kernel.sqlite.sql
    kernel/migrations/0001_kernel.postgres.sql

Each room has its own number line; rooms are migrated in the order given, the kernel first. All
that is missing is applied in one transaction, under a lock, so that ten processes that start
together migrate once, and a migration that fails leaves the database as it was.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from podium.kernel.errors import SchemaMismatch
from podium.kernel.store import Store, Tx

FILE = re.compile(r"(?P<number>\d{4})_(?P<name>[a-z0-9_]+)\.(?P<dialect>[a-z]+)\.sql")


@dataclass(frozen=True, slots=True)
class Room:
    name: str
    folder: Path


@dataclass(frozen=True, slots=True)
class Migration:
    room: str
    number: int
    name: str
    text: str

    def __str__(self) -> str:
        return f"{self.room} {self.number:04d}_{self.name}"


KERNEL = Room("kernel", Path(__file__).parent / "migrations")
SQL = Path(__file__).parent / "sql"


async def migrate(store: Store, rooms: list[Room]) -> list[Migration]:
    """Bring the database up to date, and say what was applied."""
    known = [m for room in rooms for m in migrations(room, store.queries.dialect)]
    return await store.write(_migrate, known)


async def check(store: Store, rooms: list[Room]) -> None:
    """SchemaMismatch, saying what to do, unless the database is exactly what we know."""
    known = [m for room in rooms for m in migrations(room, store.queries.dialect)]
    missing = await store.write(_missing, known)
    if missing:
        raise SchemaMismatch(f"the database lacks {missing[0]}; run: podium migrate")


async def _migrate(tx: Tx, known: list[Migration]) -> list[Migration]:
    missing = await _missing(tx, known)
    for migration in missing:
        await tx.script(migration.text)
        await tx.rows(
            "migrate.record",
            room=migration.room,
            number=migration.number,
            name=migration.name,
        )
    return missing


async def _missing(tx: Tx, known: list[Migration]) -> list[Migration]:
    await tx.rows("migrate.take_your_time")
    await tx.rows("migrate.lock")
    await tx.rows("migrate.create")
    applied = {(row.room, row.number): row.name for row in await tx.rows("migrate.applied")}
    by_key = {(m.room, m.number): m for m in known}
    rooms = {m.room for m in known}
    for (room, number), name in applied.items():
        ours = by_key.get((room, number))
        if ours is None and room in rooms:
            newest = max(m.number for m in known if m.room == room)
            raise SchemaMismatch(
                f"this database was made by a newer Podium: it has {room} {number:04d}_{name}, "
                f"this program knows {room} up to {newest:04d}; upgrade the program"
            )
        if ours is not None and ours.name != name:
            raise SchemaMismatch(
                f"this database has {room} {number:04d}_{name} where this program has {ours}; "
                "they do not come from the same Podium"
            )
    return [m for m in known if (m.room, m.number) not in applied]


def migrations(room: Room, dialect: str) -> list[Migration]:
    found = [
        Migration(room.name, int(match["number"]), match["name"], path.read_text("utf-8"))
        for path in sorted(room.folder.glob("*.sql"))
        if (match := FILE.fullmatch(path.name)) and match["dialect"] == dialect
    ]
    if [m.number for m in found] != list(range(1, len(found) + 1)):
        raise ValueError(f"{room.name}: migrations are numbered 1, 2, 3 …; found {found}")
    return found
