"""The life of a work item."""

from __future__ import annotations

from enum import StrEnum

from podium.kernel.machine import Machine, Move


class State(StrEnum):
    SCHEDULED = "scheduled"
    READY = "ready"
    OFFERED = "offered"
    LEASED = "leased"
    RUNNING = "running"
    DONE = "done"
    DEAD = "dead"
    CANCELLED = "cancelled"


ITEM = Machine(
    "work item",
    start=[State.SCHEDULED, State.READY],
    moves=[
        Move("promote", State.SCHEDULED, State.READY, "its time has come"),
        Move("promote", State.OFFERED, State.READY, "nobody took the offer"),
        Move("offer", State.READY, State.OFFERED, "shown to one poller, hidden from the others"),
        Move("claim", State.READY, State.LEASED, "granted to a holder"),
        Move("claim", State.OFFERED, State.LEASED, "the offer was taken"),
        Move("claim and start", State.READY, State.RUNNING, "granted and begun in one write"),
        Move("claim and start", State.OFFERED, State.RUNNING, "taken and begun in one write"),
        Move("start", State.LEASED, State.RUNNING, "still current: the holder begins"),
        Move("release", State.LEASED, State.READY, "given back, or never begun in time: free"),
        Move("release", State.RUNNING, State.READY, "given back by its holder"),
        Move("complete", State.RUNNING, State.DONE, "the holder succeeded"),
        Move("retry", State.RUNNING, State.SCHEDULED, "failed or lost; attempts remain; backs off"),
        Move("retry", State.RUNNING, State.READY, "failed or lost; attempts remain; at once"),
        Move("retry", State.LEASED, State.SCHEDULED, "refused before it began; backs off"),
        Move("bury", State.LEASED, State.DEAD, "refused before it began, for good"),
        Move("bury", State.RUNNING, State.DEAD, "failed or lost; no attempt remains"),
        Move("bury", State.READY, State.DEAD, "waited longer than it may"),
        Move("cancel", State.SCHEDULED, State.CANCELLED, "not wanted any more"),
        Move("cancel", State.READY, State.CANCELLED, "not wanted any more"),
        Move("cancel", State.OFFERED, State.CANCELLED, "not wanted any more"),
        Move("cancel", State.LEASED, State.CANCELLED, "not wanted any more"),
        Move("cancel", State.RUNNING, State.CANCELLED, "its holder is told at the next renewal"),
        Move("replay", State.DEAD, State.READY, "an operator asked for one more try"),
    ],
)
