"""A whole server in this process, on a free port, with a real store and a real clock."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from podium.app.desk import HouseDesk
from podium.app.local import URL_FILE, keep_admin_token, make_data_dir, write_private
from podium.app.parts import BlobsPart, HttpPart, ReadinessPart, StorePart, listen
from podium.app.settings import Settings
from podium.app.wiring import Services, engine, house, http, wire
from podium.engine import Part, Supervisor
from podium.sdk.client import Client


@dataclass
class Served:
    url: str
    token: str
    data_dir: Path
    services: Services

    def client(self, **more: float) -> Client:
        return Client(self.url, self.token, **more)

    @property
    def desk(self) -> HouseDesk:
        return HouseDesk(house(self.services))


@asynccontextmanager
async def served(data_dir: Path, port: int = 0) -> AsyncIterator[Served]:
    settings = Settings(data_dir=str(data_dir), port=port, stop_seconds=2.0)
    make_data_dir(settings.data_path)
    listener = listen(settings)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    settings = settings.model_copy(update={"port": listener.getsockname()[1]})
    services = wire(settings)
    parts: list[Part] = [
        StorePart(services, migrates=True),
        BlobsPart(services),
        *engine(services),
        HttpPart(lambda: http(services), settings, listener, services.metrics),
        ReadinessPart(services.readiness),
    ]
    async with Supervisor(parts, grace_seconds=settings.stop_seconds):
        path = await keep_admin_token(settings.data_path, services.store, services.access.tokens)
        write_private(settings.data_path / URL_FILE, settings.url)
        yield Served(settings.url, path.read_text().strip(), settings.data_path, services)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port
