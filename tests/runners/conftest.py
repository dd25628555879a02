"""A server, a client and a desk of its own for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.runners.working import Desk
from tests.sdk.conftest import client, server
from tests.sdk.served import Served
from tests.sdk.test_desks import channel_to

__all__ = ["client", "desk", "server"]


@pytest.fixture
async def desk(server: Served) -> AsyncIterator[Desk]:
    async with channel_to(server.desk) as channel:
        yield Desk(channel)
