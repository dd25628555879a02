"""The desk of the house itself: what a child's calls reach, without HTTP in between."""

from __future__ import annotations

from podium.contracts.work import (
    Claim,
    Claimed,
    Enqueue,
    Enqueued,
    Grants,
    Report,
    Verdicts,
)
from podium.http.house import House
from podium.http.work import WorkApi


class HouseDesk:
    """Fills `WorkDesk`. A claim that waits may be cancelled; it has then granted nothing, or all at once."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._api = WorkApi(house)

    async def enqueue(self, body: Enqueue, /) -> Enqueued:
        return await self._api.enqueue(body)

    async def claim(self, body: Claim, /) -> Claimed:
        return await self._api.take(body)

    async def start(self, body: Grants, /) -> Verdicts:
        return await self._api.start(body)

    async def renew(self, body: Grants, /) -> Verdicts:
        return await self._api.renew(body)

    async def release(self, body: Grants, /) -> Verdicts:
        return await self._api.release(body)

    async def report(self, body: Report, /) -> Verdicts:
        return await self._api.report(body)
