"""A wire between a store and its server that can be cut at the worst moment: around COMMIT."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import Enum

COMMIT = b"commit\0"


class Loss(Enum):
    NOTHING = "nothing"
    ANSWER = "the commit happens, and its answer is lost"
    REQUEST = "the commit is lost before the server sees it"


class Wire:
    def __init__(self, port: int) -> None:
        self._server_port = port
        self.next_loss = Loss.NOTHING
        """What becomes of the next COMMIT. Only of the next one."""
        self.is_cut = False
        """Nobody gets through, from the next connection on."""
        self.stays_cut = False
        """A loss also cuts the wire for good."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.is_cut:
            writer.close()
            return
        upstream = await asyncio.open_connection("127.0.0.1", self._server_port)
        back = asyncio.create_task(self._copy(upstream[0], writer))
        try:
            await self._forward(reader, upstream, back)
        except ConnectionError:
            pass  # one of the two ends is gone: so is the wire
        finally:
            back.cancel()
            upstream[1].close()
            writer.close()

    async def _forward(
        self,
        reader: asyncio.StreamReader,
        upstream: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        back: asyncio.Task[None],
    ) -> None:
        while data := await reader.read(65_536):
            loss = Loss.NOTHING
            if COMMIT in data:
                loss, self.next_loss = self.next_loss, Loss.NOTHING
            if loss is not Loss.NOTHING:
                self.is_cut = self.stays_cut
            if loss is Loss.REQUEST:
                return
            if loss is Loss.ANSWER:
                back.cancel()
                await asyncio.wait([back])
                upstream[1].write(data)
                assert b"COMMIT" in await upstream[0].read(65_536)
                return
            upstream[1].write(data)
            await upstream[1].drain()

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65_536):
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            pass
        writer.close()


@asynccontextmanager
async def wire_to(port: int) -> AsyncIterator[tuple[Wire, int]]:
    """A wire to the server at `port`, and the port to connect to instead."""
    wire = Wire(port)
    server = await asyncio.start_server(wire.serve, "127.0.0.1", 0)
    try:
        yield wire, server.sockets[0].getsockname()[1]
    finally:
        server.close()
