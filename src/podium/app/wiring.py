"""The composition root: settings in, services out. It only wires; nothing is decided here but which backend."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.types import ASGIApp

from podium import __version__
from podium.app.settings import DAY_SECONDS, Profile, Settings
from podium.app.sources import secret_values
from podium.domains import access
from podium.domains.access import audit as audit_log
from podium.domains.access import limits as rate_limits
from podium.domains.access import tokens as access_tokens
from podium.domains.access.audit import Audit
from podium.domains.access.limits import Limits
from podium.domains.access.service import Access, Policy
from podium.domains.access.tokens import Tokens
from podium.engine import Auditor, Janitor, Part, Service, Sweeper, Ticking
from podium.engine.janitor import Duty, Retention
from podium.http.app import create_app, make_gate
from podium.http.blobs import BlobsApi
from podium.http.house import Front, House, Readiness
from podium.kernel.blobs import Blobs, Objects
from podium.kernel.bus import Bus, SqlBus
from podium.kernel.clock import Clock, SystemClock
from podium.kernel.ids import Ulids
from podium.kernel.migrate import KERNEL, SQL
from podium.kernel.queries import POSTGRES, SQLITE, Queries
from podium.kernel.redactor import REDACTOR
from podium.kernel.secrets import Keyring, Secrets, load_keyring
from podium.kernel.store import Store
from podium.kernel.telemetry import Metrics, logger
from podium.kernel.wake import DueRegistry
from podium.kernel.work import Work, WorkSweep
from podium.web.pages import Pages

if TYPE_CHECKING:
    from podium.app.broker import Carrier

ROOMS = [KERNEL, access.ROOM]
QUERIES = [SQL, access.SQL]
KEY_FILE = "master.key"

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class Services:
    """Everything the processes of the house are made of."""

    settings: Settings
    clock: Clock
    rng: random.Random
    ids: Ulids
    metrics: Metrics
    store: Store
    work: Work
    access: Access
    keyring: Keyring
    secrets: Secrets
    objects: Objects
    blobs: Blobs
    bus: Bus
    carrier: Carrier | None
    """What carries the bus besides the database."""
    auditor: Auditor
    readiness: Readiness


def wire(settings: Settings) -> Services:
    clock, metrics = SystemClock(), Metrics()
    # The system's randomness: tokens and keys come from it too.
    rng = random.SystemRandom()
    ids = Ulids(clock, rng)
    store = open_store(settings, clock=clock, rng=rng, metrics=metrics)
    work = Work(clock=clock, ids=ids, rng=rng)
    store.bell.watch(work.marks.on_ring)
    know_secrets(settings)
    keyring = load_keyring(
        settings.master_key.get_secret_value() or None,
        settings.data_path / KEY_FILE,
        random_bytes=rng.randbytes,
        may_create=settings.profile is Profile.EMBEDDED,
    )
    objects = open_blob_store(settings)
    carrier = _carrier(settings, store=store, work=work, ids=ids, clock=clock)
    blobs = Blobs(store, objects, ids=ids, clock=clock, bytes_max=settings.blobs.bytes_max)
    return Services(
        settings=settings,
        clock=clock,
        rng=rng,
        ids=ids,
        metrics=metrics,
        store=store,
        work=work,
        access=_access(settings, store, clock, rng),
        keyring=keyring,
        secrets=Secrets(keyring, random_bytes=rng.randbytes),
        objects=objects,
        blobs=blobs,
        bus=SqlBus(work, ids) if carrier is None else carrier.bus,
        carrier=carrier,
        auditor=Auditor(store, metrics),
        readiness=Readiness(),
    )


def database_file(settings: Settings) -> Path:
    return settings.data_path / "podium.db"


def open_store(settings: Settings, *, clock: Clock, rng: random.Random, metrics: Metrics) -> Store:
    """One folder, one extra, one dependency: a driver is imported only where it is used."""
    if settings.profile is Profile.EMBEDDED:
        from podium.backends.sqlite import SQLiteStore

        path = database_file(settings)
        return SQLiteStore(path, clock=clock, queries=Queries(SQLITE, QUERIES), metrics=metrics)
    from podium.backends.postgres import PostgresStore

    return PostgresStore(
        settings.database.url.get_secret_value(),
        clock=clock,
        queries=Queries(POSTGRES, QUERIES),
        rng=rng,
        metrics=metrics,
        connections_max=settings.database.connections_max,
    )


def open_blob_store(settings: Settings) -> Objects:
    from podium.backends.objectstore import open_objects

    return open_objects(
        settings.blobs.url or str(settings.data_path / "blobs"),
        access_key_id=settings.blobs.access_key_id or None,
        secret_access_key=settings.blobs.secret_access_key.get_secret_value() or None,
    )


def _carrier(
    settings: Settings, *, store: Store, work: Work, ids: Ulids, clock: Clock
) -> Carrier | None:
    if not settings.bus.url.get_secret_value():
        return None
    from podium.app.broker import carrier

    return carrier(settings, store=store, work=work, ids=ids, clock=clock)


def know_secrets(settings: Settings) -> None:
    """What must never be read in a log line, wherever it slips in."""
    for field, value in secret_values(settings):
        refusal = REDACTOR.add(value)
        if refusal is not None:
            log.warning("a secret setting cannot be masked", setting=field, why=refusal)


def engine(services: Services) -> list[Part]:
    """What runs by itself: the crank."""
    dues = DueRegistry()
    dues.register(WorkSweep(services.work, services.rng))
    store, metrics = services.store, services.metrics
    crank: list[Service] = [
        Sweeper(store, dues, metrics),
        services.auditor,
        Janitor(store, metrics, retention=_retention(services.settings), duties=_duties(services)),
    ]
    carried = (
        []
        if services.carrier is None
        else services.carrier.parts(store=store, rng=services.rng, metrics=metrics)
    )
    return [
        *(Ticking(each, bell=store.bell, rng=services.rng, metrics=metrics) for each in crank),
        *carried,
    ]


def http(services: Services) -> ASGIApp:
    """The whole server: the API, the blobs, the pages."""
    served, settings = house(services), services.settings
    blobs = BlobsApi(services.blobs, services.keyring, services.clock, settings.url)
    pages = Pages(served, make_gate(served))
    return create_app(served, [*blobs.routes(), *pages.routes()])


def house(services: Services) -> House:
    """What the HTTP room is given."""
    return House(
        store=services.store,
        work=services.work,
        access=services.access,
        clock=services.clock,
        ids=services.ids,
        rng=services.rng,
        metrics=services.metrics,
        front=front(services.settings),
        readiness=services.readiness,
        violations=services.auditor.audit,
    )


def front(settings: Settings) -> Front:
    names = {settings.host, urlsplit(settings.url).hostname or ""}
    return Front(
        public_url=settings.url,
        hosts=frozenset(name.lower() for name in names if name),
        behind_proxy=settings.behind_proxy,
        body_bytes_max=settings.limits.body_bytes_max,
        requests_at_once_max=settings.limits.requests_at_once_max,
        streams_max=settings.limits.streams_max,
        version=__version__,
    )


def _access(settings: Settings, store: Store, clock: Clock, rng: random.Random) -> Access:
    policy = Policy(
        anonymous_scopes=frozenset(settings.access.anonymous_scopes),
        token_days=settings.access.token_days,
        failures_max=settings.access.failures_max,
        requests_max=settings.access.requests_max,
    )
    return Access(store, Tokens(store, clock, rng), Limits(store, clock), Audit(store), policy)


def _retention(settings: Settings) -> Retention:
    keep = settings.retention
    return Retention(
        done_seconds=keep.done_days * DAY_SECONDS,
        dead_seconds=keep.dead_days * DAY_SECONDS,
        journal_seconds=keep.journal_days * DAY_SECONDS,
    )


def _duties(services: Services) -> dict[str, Duty]:
    write = services.store.write

    async def rewrap_secrets(n: int) -> int:
        """A new master key takes over by itself: what an old one sealed is wrapped anew."""
        return n if await write(services.secrets.rotate, n) else 0

    keep_seconds = services.settings.retention.audit_days * DAY_SECONDS
    return {
        "tokens": lambda n: write(access_tokens.prune, n),
        "limits": lambda n: write(rate_limits.prune, n),
        "blobs": services.blobs.collect,
        "secrets": rewrap_secrets,
        "audit": lambda n: write(audit_log.prune, keep_seconds=keep_seconds, n=n),
    }
