"""How long a blob is what it is: created once, overwritten, deleted, expired."""

from __future__ import annotations

import asyncio
import hashlib

import pytest

from podium.kernel.blobs import Blob, Blobs
from podium.kernel.errors import Conflict, NotFound
from podium.testing.suites.blobs.shared import (
    LINGER,
    MIB,
    TEXT,
    BlobSuiteBase,
    Shelf,
    blobs_of,
    keys,
    leftovers,
    many,
    object_of,
    read,
    sent,
)
from podium.testing.worlds import SharedWorld, World


class LastingSuite(BlobSuiteBase):
    async def test_a_key_is_written_once(self, blobs: Blobs, shelf: Shelf) -> None:
        first = await blobs.put("k", sent(b"first"))
        with pytest.raises(Conflict) as refused:
            await blobs.put("k", sent(b"other"))
        assert refused.value.details["sha256"] == first.sha256
        assert await read(blobs, "k") == b"first"
        assert len(await shelf.lying()) == 1

    async def test_the_same_bytes_again_are_the_same_blob(
        self, world: World, blobs: Blobs, shelf: Shelf
    ) -> None:
        first = await blobs.put("k", sent(b"first"))
        await world.advance(60)
        assert await blobs.put("k", sent(b"fir", b"st")) == first
        assert len(await shelf.lying()) == 1

    @pytest.mark.parametrize("other", [b"firs", b"first!", b"", b"x" * 3 * MIB], ids=len)
    async def test_other_bytes_of_any_length_are_a_conflict(
        self, blobs: Blobs, other: bytes
    ) -> None:
        await blobs.put("k", sent(b"first"))
        with pytest.raises(Conflict):
            await blobs.put("k", sent(other))

    async def test_of_many_at_once_one_wins(self, world: World, blobs: Blobs, shelf: Shelf) -> None:
        calls = [blobs.put("k", sent(bytes([n]) * 9)) for n in range(6)]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        [won] = [answer for answer in answers if isinstance(answer, Blob)]
        assert sum(isinstance(answer, Conflict) for answer in answers) == 5
        assert await blobs.head("k") == won
        assert hashlib.sha256(await read(blobs, "k")).hexdigest() == won.sha256
        assert len(await shelf.lying()) == 1
        assert await leftovers(world) == 0

    async def test_two_at_once_with_the_same_bytes_get_one_blob(
        self, blobs: Blobs, shelf: Shelf
    ) -> None:
        first, second = await asyncio.gather(*(blobs.put("k", sent(TEXT)) for _ in range(2)))
        assert first == second
        assert len(await shelf.lying()) == 1

    async def test_an_overwritten_blob_is_the_new_one_and_who_was_reading_gets_the_old_one(
        self, world: World, blobs: Blobs, shelf: Shelf
    ) -> None:
        old = await blobs.put("k", many(6))
        download = await blobs.get("k")
        got = hashlib.sha256(await anext(download.chunks))
        new = await blobs.put("k", sent(b"new"), create_once=False, content_type="text/plain")
        await blobs.collect()
        async for chunk in download.chunks:
            got.update(chunk)
        assert got.hexdigest() == old.sha256
        assert await blobs.head("k") == new
        assert await read(blobs, "k") == b"new"

        await world.advance(LINGER + 1)
        await blobs.collect()
        assert await shelf.lying() == [await object_of(world, "k")]

    async def test_many_overwrites_at_once_end_with_one_whole_blob(
        self, world: World, blobs: Blobs, shelf: Shelf
    ) -> None:
        calls = [blobs.put("k", sent(bytes([n]) * 9), create_once=False) for n in range(6)]
        put = await asyncio.gather(*calls)
        assert await blobs.head("k") in put
        assert len(await read(blobs, "k")) == 9
        await world.advance(LINGER + 1)
        await blobs.collect()
        assert await shelf.lying() == [await object_of(world, "k")]

    # --- deleting and expiring -------------------------------------------------------------------

    async def test_a_deleted_blob_is_gone_at_once_and_its_bytes_after_a_while(
        self, world: World, blobs: Blobs, shelf: Shelf
    ) -> None:
        await blobs.put("k", many(6))
        download = await blobs.get("k")
        assert await blobs.delete("k") is True
        with pytest.raises(NotFound):
            await blobs.head("k")
        assert await keys(blobs) == []
        assert await blobs.delete("k") is False
        await blobs.collect()
        assert sum([len(chunk) async for chunk in download.chunks]) == 6 * MIB

        await world.advance(LINGER + 1)
        assert await blobs.collect() == 1
        assert await shelf.lying() == []
        assert await leftovers(world) == 0

    async def test_a_deleted_key_can_be_written_again(self, blobs: Blobs) -> None:
        await blobs.put("k", sent(b"first"))
        await blobs.delete("k")
        await blobs.put("k", sent(b"second"))
        assert await read(blobs, "k") == b"second"

    async def test_a_blob_lives_exactly_as_long_as_it_was_given(
        self, world: World, blobs: Blobs, shelf: Shelf
    ) -> None:
        put = await blobs.put("k", sent(TEXT), expire_seconds=100)
        assert put.expire_at is not None
        assert (put.expire_at - put.created_at).total_seconds() == pytest.approx(100, abs=0.1)
        await blobs.put("for-ever", sent(TEXT))
        await world.advance(90)
        await blobs.collect()
        assert await read(blobs, "k") == TEXT
        await world.advance(20)
        with pytest.raises(NotFound):
            await blobs.get("k")
        assert await keys(blobs) == ["for-ever"]
        assert await blobs.delete("k") is False
        await world.advance(LINGER + 1)
        await blobs.collect()
        assert await shelf.lying() == [await object_of(world, "for-ever")]

    async def test_a_key_whose_blob_has_expired_is_free(self, world: World, blobs: Blobs) -> None:
        await blobs.put("k", sent(b"first"), expire_seconds=100)
        await world.advance(101)
        put = await blobs.put("k", sent(b"second"))
        assert put.expire_at is None
        assert await read(blobs, "k") == b"second"

    async def test_the_janitor_takes_a_bounded_number_at_a_time(
        self, world: World, blobs: Blobs, shelf: Shelf
    ) -> None:
        for n in range(5):
            await blobs.put(f"k/{n}", sent(TEXT), expire_seconds=100)
        await world.advance(101)
        assert [await blobs.collect(2) for _ in range(3)] == [2, 2, 1]
        assert len(await shelf.lying()) == 5
        await world.advance(LINGER + 1)
        assert [await blobs.collect(2) for _ in range(4)] == [2, 2, 1, 0]
        assert await shelf.lying() == []

    async def test_bytes_are_not_removed_while_somebody_reads_them(
        self, world: World, blobs: Blobs, shelf: Shelf
    ) -> None:
        """However slowly: each chunk says that they are still wanted."""
        put = await blobs.put("k", many(12), expire_seconds=100)
        download = await blobs.get("k")
        await world.advance(101)
        got = hashlib.sha256()
        async for chunk in download.chunks:
            got.update(chunk)
            await blobs.collect()
            await world.advance(LINGER / 2)
        assert got.hexdigest() == put.sha256
        await world.advance(LINGER + 1)
        await blobs.collect()
        assert await shelf.lying() == []


