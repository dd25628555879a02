"""The checkers, each invariant shown to fire on a history that breaks it, and on no other."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from podium.kernel.work import Lease, Verdict
from podium.sim.checkers import BusChecker, OwnershipChecker, WorkChecker
from podium.sim.loop import Node, Violation
from podium.sim.store import Change
from podium.sim.template import Template
from podium.sim.world import Checker, Transaction, World
from tests.sim.conftest import MakeWorld

NOW = 1_000_000_000_000
SECOND = 1_000_000


class History:
    """Tells a checker what happened, row by row."""

    def __init__(self, world: World, template: Template, checker: Checker) -> None:
        self.checker = checker
        self._world = world
        self._template = template
        self._nodes = {name: Node(world.loop, name) for name in ("one", "two", "engine")}

    def row(self, table: str, **facts: Any) -> Any:
        make = self._template.makers[table]
        fields: Iterable[str] = make.__self__._fields  # type: ignore[attr-defined]
        return make(tuple(facts.get(field, DEFAULTS.get(field)) for field in fields))

    def see(
        self,
        *changes: Change,
        by: str = "one",
        body: str = "a body",
        presents: tuple[Lease, ...] = (),
        result: Any = None,
        now: int = NOW,
    ) -> None:
        arguments = (list(presents),)
        self.checker.see(
            Transaction(
                self._nodes[by],
                body,
                now,
                frozenset((lease.id, lease.epoch) for lease in presents),
                arguments,
                result,
                list(changes),
            )
        )

    # A work item's life, in the shortest words ------------------------------------------------

    def work(self, state: str, **facts: Any) -> Any:
        held: dict[str, Any] = {"holder": "one", "epoch": 1, "wake_at": NOW + 60 * SECOND}
        running: dict[str, Any] = {**held, "attempts": 1, "started_at": NOW}
        kinds = {"leased": held, "running": running, "offered": {"holder": "one"}}
        more: dict[str, Any] = kinds.get(state, {})
        return self.row("work", **{"state": state, **more, **facts})

    def moved(self, old: Any, new: Any) -> Change:
        return Change("work", old, new)

    def ended(self, old: Any, state: str, **facts: Any) -> list[Change]:
        end = {"state": state, "epoch": old.epoch, "attempts": old.attempts, **facts}
        return [
            Change("work_finished", None, self.row("work_finished", **end)),
            Change("work", old, None),
        ]

    def line(self, event: str, epoch: int | None = 1) -> Change:
        facts = {"kind": "work", "aggregate_id": "a", "event": event, "epoch": epoch}
        return Change("journal", None, self.row("journal", **facts))

    def up_to(self, state: str) -> Any:
        """An item that has come to `state` as it should."""
        born = self.work("scheduled" if state == "scheduled" else "ready")
        self.see(self.moved(None, born))
        if state in ("ready", "scheduled"):
            return born
        row = self.work(state)
        self.see(self.moved(born, row))
        return row


DEFAULTS: dict[str, Any] = {
    "id": "a",
    "queue": "q",
    "wake_at": NOW + 1_000 * SECOND,
    "epoch": 0,
    "attempts": 0,
    "attempts_max": 3,
    "lease_seconds": 60.0,
    "steps_count": 2,
    "run_id": "r",
}
A1 = Lease("a", 1)


@pytest.fixture
def work(make_world: MakeWorld, template: Template) -> History:
    world = make_world()
    return History(world, template, WorkChecker(world))


def unheard_of_move(h: History) -> None:
    h.see(h.moved(h.up_to("leased"), h.work("offered", epoch=1)))


def born_running(h: History) -> None:
    h.see(h.moved(None, h.work("running", epoch=0, attempts=0)))


def lives_again(h: History) -> None:
    h.see(*h.ended(h.up_to("running"), "done"), h.line("done"), presents=(A1,))
    h.see(h.moved(None, h.work("ready")))


def finished_and_not(h: History) -> None:
    h.see(h.ended(h.up_to("running"), "done")[0], h.line("done"), presents=(A1,))


def deleted(h: History) -> None:
    h.see(h.moved(h.up_to("ready"), None))


def granted_under_the_same_epoch(h: History) -> None:
    h.see(h.moved(h.up_to("ready"), h.work("leased", epoch=0)))


def taken_from_its_holder(h: History) -> None:
    back = h.work("scheduled", epoch=1, attempts=1)
    h.see(h.moved(h.up_to("running"), back), h.line("retried"), by="engine")


def granted_to_somebody_else(h: History) -> None:
    h.see(h.moved(h.up_to("ready"), h.work("leased", holder="two")))


def completed_by_another(h: History) -> None:
    h.see(*h.ended(h.up_to("running"), "done"), h.line("done"), by="two", presents=(A1,))


def completed_under_an_old_epoch(h: History) -> None:
    h.see(*h.ended(h.up_to("running"), "done"), h.line("done"), presents=(Lease("a", 0),))


def renewed_too_late(h: History) -> None:
    row, later = h.up_to("running"), NOW + 61 * SECOND
    renewed = row._replace(wake_at=later + 60 * SECOND)
    h.see(h.moved(row, renewed), presents=(A1,), now=later)


def told_to_begin_what_is_lost(h: History) -> None:
    h.up_to("ready")
    h.see(body="Work.start", presents=(A1,), result=[Verdict.OK])


def told_ok_and_nothing_happened(h: History) -> None:
    h.up_to("running")
    h.see(body="Work.complete", presents=(A1,), result=[Verdict.OK])


def refused_and_it_happened(h: History) -> None:
    row = h.up_to("running")
    h.see(h.moved(row, row), body="Work.renew", presents=(A1,), result=[Verdict.EXPIRED])


def started_without_counting(h: History) -> None:
    h.see(h.moved(h.up_to("leased"), h.work("running", attempts=0)), presents=(A1,))


def one_attempt_too_many(h: History) -> None:
    born = h.work("ready", attempts_max=0)
    h.see(h.moved(None, born))
    h.see(h.moved(born, h.work("running", attempts_max=0)))


def promoted_too_soon(h: History) -> None:
    h.see(h.moved(h.up_to("scheduled"), h.work("ready")), by="engine")


def buried_too_soon(h: History) -> None:
    h.see(*h.ended(h.up_to("ready"), "dead"), h.line("dead", 0), by="engine")


def handed_out_too_late(h: History) -> None:
    row, later = h.up_to("ready"), NOW + 2_000 * SECOND
    h.see(h.moved(row, h.work("leased", wake_at=later)), now=later)


def held_for_an_hour(h: History) -> None:
    h.see(h.moved(h.up_to("ready"), h.work("leased", wake_at=NOW + 3_600 * SECOND)))


def nobody_will_look(h: History) -> None:
    h.see(h.moved(None, h.work("ready")._replace(wake_at=None)))


def ended_without_a_line(h: History) -> None:
    h.see(*h.ended(h.up_to("running"), "done"), presents=(A1,))


def two_lines_for_one_end(h: History) -> None:
    h.see(*h.ended(h.up_to("running"), "done"), h.line("done"), h.line("done"), presents=(A1,))


WORK: dict[Callable[[History], None], str] = {
    unheard_of_move: "moves_are_allowed",
    born_running: "moves_are_allowed",
    lives_again: "ends_once",
    finished_and_not: "never_both",
    deleted: "nothing_vanishes",
    granted_under_the_same_epoch: "epoch_grows_by_grant",
    taken_from_its_holder: "one_holder",
    granted_to_somebody_else: "one_holder",
    completed_by_another: "fenced",
    completed_under_an_old_epoch: "fenced",
    renewed_too_late: "fenced",
    told_to_begin_what_is_lost: "superseded_never_starts",
    told_ok_and_nothing_happened: "verdicts_are_true",
    refused_and_it_happened: "verdicts_are_true",
    started_without_counting: "attempts_are_counted",
    one_attempt_too_many: "attempts_are_counted",
    promoted_too_soon: "nothing_early",
    buried_too_soon: "nothing_early",
    handed_out_too_late: "nothing_stale",
    held_for_an_hour: "always_a_wake",
    nobody_will_look: "always_a_wake",
    ended_without_a_line: "one_line_per_end",
    two_lines_for_one_end: "one_line_per_end",
}


def name_of(value: object) -> str:
    return getattr(value, "__name__", str(value))


@pytest.mark.parametrize(("story", "invariant"), WORK.items(), ids=name_of)
def test_the_queue_is_watched(
    work: History, story: Callable[[History], None], invariant: str
) -> None:
    with pytest.raises(Violation) as raised:
        story(work)
    assert raised.value.invariant == invariant


def test_a_good_life_is_no_offence(work: History) -> None:
    row = work.up_to("leased")
    running = work.work("running")
    work.see(work.moved(row, running), body="Work.start", presents=(A1,), result=[Verdict.OK])
    back = work.work("scheduled", epoch=1, attempts=1)
    work.see(work.moved(running, back), work.line("retried"), by="engine", now=NOW + 61 * SECOND)
    work.see(
        *work.ended(back, "cancelled"), work.line("cancelled"), by="two", now=NOW + 62 * SECOND
    )
    work.checker.finish()


def test_what_is_not_over_at_the_end_is_seen(work: History) -> None:
    work.up_to("ready")
    with pytest.raises(Violation, match="everything_ends"):
        work.checker.finish()


# --- ownership ------------------------------------------------------------------------------------

R1 = Lease("r", 1)


@pytest.fixture
def runs(make_world: MakeWorld, template: Template) -> History:
    world = make_world()
    return History(world, template, OwnershipChecker(world))


def run(h: History, **facts: Any) -> Any:
    return h.row("runs", **{"id": "r", "state": "running", "wake_at": NOW, **facts})


def owned(h: History) -> Any:
    """A run that `one` has taken, as it should."""
    new, taken = run(h), run(h, owner="one", epoch=1, wake_at=NOW + 120 * SECOND)
    h.see(Change("runs", None, new))
    h.see(Change("runs", new, taken))
    return taken


def step(h: History, n: int, state: str = "dispatched") -> Any:
    return h.row("steps", id=f"r/{n}", n=n, state=state)


def dispatch(h: History, n: int, **who: Any) -> None:
    item = Change("work", None, h.row("work", id=f"r/{n}", parent="r", state="ready"))
    h.see(Change("steps", None, step(h, n)), item, **{"presents": (R1,), **who})


def cancelled(h: History, *, raises: bool = True) -> None:
    row = owned(h)
    free = row._replace(owner=None, epoch=2 if raises else 1, wake_at=NOW)
    command = Change("commands", None, h.row("commands", name="cancel"))
    h.see(command, *([Change("runs", row, free)] if raises else []), by="two")


def taken_early(h: History) -> None:
    row = owned(h)
    h.see(Change("runs", row, row._replace(owner="two", epoch=2)), by="two")


def taken_without_an_epoch(h: History) -> None:
    row = owned(h)
    h.see(Change("runs", row, row._replace(owner="two")), by="two")


def epoch_goes_back(h: History) -> None:
    row = owned(h)
    h.see(Change("runs", row, row._replace(epoch=0)))


def written_by_a_stranger(h: History) -> None:
    owned(h)
    dispatch(h, 1, by="two")


def written_under_an_old_epoch(h: History) -> None:
    owned(h)
    dispatch(h, 1, presents=(Lease("r", 0),))


def cancelled_under_the_old_epoch(h: History) -> None:
    cancelled(h, raises=False)


def second_before_first(h: History) -> None:
    owned(h)
    dispatch(h, 2)


def second_beside_first(h: History) -> None:
    owned(h)
    dispatch(h, 1)
    dispatch(h, 2)


def dispatched_without_work(h: History) -> None:
    owned(h)
    h.see(Change("steps", None, step(h, 1)), presents=(R1,))


def dispatched_after_cancel(h: History) -> None:
    cancelled(h)
    row = h.checker.runs["r"].row  # type: ignore[attr-defined]
    h.see(Change("runs", row, row._replace(owner="one", epoch=3)))
    dispatch(h, 1, presents=(Lease("r", 3),))


def begun_after_cancel(h: History) -> None:
    cancelled(h)
    facts = {"id": "r/1", "parent": "r", "epoch": 1}
    ready = h.row("work", state="leased", **facts)
    h.see(Change("work", ready, h.row("work", state="running", attempts=1, **facts)))


def written_after_its_end(h: History) -> None:
    cancelled(h)
    row = h.checker.runs["r"].row  # type: ignore[attr-defined]
    mine = row._replace(owner="one", epoch=3)
    over = mine._replace(state="cancelled", owner=None, wake_at=None)
    h.see(Change("runs", row, mine))
    h.see(Change("runs", mine, over), presents=(Lease("r", 3),))
    h.see(Change("runs", over, mine), presents=(Lease("r", 3),))


def completed_with_a_step_to_go(h: History) -> None:
    row = owned(h)
    over = row._replace(state="completed", owner=None, wake_at=None)
    h.see(Change("runs", row, over), presents=(R1,))


RUNS: dict[Callable[[History], None], str] = {
    taken_early: "owner_is_not_robbed",
    taken_without_an_epoch: "owner_epoch_grows",
    epoch_goes_back: "owner_epoch_grows",
    written_by_a_stranger: "only_the_owner_writes",
    written_under_an_old_epoch: "only_the_owner_writes",
    cancelled_under_the_old_epoch: "takeover_raises_epoch",
    second_before_first: "steps_in_order",
    second_beside_first: "steps_in_order",
    completed_with_a_step_to_go: "steps_in_order",
    dispatched_without_work: "dispatched_with_work",
    dispatched_after_cancel: "nothing_after_cancel",
    begun_after_cancel: "nothing_after_cancel",
    written_after_its_end: "runs_end_once",
}


@pytest.mark.parametrize(("story", "invariant"), RUNS.items(), ids=name_of)
def test_owned_runs_are_watched(
    runs: History, story: Callable[[History], None], invariant: str
) -> None:
    with pytest.raises(Violation) as raised:
        story(runs)
    assert raised.value.invariant == invariant


# --- the bus --------------------------------------------------------------------------------------


@pytest.fixture
def bus(make_world: MakeWorld, template: Template) -> History:
    world = make_world()
    return History(world, template, BusChecker(world, "orders", lambda kind: ["every"]))


def test_a_row_without_its_message_is_seen(bus: History) -> None:
    with pytest.raises(Violation, match="told_with_the_row"):
        bus.see(Change("orders", None, bus.row("orders", id="o", kind="plain")))


def test_a_message_recorded_twice_is_seen(bus: History) -> None:
    record = Change("received", None, bus.row("received", subscription="every", message_id="o"))
    bus.see(record)
    with pytest.raises(Violation, match="recorded_once"):
        bus.see(record)


def test_what_lies_about_after_its_time_is_seen(work: History, runs: History) -> None:
    work.see(work.moved(None, work.work("scheduled", wake_at=0)))
    with pytest.raises(Violation, match="somebody_looks"):
        work.checker.look()
    runs.see(Change("runs", None, run(runs, wake_at=0)))
    with pytest.raises(Violation, match="somebody_looks"):
        runs.checker.look()
