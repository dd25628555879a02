"""Migrations: each once, in order, all or nothing, and no database that we do not know."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from podium.contracts.errors import Code
from podium.kernel.errors import SchemaMismatch
from podium.kernel.migrate import KERNEL, Room, check, migrate, migrations
from podium.kernel.queries import POSTGRES, SQLITE
from podium.kernel.store import Row, Store, Tx
from tests.worlds import sqlite_world


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    async with sqlite_world(":memory:") as world:
        yield world.store


@pytest.fixture
def room(tmp_path: Path) -> Room:
    room = Room("notes", tmp_path)
    write(room, 1, "first", "create table first (id text);")
    write(room, 2, "second", "create table second (id text); insert into first values ('x');")
    return room


def write(room: Room, number: int, name: str, text: str) -> None:
    for dialect in (SQLITE, POSTGRES):
        (room.folder / f"{number:04d}_{name}.{dialect}.sql").write_text(text)


async def tables(store: Store) -> set[str]:
    store.queries.add("test.tables", "select name from sqlite_master where type = 'table'")

    async def body(tx: Tx) -> list[Row]:
        return await tx.rows("test.tables")

    return {row.name for row in await store.read(body)}


async def test_what_is_missing_is_applied_in_order_and_once(store: Store, room: Room) -> None:
    applied = await migrate(store, [KERNEL, room])
    assert [str(each) for each in applied] == ["notes 0001_first", "notes 0002_second"]
    assert await migrate(store, [KERNEL, room]) == []
    write(room, 3, "third", "create table third (id text);")
    assert [each.number for each in await migrate(store, [KERNEL, room])] == [3]


async def test_a_migration_that_fails_leaves_the_database_as_it_was(
    store: Store, room: Room
) -> None:
    write(room, 3, "third", "create table third (id text); insert into nowhere values (1);")
    before = await tables(store)
    with pytest.raises(Exception, match="nowhere"):
        await migrate(store, [room])
    assert await tables(store) == before
    write(room, 3, "third", "create table third (id text);")
    assert len(await migrate(store, [room])) == 3


async def test_a_database_of_a_newer_version_is_refused_in_clear_words(
    store: Store, room: Room, tmp_path: Path
) -> None:
    await migrate(store, [room])
    for old in room.folder.glob("0002*"):
        old.unlink()
    for call in (migrate, check):
        with pytest.raises(SchemaMismatch) as refused:
            await call(store, [room])
        assert refused.value.code == Code.SERVICE_UNAVAILABLE
        assert "0002_second" in str(refused.value)
        assert "upgrade the program" in str(refused.value)


async def test_another_name_under_a_known_number_is_refused(store: Store, room: Room) -> None:
    await migrate(store, [room])
    for old in list(room.folder.glob("0002*")):
        old.rename(old.with_name(old.name.replace("second", "other")))
    with pytest.raises(SchemaMismatch, match="0002_second where this program has"):
        await migrate(store, [room])


async def test_rooms_that_we_do_not_migrate_are_left_alone(store: Store, room: Room) -> None:
    await migrate(store, [room])
    assert await migrate(store, [KERNEL]) == []
    await check(store, [KERNEL])


async def test_a_database_that_lacks_something_is_told_what_to_do(store: Store, room: Room) -> None:
    with pytest.raises(SchemaMismatch, match=r"lacks notes 0001_first; run: podium migrate"):
        await check(store, [KERNEL, room])
    assert "first" not in await tables(store)


def test_a_gap_in_the_numbers_is_refused(room: Room) -> None:
    write(room, 4, "fourth", "select 1;")
    with pytest.raises(ValueError, match="numbered 1, 2, 3"):
        migrations(room, SQLITE)


def test_files_that_are_no_migrations_are_passed_over(room: Room) -> None:
    (room.folder / "notes.sql").write_text("")
    (room.folder / "0001_First.sqlite.sql").write_text("")
    assert [each.name for each in migrations(room, SQLITE)] == ["first", "second"]


def test_both_dialects_have_the_same_numbers_and_names() -> None:
    def names(dialect: str) -> list[str]:
        return [str(each) for each in migrations(KERNEL, dialect)]

    assert names(SQLITE) == names(POSTGRES) != []