class SharedBlobSuite:
    """For tables that several processes open at once."""

    @pytest.fixture
    async def both(self, world: SharedWorld, shelf: Shelf) -> tuple[Blobs, Blobs]:
        store = await world.another_store()
        there = Blobs(store, shelf.objects, ids=world.ids(), clock=world.clock)
        return blobs_of(world, shelf), there

    async def test_of_two_processes_one_creates(
        self, both: tuple[Blobs, Blobs], shelf: Shelf
    ) -> None:
        here, there = both
        for n in range(10):
            answers = await asyncio.gather(
                here.put(f"k/{n}", sent(b"here")),
                there.put(f"k/{n}", sent(b"there")),
                return_exceptions=True,
            )
            assert sorted(type(answer).__name__ for answer in answers) == ["Blob", "Conflict"]
            assert await read(here, f"k/{n}") == await read(there, f"k/{n}")
        assert len(await shelf.lying()) == 10

    async def test_two_janitors_share_the_work(
        self, world: SharedWorld, both: tuple[Blobs, Blobs], shelf: Shelf
    ) -> None:
        here, there = both
        for n in range(8):
            await here.put(f"k/{n}", sent(TEXT))
            await here.delete(f"k/{n}")
        await world.advance(LINGER + 1)
        assert sum(await asyncio.gather(here.collect(), there.collect())) == 8
        assert await shelf.lying() == []
