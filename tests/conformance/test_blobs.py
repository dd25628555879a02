"""Blobs in a folder and in a real bucket, with their table on SQLite and on PostgreSQL."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import signal
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from podium.backends.objectstore import open_objects
from podium.backends.objectstore.address import BucketAddress, Credentials
from podium.backends.objectstore.uploads import Uploads, signed
from podium.kernel.blobs import Blobs, Objects, records
from podium.kernel.errors import Unavailable
from podium.testing.object_server import ObjectServer, object_server
from podium.testing.suites.blobs import BlobSuite, SharedBlobSuite
from podium.testing.suites.blobs.shared import (
    HOUR,
    LINGER,
    MIB,
    TEXT,
    Shelf,
    blobs_of,
    keys,
    leftovers,
    many,
    object_of,
    read,
    sent,
)
from podium.testing.worlds import World
from tests.worlds import PostgresWorld, SQLiteWorld, postgres_world, sqlite_world

# In one process, so that the module's server is made once.
pytestmark = pytest.mark.xdist_group("blobs")

BUCKET = "blobs-of-tests"
PREFIXES = itertools.count()


class FolderShelf(Shelf):
    def __init__(self, root: Path) -> None:
        self.root = root
        self.objects = open_objects(str(root))

    async def lying(self) -> list[str]:
        files = [path for path in self.root.rglob("*") if path.is_file()]
        return sorted(str(path.relative_to(self.root)) for path in files)


class BucketShelf(Shelf):
    def __init__(self, server: ObjectServer) -> None:
        self.server = server
        self.prefix = f"t{next(PREFIXES)}/"
        self.objects = self.open_with(server.secret_access_key)

    def open_with(self, secret: str) -> Objects:
        return open_objects(
            self.server.url_of(BUCKET, self.prefix),
            access_key_id=self.server.access_key_id,
            secret_access_key=secret,
        )

    async def lying(self) -> list[str]:
        listed = await self.ask("list-type=2", "Contents")
        unfinished = await self.ask("uploads=", "Upload")
        return sorted([*listed, *(f"{name} (unfinished)" for name in unfinished)])

    async def ask(self, query: str, element: str) -> list[str]:
        """By hand, so that it is no code under test that says what lies there."""
        prefix = self.prefix.replace("/", "%2F")
        parameters = "&".join(sorted([query, f"prefix={prefix}"]))
        url = f"{self.server.endpoint}/{BUCKET}?{parameters}"
        async with httpx.AsyncClient() as client:
            answer = await client.get(url, headers=signature("GET", url, self.server))
        assert answer.status_code == 200, answer.text
        found = [part.split("</Key>")[0] for part in answer.text.split("<Key>")[1:]]
        assert answer.text.count(f"<{element}>") == len(found)
        return [name.removeprefix(self.prefix) for name in found]


def signature(method: str, url: str, server: ObjectServer) -> dict[str, str]:
    credentials = Credentials(server.access_key_id, server.secret_access_key)
    return signed(method, url, "us-east-1", credentials, datetime.now(UTC))


@pytest.fixture(scope="module")
def s3() -> Iterator[ObjectServer]:
    with object_server() as server:
        url = f"{server.endpoint}/{BUCKET}"
        assert httpx.put(url, headers=signature("PUT", url, server)).status_code == 200
        yield server


@pytest.fixture
def running_s3(s3: ObjectServer) -> ObjectServer:
    """Running, whatever the test before did to it."""
    if not s3.is_running:
        s3.start()
    return s3


class OnSQLite:
    @pytest.fixture
    async def world(self, tmp_path: Path) -> AsyncIterator[SQLiteWorld]:
        async with sqlite_world(tmp_path / "podium.db") as world:
            yield world


class OnPostgres:
    @pytest.fixture
    async def world(self, migrated_url: str) -> AsyncIterator[PostgresWorld]:
        async with postgres_world(migrated_url) as world:
            yield world


class InAFolder:
    @pytest.fixture
    async def shelf(self, tmp_path: Path) -> AsyncIterator[FolderShelf]:
        shelf = FolderShelf(tmp_path / "blobs")
        await shelf.objects.open()
        yield shelf
        await shelf.objects.close()


class InABucket:
    @pytest.fixture
    async def shelf(self, running_s3: ObjectServer) -> AsyncIterator[BucketShelf]:
        shelf = BucketShelf(running_s3)
        await shelf.objects.open()
        yield shelf
        await shelf.objects.close()


class TestInAFolder(OnSQLite, InAFolder, BlobSuite):
    async def test_nobody_else_can_read_what_is_in_it(
        self, world: World, shelf: FolderShelf
    ) -> None:
        await blobs_of(world, shelf).put("k", many(9))
        modes = {
            path.relative_to(shelf.root).as_posix(): stat.S_IMODE(path.stat().st_mode)
            for path in [shelf.root, *shelf.root.rglob("*")]
        }
        name = await object_of(world, "k")
        assert modes == {".": 0o700, name.split("/")[0]: 0o700, name: 0o600}

    async def test_the_file_and_the_folders_that_lead_to_it_are_on_the_disk_before_it_is_a_blob(
        self, world: World, shelf: FolderShelf, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        synced: list[tuple[str, int]] = []
        real = os.fsync

        def fsync(descriptor: int) -> None:
            path = Path(f"/proc/self/fd/{descriptor}").readlink()
            synced.append((path.relative_to(shelf.root).as_posix(), path.stat().st_size))
            real(descriptor)

        monkeypatch.setattr(os, "fsync", fsync)
        await blobs_of(world, shelf).put("k", many(9))
        name = await object_of(world, "k")
        assert (name, 9 * MIB) in synced
        assert [path for path, _ in synced] == [name, name.split("/")[0], "."]

    async def test_what_a_killed_process_was_writing_is_removed(
        self, world: World, shelf: FolderShelf
    ) -> None:
        await world.store.write(records.begin, "AA/killed")
        child = subprocess.Popen(
            [sys.executable, "-c", KILLED, str(shelf.root)], stdout=subprocess.PIPE
        )
        assert child.stdout is not None
        with child.stdout as out:
            assert out.readline() == b"half\n"
            child.send_signal(signal.SIGKILL)
            child.wait(30)
        assert await shelf.lying() == ["AA/killed#1"]
        await world.advance(21 * HOUR)
        await blobs_of(world, shelf).collect()
        assert await shelf.lying() == []
        assert await leftovers(world) == 0

    async def test_a_folder_that_cannot_be_written_says_why(
        self, world: World, shelf: FolderShelf
    ) -> None:
        shelf.root.rmdir()
        shelf.root.write_text("a file")
        with pytest.raises(Unavailable, match="Not a directory"):
            await blobs_of(world, shelf).put("k", sent(TEXT))
        with pytest.raises(Unavailable, match="File exists"):
            await open_objects(str(shelf.root)).open()

    async def test_a_folder_signs_no_urls(self, world: World, shelf: FolderShelf) -> None:
        blobs = blobs_of(world, shelf)
        await blobs.put("k", sent(TEXT))
        assert await blobs.presign("k", seconds=60) is None


KILLED = """
import asyncio, sys
from podium.backends.objectstore import open_objects

