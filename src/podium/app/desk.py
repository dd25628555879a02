"""The desk of the house itself: what a child's calls reach, without HTTP in between."""

from __future__ import annotations

from podium.contracts.work import (
    Claim,
    Claimed,
    ClaimedWork,
    Enqueue,
    Enqueued,
    Grants,
    Report,
    Verdicts,
)
from podium.http.house import House
from podium.http.work import LOOK_SECONDS, WorkApi
from podium.kernel import work
from podium.kernel.work.queue import channel

SHARED = [name for name in ClaimedWork.model_fields if name != "payload"]


class HouseDesk:
    """Fills `WorkDesk`. A claim that waits may be cancelled; it has then granted nothing, or all at once."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._api = WorkApi(house)

    async def enqueue(self, body: Enqueue, /) -> Enqueued:
        return await self._api.enqueue(body)

    async def claim(self, body: Claim, /) -> Claimed:
        clock = self._house.clock
        listener = self._house.store.bell.listen(*(channel(queue) for queue in body.queues))
        until = clock.monotonic() + body.wait_seconds
        try:
            while True:
                items = await self._take(body)
                left = until - clock.monotonic()
                if items or left <= 0:
                    return Claimed(items=[_said(item) for item in items])
                await listener.wait(min(left, LOOK_SECONDS))
        finally:
            listener.close()

    async def _take(self, body: Claim) -> list[work.Claimed]:
        items: list[work.Claimed] = []
        for queue in body.queues:
            if len(items) < body.n:
                items += await self._house.store.write(
                    self._house.work.claim,
                    queue=queue,
                    holder=body.holder,
                    n=body.n - len(items),
                    start=body.start,
                )
        return items

    async def start(self, body: Grants, /) -> Verdicts:
        return await self._api.start(body)

    async def renew(self, body: Grants, /) -> Verdicts:
        return await self._api.renew(body)

    async def release(self, body: Grants, /) -> Verdicts:
        return await self._api.release(body)

    async def report(self, body: Report, /) -> Verdicts:
        return await self._api.report(body)


def _said(item: work.Claimed) -> ClaimedWork:
    return ClaimedWork(payload=item.body, **{name: getattr(item, name) for name in SHARED})
