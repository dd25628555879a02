"""A machine only ever makes the moves in its table, and says them the same way everywhere."""

from __future__ import annotations

from enum import StrEnum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podium.contracts.errors import Code
from podium.kernel.errors import IllegalMove
from podium.kernel.machine import Machine, Move
from podium.kernel.work import ITEM, State

NAMES = sorted({move.name for move in ITEM.moves})


class Light(StrEnum):
    RED = "red"
    GREEN = "green"
    BROKEN = "broken"


LIGHT = Machine(
    "light",
    start=[Light.RED],
    moves=[
        Move("switch", Light.RED, Light.GREEN, "time"),
        Move("switch", Light.GREEN, Light.RED, "time"),
        Move("fail", Light.RED, Light.BROKEN, "lightning"),
        Move("fail", Light.RED, Light.RED, "a flicker"),
    ],
)


def test_a_move_leads_where_the_table_says() -> None:
    assert LIGHT.to(Light.RED, "switch") is Light.GREEN
    assert LIGHT.to(Light.RED, "fail", towards=Light.BROKEN) is Light.BROKEN


def test_a_move_that_is_not_in_the_table_is_refused_with_a_code() -> None:
    for state, move, towards in [
        (Light.BROKEN, "switch", None),
        (Light.RED, "fly", None),
        (Light.RED, "fail", Light.GREEN),
    ]:
        with pytest.raises(IllegalMove) as refused:
            LIGHT.to(state, move, towards)
        assert refused.value.code == Code.RESOURCE_ALREADY_PROCESSED
        assert refused.value.details == {"state": str(state), "move": move}


def test_a_move_with_two_ends_must_be_told_which() -> None:
    with pytest.raises(ValueError, match="say which"):
        LIGHT.to(Light.RED, "fail")


def test_a_move_listed_twice_is_refused() -> None:
    move = Move("switch", Light.RED, Light.GREEN, "time")
    with pytest.raises(ValueError, match="twice"):
        Machine("light", start=[Light.RED], moves=[move, move])


def test_sources_are_ready_for_a_where_clause() -> None:
    assert LIGHT.sources("fail") == [Light.RED]
    assert LIGHT.sources("switch") == [Light.RED, Light.GREEN]
    assert LIGHT.sources("fly") == []


def test_states_and_terminal_states_come_from_the_table() -> None:
    assert LIGHT.states == [Light.RED, Light.GREEN, Light.BROKEN]
    assert LIGHT.terminal == [Light.BROKEN]


def test_the_diagram_has_every_state_and_every_move() -> None:
    lines = ITEM.mermaid().splitlines()
    assert lines[0] == "stateDiagram-v2"
    assert len(lines) == 1 + len(ITEM.start) + len(ITEM.moves) + len(ITEM.terminal)


def test_a_finished_item_stays_finished_but_a_dead_letter_may_be_replayed() -> None:
    assert set(ITEM.terminal) == {State.DONE, State.CANCELLED}
    assert [m.name for m in ITEM.moves if m.source is State.DEAD] == ["replay"]


@given(
    st.sampled_from(ITEM.start), st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(State)))
)
def test_no_walk_leaves_the_table(state: StrEnum, walk: list[tuple[str, State]]) -> None:
    for name, towards in walk:
        try:
            after = ITEM.to(state, name, towards)
        except IllegalMove:
            assert not any(
                m.name == name and m.source == state and m.target == towards for m in ITEM.moves
            )
            continue
        assert state in ITEM.sources(name)
        assert state not in ITEM.terminal
        assert ITEM.allows(state, after)
        state = after
