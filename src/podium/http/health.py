"""Is it alive, is it ready, how is it doing."""

from __future__ import annotations

from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from pydantic import BaseModel
from starlette.responses import JSONResponse, Response

from podium.contracts.scopes import Scope
from podium.domains.access.repository import take
from podium.http.guard import Declared, Open, get
from podium.http.house import House
from podium.kernel.errors import PodiumError
from podium.kernel.store import Tx, now

PROBED = "probe"
BELIEVED_SECONDS = 5.0
DOUBTED_SECONDS = 1.0
PROBE = Open("probes have no token, and learn one word")


class Health(BaseModel):
    status: str


SAID = {"responses": {200: {"model": Health}, 503: {"model": Health}}}
TEXT = {
    "response_class": Response,
    "responses": {200: {"content": {CONTENT_TYPE_LATEST: {"schema": {"type": "string"}}}}},
}


class HealthApi:
    def __init__(self, house: House) -> None:
        self._house = house
        self._takes = False
        self._asked_until = 0.0

    def routes(self) -> list[Declared]:
        return [
            get("/livez", self.alive, needs=PROBE),
            get("/healthz", self.healthy, needs=PROBE, options=SAID),
            get("/readyz", self.ready, needs=PROBE, options=SAID),
            *(
                Declared("HEAD", path, answer, PROBE, options={"include_in_schema": False})
                for path, answer in (
                    ("/livez", self.alive),
                    ("/healthz", self.healthy),
                    ("/readyz", self.ready),
                )
            ),
            get("/metrics", self.metrics, needs=Scope.READ, options=TEXT),
        ]

    async def alive(self) -> Health:
        """The process answers."""
        return Health(status="ok")

    async def healthy(self) -> Response:
        """The store answers too."""
        return _said(await self._store_answers(), "ok", "the store does not answer")

    async def ready(self) -> Response:
        """Everything has started and the store answers: send requests."""
        readiness = self._house.readiness
        if not readiness.is_ready:
            return _said(False, "", readiness.reason)
        return _said(await self._store_takes(), "ready", "the store takes no writes")

    async def metrics(self) -> Response:
        """All metrics, in the format of Prometheus."""
        return Response(
            generate_latest(self._house.metrics.registry), media_type=CONTENT_TYPE_LATEST
        )

    async def _store_takes(self) -> bool:
        """A real write, now and then: a full disk can still be read from."""
        now = self._house.clock.monotonic()
        if now >= self._asked_until:
            try:
                await self._house.store.write(take, PROBED, period_seconds=60.0, wanted=1)
                self._takes = True
            except PodiumError:
                self._takes = False
            pause = BELIEVED_SECONDS if self._takes else DOUBTED_SECONDS
            self._asked_until = self._house.clock.monotonic() + pause
        return self._takes

    async def _store_answers(self) -> bool:
        try:
            await self._house.store.read(_ask)
        except PodiumError:
            return False
        return True


async def _ask(tx: Tx) -> None:
    await now(tx)


def _said(is_good: bool, good: str, bad: str) -> Response:
    headers = {} if is_good else {"retry-after": "1"}
    return JSONResponse({"status": good if is_good else bad}, 200 if is_good else 503, headers)
