"""Where the broker is, and what we keep there."""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass

from podium.kernel import bus
from podium.kernel.errors import Invalid

STREAM = re.compile(r"[A-Za-z0-9_-]{1,32}")
PREFIX = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
DAY_SECONDS = 86_400.0


@dataclass(frozen=True, slots=True)
class NatsSettings:
    url: str
    """One address or several with commas between them: `nats://user:password@host:4222`, or `tls://`."""
    stream: str = "podium"
    prefix: str = "podium.bus"
    """The subjects of the bus: `podium.bus.<queue>` and `podium.bus.<topic>.<subscription>`."""
    replicas: int = 1
    credentials_file: str | None = None
    """A `.creds` file, for servers with decentralised accounts. Needs the package `nkeys`."""
    tls_ca_file: str | None = None
    tls_certificate_file: str | None = None
    tls_key_file: str | None = None
    max_age_seconds: float = bus.TTL_SECONDS + DAY_SECONDS
    """For messages of others. The keeper buries what is older than the bus's time to live, a day
    before the broker would drop it without a word."""
    duplicate_seconds: float = 20.0
    """How long the broker knows a message id: shorter than a row is hidden, so that telling it again
    is never taken for an echo of the first time."""
    ack_wait_seconds: float = 30.0
    deliver_max: int = 30

    def __post_init__(self) -> None:
        if not STREAM.fullmatch(self.stream):
            raise Invalid(
                f"stream is {self.stream!r:.80}: letters, digits, _ and -", field="stream"
            )
        if not PREFIX.fullmatch(self.prefix):
            raise Invalid(f"prefix is {self.prefix!r:.80}: names with dots between", field="prefix")

    @property
    def servers(self) -> list[str]:
        return [each.strip() for each in self.url.split(",") if each.strip()]

    def tls(self) -> ssl.SSLContext | None:
        """None: as the address says, with the system's certificates."""
        if self.tls_ca_file is None and self.tls_certificate_file is None:
            return None
        context = ssl.create_default_context(cafile=self.tls_ca_file)
        if self.tls_certificate_file is not None:
            context.load_cert_chain(self.tls_certificate_file, self.tls_key_file)
        return context
