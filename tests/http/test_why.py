"""Why an item is where it is: one test per reason, and that it agrees with what a claim does."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from podium.kernel.work import NewItem
from podium.kernel.work.machine import State
from podium.testing.desk import Desk
from tests.http.houses import Home


@pytest.fixture
def desk(home: Home) -> Desk:
    return Desk(home.store, home.house.work)


async def why(admin: httpx.AsyncClient, id: str) -> dict[str, Any]:
    answer = await admin.get(f"/api/why/work/{id}")
    assert answer.status_code == 200, answer.text
    said: dict[str, Any] = answer.json()
    assert said["id"] == id
    assert said["kind"] == "work"
    assert said["text"]
    assert said["next"]
    return said


async def test_delayed(home: Home, admin: httpx.AsyncClient, desk: Desk) -> None:
    await desk.add("a", delay_seconds=100.0)
    said = await why(admin, "a")
    assert (said["state"], said["reason"]) == ("scheduled", "delayed")
    assert said["until"] is not None
    assert said["next"] == "it becomes ready"


async def test_backoff(admin: httpx.AsyncClient, desk: Desk) -> None:
    await desk.add("a")
    await desk.fail(await desk.run("a"), error="no route to host", delay_seconds=100.0)
    said = await why(admin, "a")
    assert (said["state"], said["reason"]) == ("scheduled", "backoff")
    assert "attempt 1 of 3 failed (no route to host)" in said["text"]


async def test_no_worker_seen(admin: httpx.AsyncClient, desk: Desk) -> None:
    await desk.add("before", "a")
    said = await why(admin, "a")
    assert (said["state"], said["reason"]) == ("ready", "no_worker_seen")
    assert "1 wait before it" in said["text"]


async def test_queued_behind_others_that_are_being_worked_on(
    admin: httpx.AsyncClient, desk: Desk
) -> None:
    await desk.add("first", "second", "a")
    await desk.claim(1, start=True)
    said = await why(admin, "a")
    assert (said["state"], said["reason"]) == ("ready", "queued")
    assert "1 wait before it in queue q; 1 holder(s)" in said["text"]


async def test_waited_too_long(home: Home, admin: httpx.AsyncClient, desk: Desk) -> None:
    await desk.add("a", wait_seconds_max=10.0)
    await home.advance(11)
    said = await why(admin, "a")
    assert (said["state"], said["reason"]) == ("ready", "waited_too_long")
    assert said["next"] == "it becomes a dead letter"


async def test_offered(home: Home, admin: httpx.AsyncClient, desk: Desk) -> None:
    await desk.add("a")
    await home.store.write(home.house.work.offer, queue="q", holder="poller")
    said = await why(admin, "a")
    assert (said["state"], said["reason"]) == ("offered", "offered")
    assert "poller" in said["text"]


async def test_leased(admin: httpx.AsyncClient, desk: Desk) -> None:
    await desk.add("a")
    await desk.take("a", holder="w7")
    said = await why(admin, "a")
    assert (said["state"], said["reason"]) == ("leased", "leased")
    assert "w7 holds it and has not started it" in said["text"]


async def test_a_lease_that_ended_unstarted(
    home: Home, admin: httpx.AsyncClient, desk: Desk
) -> None:
    await desk.add("a", lease_seconds=10.0)
    await desk.take("a", holder="w7")
    await home.advance(11)
    said = await why(admin, "a")
    assert said["state"] == "leased"
    assert said["reason"] == "lease_ended"


async def test_running(admin: httpx.AsyncClient, desk: Desk) -> None:
    await desk.add("a")
    await desk.run("a", holder="w7")
    said = await why(admin, "a")
    assert (said["state"], said["reason"]) == ("running", "running")
    assert "w7 is running attempt 1 of 3" in said["text"]
    assert said["next"].endswith("it is tried again")


async def test_running_for_the_last_time(admin: httpx.AsyncClient, desk: Desk) -> None:
    await desk.add("a", attempts_max=1)
    await desk.run("a")
    assert (await why(admin, "a"))["next"].endswith("it becomes a dead letter")


async def test_lease_ended(home: Home, admin: httpx.AsyncClient, desk: Desk) -> None:
    await desk.add("a", lease_seconds=10.0)
    await desk.run("a", holder="w7")
    await home.advance(11)
    said = await why(admin, "a")
    assert (said["state"], said["reason"]) == ("running", "lease_ended")
    assert "w7 went silent" in said["text"]


async def test_done(admin: httpx.AsyncClient, desk: Desk) -> None:
    await desk.add("a")
    await desk.complete(await desk.run("a", holder="w7"))
    said = await why(admin, "a")
    assert (said["state"], said["reason"], said["next"]) == ("done", "done", "nothing")
    assert said["until"] is None


async def test_cancelled(home: Home, admin: httpx.AsyncClient, desk: Desk) -> None:
    await desk.add("a")
    await home.store.write(home.house.work.cancel, ["a"], reason="a duplicate")
    said = await why(admin, "a")
    assert (said["state"], said["reason"]) == ("cancelled", "cancelled")
    assert said["text"].endswith("a duplicate")


async def test_dead(admin: httpx.AsyncClient, desk: Desk) -> None:
    await desk.add("a")
    await desk.fail(await desk.run("a"), error="no such file", retryable=False)
    said = await why(admin, "a")
    assert (said["state"], said["reason"]) == ("dead", "dead")
    assert "no such file" in said["text"]
    assert "podium deadletter replay" in said["next"]


async def test_a_long_queue_is_not_counted_to_its_end(home: Home, admin: httpx.AsyncClient) -> None:
    items = [NewItem("q", id=f"i{n}") for n in range(1_200)]
    await home.store.write(home.house.work.enqueue, items)
    await home.advance(1)
    await home.store.write(home.house.work.enqueue, [NewItem("q", id="last")])
    assert "1000+ wait before it" in (await why(admin, "last"))["text"]


TAKEABLE = {"no_worker_seen", "queued"}


async def test_what_is_said_agrees_with_what_a_claim_does(
    home: Home, admin: httpx.AsyncClient, desk: Desk
) -> None:
    """An item is claimed if and only if the reason is that nobody has claimed it."""
    await desk.add("delayed", delay_seconds=100.0)
    await desk.add("old", wait_seconds_max=5.0)
    await desk.add("leased", "running", "done", "dead", "backoff", "free", "cancelled", "silent")
    await desk.take("leased")
    await desk.run("running")
    await desk.complete(await desk.run("done"))
    await desk.fail(await desk.run("dead"), retryable=False)
    await desk.fail(await desk.run("backoff"), delay_seconds=100.0)
    await home.store.write(home.house.work.cancel, ["cancelled"], reason="x")
    await desk.run("silent")
    for seconds in (0.0, 10.0, 70.0, 200.0):
        await home.advance(seconds)
        ids = ["delayed", "old", "leased", "running", "done", "dead", "backoff", "free"]
        reasons = {id: (await why(admin, id))["reason"] for id in [*ids, "cancelled", "silent"]}
        taken = {it.id for it in await desk.claim(100, holder="judge")}
        assert taken == {id for id, reason in reasons.items() if reason in TAKEABLE}
        for item in await desk.claim_ids(*taken, holder="judge"):
            raise AssertionError(f"{item.id} was taken twice")
        rows = await home.query("select id, epoch from work where holder = 'judge'")
        await home.store.write(home.house.work.release, rows)
        await home.sweep()


async def test_every_state_can_be_explained(home: Home) -> None:
    """Whatever state comes later: somebody must say why an item is in it."""
    assert {it.value for it in State} == {
        "scheduled", "ready", "offered", "leased", "running", "done", "dead", "cancelled",
    }  # fmt: skip
