"""The database, the broker and the object store: reached, of the right kind, and kept safely."""

from __future__ import annotations

import random
from collections.abc import AsyncIterable, AsyncIterator
from datetime import datetime
from pathlib import Path
from typing import Any

from podium.app.doctor.report import Finding, fail, ok, warn
from podium.app.doctor.server import Server
from podium.app.settings import Profile, Settings
from podium.app.wiring import ROOMS, database_file, open_blob_store, open_store
from podium.kernel.clock import SystemClock
from podium.kernel.errors import PodiumError, SchemaMismatch, StoreHeld
from podium.kernel.migrate import check
from podium.kernel.store import Store, Tx
from podium.kernel.telemetry import Metrics

SQL = Path(__file__).parent / "sql"
POSTGRES_MIN = 140_000
NATS_MIN = (2, 12, 3)
SKEW_SECONDS_MAX = 2.0
CONNECT_SECONDS_MAX = 5.0
PROBE = b"podium doctor"

# What makes an acknowledged commit survive the database server's machine.
WANTED = {
    "fsync": "on",
    "full_page_writes": "on",
    "data_sync_retry": "off",
}


async def examine_stores(settings: Settings, server: Server | None) -> AsyncIterator[Finding]:
    async for finding in _database(settings, server):
        yield finding
    async for finding in _bus(settings):
        yield finding
    yield await _blobs(settings)


# --- the database --------------------------------------------------------------------------------


async def _database(settings: Settings, server: Server | None) -> AsyncIterator[Finding]:
    if settings.profile is Profile.EMBEDDED:
        yield await _file(settings, server)
        return
    try:
        store = _store(settings)
        await store.open()
    except ModuleNotFoundError:
        yield fail("database", "the driver is not installed", "pip install 'podium[postgres]'")
        return
    except PodiumError as error:
        yield fail("database", str(error), "check --database-url, and that PostgreSQL runs")
        return
    try:
        store.queries.load(SQL)
        row = await store.read(_look)
        for finding in (*_settings(row), _clock(row.now_at), await _schema(store)):
            yield finding
    except PodiumError as error:
        yield fail("database", str(error), "look in the log of PostgreSQL")
    finally:
        await store.close()


async def _look(tx: Tx) -> Any:
    return (await tx.rows("doctor.server"))[0]


def _settings(row: Any) -> list[Finding]:
    text = f"PostgreSQL {row.version}"
    if row.version_number < POSTGRES_MIN:
        return [fail("database", text, "upgrade it to 14 or newer")]
    if row.is_replica:
        return [fail("database", f"{text}, a replica", "give the address of the primary")]
    found = [
        fail(
            "database",
            f"{name} is {getattr(row, name)}: what is acknowledged may be lost",
            f"set {name} = {wanted} in postgresql.conf",
        )
        for name, wanted in WANTED.items()
        if getattr(row, name) != wanted
    ]
    if row.synchronous_commit in ("off", "local"):
        how = f"synchronous_commit is {row.synchronous_commit}: what is acknowledged may be lost"
        found.append(fail("database", how, "set synchronous_commit = on in postgresql.conf"))
    return found or [ok("database", f"{text}, and it syncs what it acknowledges")]


def _clock(there: datetime) -> Finding:
    seconds = abs((SystemClock().now() - there).total_seconds())
    text = f"{seconds:.1f} s apart from the database's"
    if seconds > SKEW_SECONDS_MAX:
        return warn("clock", text, "run a time service (chrony, ntpd) on both machines")
    return ok("clock", text)


async def _file(settings: Settings, server: Server | None) -> Finding:
    path = database_file(settings)
    if not path.exists():
        return ok("database", f"{path} is made at the first start")
    store = _store(settings)
    try:
        await store.open()
    except StoreHeld as error:
        holder = error.details["holder"]
        if server is None:
            text = f"{path} is held by {holder}, which does not answer"
            return fail("database", text, "stop that process, then: podium up")
        return ok("database", f"{path}, in use by {holder}")
    except PodiumError as error:
        return fail("database", str(error), "restore a copy, or give another --data-dir")
    try:
        return await _schema(store)
    finally:
        await store.close()


async def _schema(store: Store) -> Finding:
    try:
        await check(store, ROOMS)
    except SchemaMismatch as error:
        what, _, mend = str(error).partition("; ")
        return fail("migrations", what, mend.removeprefix("run: ") or "use the right program")
    except PodiumError as error:
        return fail("database", str(error), "restore a copy, or give another --data-dir")
    return ok("migrations", "the database is up to date")


def _store(settings: Settings) -> Store:
    return open_store(settings, clock=SystemClock(), rng=random.SystemRandom(), metrics=Metrics())


# --- the broker ----------------------------------------------------------------------------------


async def _bus(settings: Settings) -> AsyncIterator[Finding]:
    url = settings.bus.url.get_secret_value()
    if not url:
        yield ok("bus", "messages travel through the database")
        return
    try:
        from podium.backends.nats import Link, NatsSettings
    except ModuleNotFoundError:
        yield fail("bus", "the driver is not installed", "pip install 'podium[nats]'")
        return
    link = Link(NatsSettings(url), name="podium doctor")
    try:
        await link.open(wait_seconds=CONNECT_SECONDS_MAX)
        assert link.client is not None
        yield _broker(link.client.connected_server_version)
        await link.client.jetstream().account_info()
        yield ok("bus", "JetStream is on; a single server wants sync_interval: always")
    except PodiumError as error:
        yield fail("bus", str(error), "check --bus-url, and that NATS runs")
    except Exception as error:
        text = f"JetStream does not answer: {error}"
        yield fail("bus", text, "start NATS with -js, and let this user in")
    finally:
        await link.close()


def _broker(version: Any) -> Finding:
    text = f"NATS {version}"
    if (version.major, version.minor, version.patch) < NATS_MIN:
        return warn("bus", text, "upgrade it to 2.12.3 or newer")
    return ok("bus", text)


# --- the object store ----------------------------------------------------------------------------


async def _blobs(settings: Settings) -> Finding:
    if not settings.blobs.url and not settings.data_path.is_dir():
        return ok("blobs", f"{settings.data_path / 'blobs'} is made at the first start")
    where = settings.blobs.url.split("?")[0] or str(settings.data_path / "blobs")
    name = f"doctor/{random.SystemRandom().randbytes(16).hex()}"
    try:
        objects = open_blob_store(settings)
        await objects.open()
        try:
            await objects.put(name, _probe(), content_type="text/plain")
            back = b"".join([piece async for piece in objects.get(name, 0, len(PROBE))])
            await objects.delete(name)
        finally:
            await objects.close()
    except PodiumError as error:
        return fail("blobs", str(error), "check --blobs-url and its keys")
    if back != PROBE:
        return fail("blobs", f"{where} gave back other bytes", "check what is behind --blobs-url")
    return ok("blobs", f"{where} takes, gives back and deletes")


async def _probe() -> AsyncIterable[bytes]:
    yield PROBE
