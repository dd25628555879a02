"""Every setting there is, explained where it is defined.

A setting has one name, written three ways: `database.url` in podium.toml, `PODIUM_DATABASE_URL` in
the environment, `--database-url` as a flag. Flags win over the environment, the environment over the
file, the file over the default. `podium.app.sources` reads them, the reference page is generated from
here, and `podium doctor` prints what is in force.

There are two profiles. *Embedded*: one process, one SQLite file, one folder, nothing else to run.
*Distributed*: PostgreSQL, and an object store that all servers share; NATS if others want to listen.
Which one is in force follows from `database.url`; the numbers below are right for both.
"""

from __future__ import annotations

from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    field_validator,
    model_validator,
)

from podium.contracts.scopes import Scope

DAY_SECONDS = 86_400.0
MEBIBYTE = 1024 * 1024


class Profile(StrEnum):
    EMBEDDED = "embedded"
    DISTRIBUTED = "distributed"


class Group(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        use_attribute_docstrings=True,
        # A setting may be a secret: an error about it never repeats the value.
        hide_input_in_errors=True,
    )


def _path(value: str) -> str:
    return str(Path(value).expanduser()) if value else value


PathText = Annotated[str, AfterValidator(_path)]
Count = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Days = Annotated[float, Field(gt=0, le=36_500, allow_inf_nan=False)]


class Database(Group):
    url: SecretStr = SecretStr("")
    """`postgresql://user:password@host/name`. Empty: the SQLite file `podium.db` in the data folder."""
    connections_max: Count = 10
    """Connections to PostgreSQL per process. More than the cores of the database server seldom helps."""


class Bus(Group):
    url: SecretStr = SecretStr("")
    """`nats://user:password@host:4222`. Empty: messages travel through the database, which is enough
    unless programs that are not Podium want to send or receive them."""
    queues: tuple[str, ...] = ()
    """Queues whose items are told on NATS, as `results,orders`. Who takes from such a queue hears of its
    items there; what others publish there becomes an item."""


class Blobs(Group):
    url: str = ""
    """`s3://bucket/prefix?endpoint=https://…&region=…`. Empty: the folder `blobs` in the data folder."""
    access_key_id: str = ""
    """The S3 key. Empty: whatever the environment of the process offers (AWS_ACCESS_KEY_ID …)."""
    secret_access_key: SecretStr = SecretStr("")
    """The S3 secret that belongs to `access_key_id`."""
    bytes_max: Count = 5 * 1024 * MEBIBYTE
    """The largest object that is taken, in bytes."""


class Access(Group):
    anonymous_scopes: tuple[Scope, ...] = ()
    """What a caller without a token may do, as `read,submit`. Nothing, unless clients that know of no
    tokens must be let in."""
    token_days: Annotated[float, Field(gt=0, le=3650)] = 90.0
    """How long a new token is valid, in days, if its maker does not say."""
    failures_max: Count = 20
    """Wrong tokens per minute from one address before that address is told to wait (429)."""
    requests_max: Count = 60_000
    """Requests per minute and token. Counted in the store, for all servers together."""


class Limits(Group):
    body_bytes_max: Count = 10 * MEBIBYTE
    """The largest request body, in bytes. Larger ones are refused before they are read."""
    connections_max: Count = 10_000
    """Connections per server process; the next one is answered 503 with Retry-After."""
    requests_at_once_max: Count = 512
    """Requests in work per server process; the next one is answered 503 with Retry-After."""
    streams_max: Count = 1_000
    """Event streams that may be open per server process."""


class Egress(Group):
    networks: tuple[IPv4Network | IPv6Network, ...] = ()
    """Networks beyond the public internet that callbacks and HTTP jobs may reach, as `10.1.0.0/16`."""
    ports: tuple[Annotated[int, Field(ge=1, le=65_535)], ...] = (80, 443)
    """Ports that callbacks and HTTP jobs may reach."""

    @field_validator("networks", mode="before")
    @classmethod
    def _parsed(cls, value: object) -> object:
        if isinstance(value, list | tuple):
            return tuple(ip_network(each) if isinstance(each, str) else each for each in value)
        return value


