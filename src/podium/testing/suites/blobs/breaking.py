"""What fails leaves nothing, and what is broken is seen to be."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from podium.contracts.errors import Code
from podium.kernel.blobs import BlobBroken, Blobs, ByteRange, records
from podium.kernel.errors import Conflict, TooLarge
from podium.testing.suites.blobs.shared import (
    HOUR,
    MIB,
    TEXT,
    BlobSuiteBase,
    Shelf,
    Stop,
    blobs_of,
    broken_off,
    collect,
    keys,
    leftovers,
    many,
    object_of,
    replace_object,
    sent,
)
from podium.testing.worlds import World


class BreakingSuite(BlobSuiteBase):
    async def test_too_many_bytes_leave_nothing(self, world: World, shelf: Shelf) -> None:
        blobs = blobs_of(world, shelf, bytes_max=9 * MIB)
        with pytest.raises(TooLarge) as refused:
            await blobs.put("k", many(10))
        assert refused.value.code == Code.PAYLOAD_TOO_LARGE
        assert await keys(blobs) == []
        assert await shelf.lying() == []
        assert await leftovers(world) == 0
        assert (await blobs.put("k", many(9))).size_bytes == 9 * MIB

    @pytest.mark.parametrize("count", [0, 1, 20])
    async def test_a_sender_that_gives_up_leaves_nothing(
        self, world: World, blobs: Blobs, shelf: Shelf, count: int
    ) -> None:
        with pytest.raises(Stop):
            await blobs.put("k", broken_off([b"x" * MIB] * count))
        assert await keys(blobs) == []
        assert await shelf.lying() == []
        assert await leftovers(world) == 0

    async def test_a_put_that_is_cancelled_leaves_nothing(
        self, world: World, blobs: Blobs, shelf: Shelf
    ) -> None:
        far = asyncio.Event()

        async def endless() -> AsyncIterator[bytes]:
            async for chunk in many(10):
                yield chunk
            far.set()
            await asyncio.Event().wait()

        putting = asyncio.create_task(blobs.put("k", endless()))
        await asyncio.wait_for(far.wait(), 30)
        putting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await putting
        assert await keys(blobs) == []
        assert await shelf.lying() == []
        assert await leftovers(world) == 0

    async def test_an_upload_that_nobody_finished_is_invisible_and_removed_within_a_day(
        self, world: World, blobs: Blobs, shelf: Shelf
    ) -> None:
        """As a crash between the object and its row would leave it."""
        await world.store.write(records.begin, "AA/crashed")
        await shelf.objects.put("AA/crashed", sent(TEXT), content_type="text/plain")
        assert await keys(blobs) == []
        await world.advance(19 * HOUR)
        await blobs.collect()
        assert await shelf.lying() == ["AA/crashed"]
        await world.advance(2 * HOUR)
        await blobs.collect()
        assert await shelf.lying() == []
        assert await leftovers(world) == 0

    async def test_what_was_broken_off_in_the_middle_is_removed_within_a_day(
        self, world: World, blobs: Blobs, shelf: Shelf
    ) -> None:
        await world.store.write(records.begin, "AA/half")
        with pytest.raises(Stop):
            await shelf.objects.put(
                "AA/half", broken_off([b"x" * MIB] * 20), content_type="text/plain"
            )
        await world.advance(21 * HOUR)
        await blobs.collect()
        assert await shelf.lying() == []
        assert await leftovers(world) == 0

    @pytest.mark.parametrize("far", ["claimed", "removed"])
    async def test_an_upload_that_was_given_up_in_between_does_not_become_a_blob(
        self, world: World, blobs: Blobs, shelf: Shelf, far: str
    ) -> None:
        async def slow() -> AsyncIterator[bytes]:
            yield TEXT
            await world.advance(21 * HOUR)
            if far == "claimed":
                await world.store.write(records.claim, 10)
            else:
                await blobs.collect()
            yield TEXT

        with pytest.raises(Conflict):
            await blobs.put("k", slow())
        assert await keys(blobs) == []
        assert await shelf.lying() == []
        assert await leftovers(world) == 0

    # --- whole or visibly broken -----------------------------------------------------------------

    async def test_a_truncated_object_is_noticed_before_the_first_byte(
        self, world: World, blobs: Blobs, shelf: Shelf
    ) -> None:
        await blobs.put("k", sent(TEXT))
        await replace_object(shelf, await object_of(world, "k"), TEXT[:-1])
        for range in (None, ByteRange(0, 5)):
            with pytest.raises(BlobBroken):
                await blobs.get("k", range)

    async def test_an_object_that_is_gone_is_noticed(
        self, world: World, blobs: Blobs, shelf: Shelf
    ) -> None:
        await blobs.put("k", sent(TEXT))
        await shelf.objects.delete(await object_of(world, "k"))
        with pytest.raises(BlobBroken):
            await blobs.get("k")

    async def test_an_object_that_goes_while_it_is_read_is_noticed(
        self, world: World, blobs: Blobs, shelf: Shelf
    ) -> None:
        await blobs.put("k", many(6))
        download = await blobs.get("k")
        await shelf.objects.delete(await object_of(world, "k"))
        with pytest.raises(BlobBroken):
            await collect(download, [])

    @pytest.mark.parametrize("size", [len(TEXT), 6 * MIB])
    async def test_other_bytes_of_the_same_length_never_come_out_whole(
        self, world: World, blobs: Blobs, shelf: Shelf, size: int
    ) -> None:
        await blobs.put("k", sent(b"a" * size))
        await replace_object(shelf, await object_of(world, "k"), b"a" * (size - 1), b"b")
        came: list[bytes] = []
        download = await blobs.get("k")
        with pytest.raises(BlobBroken):
            await collect(download, came)
        assert sum(map(len, came)) < size
