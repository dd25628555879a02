"""The API against its own description: whatever the schema allows or forbids, no 5xx and no answer it does not describe (P40)."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.generation.modes import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from podium.backends.sqlite import SQLiteStore
from podium.kernel.clock import ManualClock
from podium.kernel.queries import SQLITE, Queries
from tests.http.houses import Home, declared_routes, make_home, sqlite_home, with_policy

EXAMPLES = 50
STREAMS = "/api/events"
"""It does not end by itself; test_events reads it."""
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]


def described() -> tuple[Any, dict[str, Any]]:
    """The server and its description; nothing is opened for that."""
    clock = ManualClock()
    store = SQLiteStore(":memory:", clock=clock, queries=Queries(SQLITE, []))
    app: Any = make_home(store, clock).app
    (route,) = [it for it in declared_routes(app) if it.path == "/openapi.json"]
    document: dict[str, Any] = route.endpoint.__self__._document()  # type: ignore[attr-defined]
    return app, document


APP, DOCUMENT = described()
FOUND: list[Any] = list(schemathesis.openapi.from_dict(DOCUMENT).get_all_operations())
OPERATIONS: dict[str, Any] = {
    operation.label: operation
    for operation in (found.ok() for found in FOUND)
    if operation.path != STREAMS
}


class Resident:
    """A home on a loop in a thread of its own: the cases come from code that awaits nothing."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        policy = with_policy(requests_max=10_000_000, failures_max=10_000_000)
        self.opening = sqlite_home(policy=policy)
        self.home: Home = self.run(self.opening.__aenter__())

    def run(self, call: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(call, self.loop).result(30)

    def close(self) -> None:
        self.run(self.opening.__aexit__(None, None, None))
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(10)
        self.loop.close()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """An application for whoever runs another loop: it is served on ours."""
        theirs = asyncio.get_running_loop()

        async def there(call: Any) -> Any:
            return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(call, theirs))

        async def serve() -> None:
            await self.home.app(
                scope, lambda: there(receive()), lambda message: there(send(message))
            )

        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(serve(), self.loop))


@pytest.fixture(scope="module")
def resident() -> Iterator[Resident]:
    living = Resident()
    yield living
    living.close()


def modes(operation: Any) -> list[GenerationMode]:
    """What the schema allows; and what it forbids, where there is anything to forbid."""
    takes_anything = list(operation.iter_parameters()) or list(operation.body)
    return [GenerationMode.POSITIVE, *([GenerationMode.NEGATIVE] if takes_anything else [])]


def without_waiting(case: Any) -> None:
    """Nobody would wake a claim that waits: this clock stands still."""
    if isinstance(case.body, dict) and isinstance(case.body.get("wait_seconds"), int | float):
        case.body["wait_seconds"] = min(case.body["wait_seconds"], 0)


@pytest.mark.parametrize(
    ("label", "mode"),
    [(label, mode) for label, operation in OPERATIONS.items() for mode in modes(operation)],
    ids=str,
)
def test_an_operation_keeps_its_word(resident: Resident, label: str, mode: GenerationMode) -> None:
    operation = OPERATIONS[label]
    operation.schema.app = resident

    @settings(
        max_examples=EXAMPLES // len(modes(operation)),
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(operation.as_strategy(generation_mode=mode))
    def keeps_its_word(case: Any) -> None:
        without_waiting(case)
        answer = case.call_and_validate(
            headers={"authorization": f"Bearer {resident.home.admin}"},
            base_url="http://localhost",
            app=resident,
            checks=CHECKS,
        )
        statuses[answer.status_code] += 1

    statuses: Counter[int] = Counter()
    keeps_its_word()
    assert statuses
    # A wrong code is a stranger's. Of what is forbidden, a wrong token is one thing among others.
    if mode is GenerationMode.POSITIVE and label != "GET /login":
        assert statuses[401] == 0
    assert statuses[401] < statuses.total() or label in ("GET /login", "GET /metrics")


def test_every_route_of_the_api_is_described() -> None:
    found = {
        (method.upper(), path)
        for path, operations in DOCUMENT["paths"].items()
        for method in operations
    }
    wanted = {
        (it.method, it.path.replace(":path}", "}"))
        for it in declared_routes(APP)
        if it.options.get("include_in_schema", True)
    }
    assert found == wanted
    assert len(found) >= 24


def test_every_operation_says_who_may_call_it_and_how_it_refuses() -> None:
    assert DOCUMENT["components"]["securitySchemes"] == {
        "bearer": {"type": "http", "scheme": "bearer"}
    }
    for path, operations in DOCUMENT["paths"].items():
        for operation in operations.values():
            assert operation["x-podium-needs"], path
            is_open = operation["x-podium-needs"] == "nobody in particular"
            assert ("security" not in operation) is is_open, path
            refusal = operation["responses"]["4XX"]["content"]["application/json"]["schema"]
            assert refusal == {"$ref": "#/components/schemas/Refused"}
            assert "422" not in operation["responses"], path
            assert operation.get("description"), f"{path} does not say what it does"