class Retention(Group):
    done_days: Days = 30.0
    """Finished work, and with it the promise that its id is not run again."""
    dead_days: Days = 90.0
    """Dead letters: long enough that somebody comes back from holiday."""
    journal_days: Days = 90.0
    """The journal of what happened."""
    audit_days: Days = 365.0
    """The audit log of who called what."""


class Log(Group):
    level: str = Field(default="info", pattern="^(debug|info|warning|error)$")
    """`debug`, `info`, `warning` or `error`. Lines are JSON, on stderr."""


class Settings(Group):
    data_dir: PathText = "./podium-data"
    """Where the embedded profile keeps everything: database, blobs, keys, the local token."""
    host: str = "127.0.0.1"
    """The address the server listens on. Anything but loopback needs TLS or `behind_proxy`."""
    port: Annotated[int, Field(ge=0, le=65_535)] = 8437
    """The port the server listens on; 0 takes a free one and prints it."""
    public_url: str = ""
    """What callers see: links are built from it and its host is allowed. Empty: `http://host:port`."""
    tls_cert: PathText = ""
    """The certificate chain, a PEM file."""
    tls_key: PathText = ""
    """The private key of `tls_cert`, a PEM file."""
    behind_proxy: bool = False
    """TLS ends at a proxy in front, which also limits and forwards: allows plain HTTP beyond loopback."""
    master_key: SecretStr = SecretStr("")
    """Opens the stored secrets: base64 of 32 bytes; several, separated by commas, while one replaces
    another. Empty: the file `master.key` in the data folder, made at the first start."""
    handlers: tuple[str, ...] = ()
    """Modules with handlers of your own, as `my_handlers,more.handlers`: the worker imports them."""
    no_worker: bool = False
    """`podium up` without its worker: for those who run their own."""
    stop_seconds: Seconds = 30.0
    """How long a stopping process waits for what it has begun."""
    database: Database = Database()
    bus: Bus = Bus()
    blobs: Blobs = Blobs()
    access: Access = Access()
    limits: Limits = Limits()
    egress: Egress = Egress()
    retention: Retention = Retention()
    log: Log = Log()

    @property
    def profile(self) -> Profile:
        has_server = bool(self.database.url.get_secret_value())
        return Profile.DISTRIBUTED if has_server else Profile.EMBEDDED

    @property
    def data_path(self) -> Path:
        return Path(self.data_dir)

    @property
    def url(self) -> str:
        """Where callers find the server."""
        if self.public_url:
            return self.public_url.rstrip("/")
        scheme = "https" if self.tls_cert else "http"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}://{host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @field_validator("public_url")
    @classmethod
    def _is_origin(cls, value: str) -> str:
        if value and not _is_plain_origin(value):
            raise ValueError("it is an origin such as https://podium.example.org, without a path")
        return value

    @field_validator("database")
    @classmethod
    def _is_postgres(cls, value: Database) -> Database:
        if not _begins_with(value.url, "postgresql://", "postgres://"):
            raise ValueError("url: it begins with postgresql://, as postgresql://user@host/name")
        return value

    @field_validator("bus")
    @classmethod
    def _is_nats(cls, value: Bus) -> Bus:
        if not _begins_with(value.url, "nats://", "tls://"):
            raise ValueError("url: it begins with nats:// or tls://, as nats://host:4222")
        return value

    @model_validator(mode="after")
    def _is_safe(self) -> Self:
        if bool(self.tls_cert) != bool(self.tls_key):
            raise ValueError("tls_cert and tls_key belong together; give both or neither")
        if not (self.is_loopback or self.tls_cert or self.behind_proxy):
            raise ValueError(
                f"host {self.host} is reachable from outside, so tokens would travel in the clear: "
                "give --tls-cert and --tls-key, or --behind-proxy if TLS ends in front, or --host 127.0.0.1"
            )
        return self


def _begins_with(url: SecretStr, *schemes: str) -> bool:
    """Whatever else it is, it may be a secret in the wrong place: no part of it is said aloud."""
    text = url.get_secret_value()
    return not text or text.startswith(schemes)


def _is_plain_origin(url: str) -> bool:
    try:
        parts = urlsplit(url)
        has_port = parts.port is None or parts.port > 0
    except ValueError:
        return False
    is_web = parts.scheme in ("http", "https") and bool(parts.hostname)
    rest = (parts.path.rstrip("/"), parts.query, parts.fragment)
    return is_web and has_port and parts.username is None and not any(rest)
