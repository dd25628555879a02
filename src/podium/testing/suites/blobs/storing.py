"""What is put is got, as it was and where it was."""

from __future__ import annotations

import hashlib

import pytest

from podium.kernel.blobs import Blob, Blobs, ByteRange
from podium.kernel.errors import Invalid, NotFound
from podium.testing.suites.blobs.shared import (
    MIB,
    TEXT,
    BlobSuiteBase,
    PeakMemory,
    Shelf,
    keys,
    many,
    read,
    sent,
)


class StoringSuite(BlobSuiteBase):
    async def test_what_was_put_is_got(self, blobs: Blobs) -> None:
        put = await blobs.put(
            "exports/1/night.txt", sent(TEXT[:7], b"", TEXT[7:]), content_type="text/plain"
        )
        assert put == Blob(
            key="exports/1/night.txt",
            size_bytes=len(TEXT),
            sha256=hashlib.sha256(TEXT).hexdigest(),
            content_type="text/plain",
            created_at=put.created_at,
            expire_at=None,
        )
        assert await blobs.head("exports/1/night.txt") == put
        download = await blobs.get("exports/1/night.txt")
        assert (download.blob, download.start, download.end) == (put, 0, len(TEXT))
        assert await read(blobs, "exports/1/night.txt") == TEXT

    async def test_a_blob_may_be_empty(self, blobs: Blobs) -> None:
        put = await blobs.put("empty", sent())
        assert (put.size_bytes, put.content_type) == (0, "application/octet-stream")
        assert await read(blobs, "empty") == b""

    @pytest.mark.parametrize("size", [MIB, 8 * MIB - 1, 8 * MIB, 8 * MIB + 1, 17 * MIB])
    async def test_sizes_around_a_part_come_back_whole(self, blobs: Blobs, size: int) -> None:
        whole = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
        put = await blobs.put("big", sent(whole[:100], whole[100:]))
        assert put.sha256 == hashlib.sha256(whole).hexdigest()
        assert await read(blobs, "big") == whole
        assert await read(blobs, "big", ByteRange(size - 10)) == whole[-10:]

    @pytest.mark.parametrize(
        ("range", "expected"),
        [
            (ByteRange(0, 1), TEXT[:1]),
            (ByteRange(3, 9), TEXT[3:9]),
            (ByteRange(50), TEXT[50:]),
            (ByteRange(0, len(TEXT)), TEXT),
            (ByteRange(50, 10_000), TEXT[50:]),
        ],
    )
    async def test_a_range_is_exactly_that(
        self, blobs: Blobs, range: ByteRange, expected: bytes
    ) -> None:
        await blobs.put("k", sent(TEXT))
        assert await read(blobs, "k", range) == expected

    @pytest.mark.parametrize(
        "range", [ByteRange(len(TEXT)), ByteRange(5, 5), ByteRange(9, 3), ByteRange(-1)]
    )
    async def test_a_range_without_a_byte_is_refused(self, blobs: Blobs, range: ByteRange) -> None:
        await blobs.put("k", sent(TEXT))
        with pytest.raises(Invalid) as refused:
            await blobs.get("k", range)
        assert refused.value.details["field"] == "range"

    async def test_what_is_not_there_is_not_found(self, blobs: Blobs) -> None:
        for asking in (blobs.head("no"), blobs.get("no"), blobs.presign("no", seconds=60)):
            with pytest.raises(NotFound):
                await asking
        assert await blobs.delete("no") is False

    async def test_a_bad_key_is_refused_before_a_byte_is_read(
        self, blobs: Blobs, shelf: Shelf
    ) -> None:
        source = sent(TEXT)
        with pytest.raises(Invalid) as refused:
            await blobs.put("a/../b", source)
        assert refused.value.details["field"] == "key"
        assert await anext(source) == TEXT
        assert await shelf.lying() == []

    @pytest.mark.parametrize(
        "settings",
        [
            {"content_type": "text/plain\r\nSet-Cookie: a=b"},
            {"content_type": "text"},
            {"expire_seconds": 0},
            {"expire_seconds": float("nan")},
        ],
        ids=str,
    )
    async def test_odd_settings_are_refused(
        self, blobs: Blobs, settings: dict[str, object]
    ) -> None:
        with pytest.raises(Invalid) as refused:
            await blobs.put("k", sent(TEXT), **settings)  # type: ignore[arg-type]
        assert refused.value.details["field"] in settings

    async def test_a_large_blob_streams_in_flat_memory(self, blobs: Blobs) -> None:
        await blobs.put("warm", many(12))
        await read(blobs, "warm")
        memory = PeakMemory()
        memory.mark()
        put = await blobs.put("large", many(96))
        assert put.size_bytes == 96 * MIB
        sha256, size = hashlib.sha256(), 0
        async for chunk in (await blobs.get("large")).chunks:
            sha256.update(chunk)
            size += len(chunk)
        assert (sha256.hexdigest(), size) == (put.sha256, put.size_bytes)
        assert memory.grown_bytes() < 64 * MIB

    # --- listing ---------------------------------------------------------------------------------

    async def test_blobs_are_listed_by_key_and_in_pages(self, blobs: Blobs) -> None:
        for key in ("b/2", "a/1", "b/10", "b~", "b", "B/1", "b/1.xml"):
            await blobs.put(key, sent(b""))
        assert await keys(blobs) == ["B/1", "a/1", "b", "b/1.xml", "b/10", "b/2", "b~"]
        assert await keys(blobs, "b/") == ["b/1.xml", "b/10", "b/2"]
        assert await keys(blobs, "b/1") == ["b/1.xml", "b/10"]
        first = await blobs.list("b", n=2)
        rest = await blobs.list("b", after=first[-1].key, n=2)
        assert [blob.key for blob in (*first, *rest)] == ["b", "b/1.xml", "b/10", "b/2"]
        assert await keys(blobs, "c") == []

    @pytest.mark.parametrize(
        ("field", "asked"),
        [
            ("prefix", {"prefix": "../"}),
            ("after", {"after": "a//b"}),
            ("n", {"n": 0}),
            ("n", {"n": 2_001}),
        ],
    )
    async def test_an_odd_listing_is_refused(
        self, blobs: Blobs, field: str, asked: dict[str, object]
    ) -> None:
        with pytest.raises(Invalid) as refused:
            await blobs.list(**asked)  # type: ignore[arg-type]
        assert refused.value.details["field"] == field
