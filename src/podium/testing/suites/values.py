"""What goes into a store comes out the same, or is refused where it goes in."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from podium.kernel.errors import Invalid
from podium.testing.worlds import World

NOON = datetime(2026, 3, 29, 12, 30, 15, 123_456, tzinfo=UTC)

CELLS: list[tuple[str, Any]] = [
    ("text", "plain"),
    ("text", ""),
    ("text", "ünïcode 🎭 \u2028 \x01 \x7f"),
    ("text", "'; drop table work; -- %s %% :x \\ \" {} \\u0000"),
    ("text", '{"json": [1, "\\u0041"]}'),
    ("text", "null"),
    ("text", "x" * 1_000_000),
    ("text", None),
    ("int", 0),
    ("int", -(2**31)),
    ("int", None),
    ("bigint", 2**63 - 1),
    ("bigint", -(2**63)),
    ("real", 0.1),
    ("real", 1e300),
    ("real", -5e-324),
    ("real", 3.0),
    ("real", None),
    ("bool", True),
    ("bool", False),
    ("time", NOON),
    ("time", datetime(1970, 1, 1, tzinfo=UTC)),
    ("time", datetime(1905, 1, 1, 0, 0, 0, 1, tzinfo=UTC)),
    ("time", datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)),
    ("time", None),
]


class ValuesSuite:
    @pytest.mark.parametrize(("kind", "value"), CELLS, ids=lambda v: repr(v)[:25])
    async def test_a_cell_of_a_list_comes_back_as_it_was(
        self, world: World, kind: str, value: Any
    ) -> None:
        (row,) = await world.query(
            f"select i.x_at from :items(before text, x_at {kind}, after text) i"
            if kind == "time"
            else f"select i.x from :items(before text, x {kind}, after text) i",
            items=[("before", value, "after")],
        )
        assert row == (value,)

    async def test_the_rows_of_a_list_keep_their_columns_apart(self, world: World) -> None:
        rows = await world.query(
            "select i.a, i.b, i.c from :items(a text, b int, c text) i order by i.b",
            items=[("x", 1, None), (None, 2, "y"), ("z", 3, "z")],
        )
        assert [tuple(row) for row in rows] == [("x", 1, None), (None, 2, "y"), ("z", 3, "z")]

    @pytest.mark.parametrize("text", ["ünï 🎭", "'\"%s%%:x\\", ""], ids=repr)
    async def test_a_text_comes_back_as_it_was(self, world: World, text: str) -> None:
        await world.script("create table texts (id text primary key)")
        (row,) = await world.query("insert into texts (id) values (:id) returning id", id=text)
        assert row.id == text

    async def test_a_time_comes_back_aware_and_to_the_microsecond(self, world: World) -> None:
        await world.script("create table times (x_at {time})")
        (row,) = await world.query(
            "insert into times (x_at) values (:moment) returning x_at", moment=NOON
        )
        assert row.x_at == NOON
        assert row.x_at.utcoffset() == timedelta(0)

    async def test_a_time_in_another_zone_is_the_same_moment(self, world: World) -> None:
        there = NOON.astimezone(timezone(timedelta(hours=5, minutes=30)))
        await world.script("create table times (x_at {time})")
        (row,) = await world.query(
            "insert into times (x_at) values (:moment) returning x_at", moment=there
        )
        assert row.x_at == NOON
        (row,) = await world.query("select i.x_at from :items(x_at time) i", items=[(there,)])
        assert row.x_at == NOON

    async def test_a_time_without_a_zone_is_refused(self, world: World) -> None:
        naive = NOON.replace(tzinfo=None)
        await world.script("create table times (x_at {time})")
        with pytest.raises(Invalid):
            await world.query("insert into times (x_at) values (:moment)", moment=naive)
        with pytest.raises(Invalid):
            await world.query("select i.x_at from :items(x_at time) i", items=[(naive,)])

    @pytest.mark.parametrize("text", ["a\0b", "\0", "\ud800", "x\udfff"], ids=repr)
    async def test_a_text_that_some_store_cannot_keep_is_refused(
        self, world: World, text: str
    ) -> None:
        await world.script("create table texts (id text)")
        with pytest.raises(Invalid):
            await world.query("insert into texts (id) values (:id)", id=text)
        with pytest.raises(Invalid):
            await world.query("select i.a from :items(a text) i", items=[("fine",), (text,)])

    @pytest.mark.parametrize("cell", [object(), {1, 2}, 2**64], ids=lambda v: type(v).__name__)
    async def test_a_cell_that_is_no_value_is_refused(self, world: World, cell: object) -> None:
        with pytest.raises(Invalid):
            await world.query("select i.a from :items(a bigint) i", items=[(cell,)])

    async def test_spans_and_moments_are_counted_alike(self, world: World) -> None:
        (row,) = await world.query(
            "select micros(i.x_at + seconds(1.5)) - micros(i.x_at) as span,"
            " least(3, 2) as small, greatest(3, 2) as large from :items(x_at time) i",
            items=[(NOON,)],
        )
        assert tuple(row) == (1_500_000, 2, 3)