async def half():
    for _ in range(20):
        yield b"x" * 1024 * 1024
    print("half", flush=True)
    await asyncio.Event().wait()

async def main():
    objects = open_objects(sys.argv[1])
    await objects.open()
    await objects.put("AA/killed", half(), content_type="text/plain")

asyncio.run(main())
"""


class TestInABucket(OnSQLite, InABucket, BlobSuite):
    async def test_a_server_that_dies_under_a_put_leaves_no_blob_and_works_again_afterwards(
        self, world: World, shelf: BucketShelf
    ) -> None:
        blobs = blobs_of(world, shelf)

        async def until_it_dies() -> AsyncIterator[bytes]:
            async for chunk in many(10):
                yield chunk
            shelf.server.kill()
            async for chunk in many(30):
                yield chunk

        with pytest.raises(Unavailable, match="check that it runs"):
            await blobs.put("k", until_it_dies())
        assert await keys(blobs) == []
        with pytest.raises(Unavailable):
            await blobs.put("small", sent(TEXT))

        shelf.server.start()
        await blobs.put("k", sent(TEXT))
        assert await read(blobs, "k") == TEXT
        # What could not be taken back at once is tried again later.
        await world.advance(21 * HOUR)
        await blobs.collect()
        assert await shelf.lying() == [await object_of(world, "k")]
        assert await leftovers(world) == 0

    async def test_what_could_not_be_removed_is_tried_again(
        self, world: World, shelf: BucketShelf
    ) -> None:
        blobs = blobs_of(world, shelf)
        await blobs.put("k", sent(TEXT))
        await blobs.delete("k")
        await world.advance(LINGER + 1)
        shelf.server.kill()
        with pytest.raises(Unavailable):
            await blobs.collect()
        assert await leftovers(world) == 1
        shelf.server.start()
        await world.advance(601)
        assert await blobs.collect() == 1
        assert await shelf.lying() == []

    async def test_wrong_credentials_are_said_so_and_not_shown(
        self, world: World, shelf: BucketShelf, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG)
        objects = shelf.open_with("canary-of-a-secret")
        blobs = Blobs(world.store, objects, ids=world.ids(), clock=world.clock)
        calls = (objects.open, lambda: blobs.put("k", sent(TEXT)), lambda: blobs.put("l", many(20)))
        for call in calls:
            with pytest.raises(Unavailable, match="check the access key id") as refused:
                await call()
            assert refused.value.__cause__ is None
            assert "canary" not in f"{refused.value} {refused.value.details}"
            assert shelf.server.access_key_id not in str(refused.value)
        assert "canary" not in caplog.text
        assert await keys(blobs) == []
        await objects.close()

    async def test_a_bucket_that_is_not_there_is_said_so(self, running_s3: ObjectServer) -> None:
        nowhere = open_objects(
            running_s3.url_of("podium-nowhere"),
            access_key_id=running_s3.access_key_id,
            secret_access_key=running_s3.secret_access_key,
        )
        with pytest.raises(Unavailable, match="no bucket 'podium-nowhere'"):
            await nowhere.open()
        await nowhere.close()

    async def test_no_server_at_all_is_said_so(self, world: World, tmp_path: Path) -> None:
        nobody = BucketShelf(ObjectServer(tmp_path))
        with pytest.raises(Unavailable, match="no connection"):
            await nobody.objects.open()
        await nobody.objects.close()

    async def test_a_signed_url_gets_one_blob_and_nothing_else(
        self, world: World, shelf: BucketShelf
    ) -> None:
        blobs = blobs_of(world, shelf)
        await blobs.put("k", sent(TEXT), content_type="text/plain")
        await blobs.put("other", sent(b"secret"))
        url = await blobs.presign("k", seconds=60)
        assert url is not None
        other = url.replace(await object_of(world, "k"), await object_of(world, "other"))
        async with httpx.AsyncClient() as client:
            answer = await client.get(url)
            assert (answer.content, answer.headers["content-type"]) == (TEXT, "text/plain")
            assert (await client.get(url.split("?")[0])).status_code == 403
            assert (await client.get(other)).status_code == 403
            assert (await client.put(url, content=b"changed")).status_code == 403
        assert await read(blobs, "k") == TEXT

    async def test_a_signed_url_does_not_outlive_its_blob(
        self, world: World, shelf: BucketShelf
    ) -> None:
        blobs = blobs_of(world, shelf)
        await blobs.put("k", sent(TEXT), expire_seconds=100)
        url = await blobs.presign("k", seconds=3600)
        assert url is not None
        seconds = int(httpx.URL(url).params["X-Amz-Expires"])
        assert 90 <= seconds <= 100

    async def test_only_our_own_unfinished_uploads_are_given_up(
        self, world: World, shelf: BucketShelf
    ) -> None:
        for name in ("AA/ours", "AA/ours-too"):
            await put_half(shelf.objects, name)
        unfinished = [f"AA/{name} (unfinished)" for name in ("ours", "ours-too")]
        assert await shelf.lying() == unfinished
        uploads = Uploads(
            BucketAddress(BUCKET, shelf.prefix, "us-east-1", shelf.server.endpoint),
            Credentials(shelf.server.access_key_id, shelf.server.secret_access_key),
            "the bucket",
        )
        assert len(await uploads.unfinished(f"{shelf.prefix}AA/ours")) == 1
        await shelf.objects.abort("AA/ours")
        assert await shelf.lying() == unfinished[1:]


async def put_half(objects: Objects, name: str) -> None:
    """And no more, as if this process had died."""
    sent_half = asyncio.Event()

    async def half() -> AsyncIterator[bytes]:
        async for chunk in many(20):
            yield chunk
        sent_half.set()
        await asyncio.Event().wait()

    putting = asyncio.create_task(objects.put(name, half(), content_type="text/plain"))
    await asyncio.wait_for(sent_half.wait(), 30)
    putting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await putting


class TestOnPostgresInAFolder(OnPostgres, InAFolder, BlobSuite, SharedBlobSuite):
    pass
