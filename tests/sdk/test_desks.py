"""One suite, three desks: by call, over HTTP, over a channel."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from podium.app.channel import serve_channel, work_calls
from podium.app.desk import HouseDesk
from podium.sdk.channel import ChannelDesk
from podium.sdk.client import Client
from podium.sdk.desk import WorkDesk
from podium.testing.suites.desk import DeskSuite
from tests.sdk.served import Served


@asynccontextmanager
async def channel_to(desk: WorkDesk) -> AsyncIterator[ChannelDesk]:
    ours, theirs = socket.socketpair()
    serving = asyncio.create_task(serve_channel(ours, work_calls(desk)))
    child = await ChannelDesk.open(theirs)
    try:
        yield child
    finally:
        await child.close()
        await serving


class TestByCall(DeskSuite):
    @pytest.fixture
    def desk(self, server: Served) -> HouseDesk:
        return server.desk


class TestOverHttp(DeskSuite):
    @pytest.fixture
    def desk(self, client: Client) -> Client:
        return client


class TestOverChannel(DeskSuite):
    @pytest.fixture
    async def desk(self, server: Served) -> AsyncIterator[ChannelDesk]:
        async with channel_to(server.desk) as desk:
            yield desk
