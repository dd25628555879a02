"""Each word of our SQL, in both dialects; and mistakes that are found when a query is loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from podium.kernel.migrate import SQL
from podium.kernel.queries import POSTGRES, SQLITE, Queries, translate

BOTH = [
    ("select :id as id", "select :id as id", "select %(id)s as id"),
    (
        "select i.id from :items(id text, n int) i",
        "select i.id from (select value ->> 0 as id, value ->> 1 as n from jsonb_each(:items)) as i",
        "select i.id from jsonb_to_recordset(%(items)s::jsonb) as i(id text, n int)",
    ),
    (
        "select podium_now()",
        "select (select podium_now())",
        "select (select podium_now())",
    ),
    (
        "select seconds(a * (b + 1))",
        "select cast((a * (b + 1)) * 1000000 as integer)",
        "select make_interval(secs => a * (b + 1))",
    ),
    (
        "select micros(t)",
        "select (t)",
        "select (extract(epoch from t) * 1000000)::bigint",
    ),
    ("select least(a, b)", "select min(a, b)", "select least(a, b)"),
    ("select greatest(a, f(b))", "select max(a, f(b))", "select greatest(a, f(b))"),
    ("select 1 for update", "select 1", "select 1 for update"),
    (
        "select 1 from t as w for update of w skip locked",
        "select 1 from t as w",
        "select 1 from t as w for update of w skip locked",
    ),
    ("select a % 2, x::text", "select a % 2, x::text", "select a %% 2, x::text"),
    ("-- why: :not_this\nselect 1; -- end", "select 1", "select 1"),
]


@pytest.mark.parametrize(("source", "sqlite", "postgres"), BOTH, ids=[each[0] for each in BOTH])
def test_each_word_is_said_in_both_dialects(source: str, sqlite: str, postgres: str) -> None:
    assert translate("x", source, SQLITE).text.strip() == sqlite
    assert translate("x", source, POSTGRES).text.strip() == postgres


def test_a_query_knows_its_parameters_and_the_columns_of_its_lists() -> None:
    source = "select :a from :items(id text, n int) i; select :b from :items(id text) j"
    for dialect in (SQLITE, POSTGRES):
        query = translate("x", source, dialect)
        assert query.parameters == {"a", "b", "items"}
        assert query.lists == {"items": ("id", "n")}


def test_a_list_with_two_orders_of_columns_is_refused() -> None:
    source = "select 1 from :items(id text, n int) i; select 1 from :items(n int) j"
    with pytest.raises(ValueError, match="two orders"):
        translate("x", source, SQLITE)


def test_a_parenthesis_that_is_never_closed_is_refused() -> None:
    with pytest.raises(ValueError, match="never closed"):
        translate("x", "select seconds((1)", SQLITE)


def test_a_type_that_nobody_knows_is_refused() -> None:
    with pytest.raises(KeyError):
        translate("x", "select 1 from :items(id blob) i", POSTGRES)


def test_a_dialect_has_the_last_word_and_only_its_own(tmp_path: Path) -> None:
    (tmp_path / "notes.sql").write_text("-- a --\nselect 1;\n\n-- b --\nselect 2;\n")
    (tmp_path / "notes.postgres.sql").write_text("-- b --\nselect 3;\n\n-- c --\nselect 4;\n")
    sqlite, postgres = Queries(SQLITE, [tmp_path]), Queries(POSTGRES, [tmp_path])
    assert sqlite["notes.b"].text == "select 2"
    assert postgres["notes.a"].text == "select 1"
    assert postgres["notes.b"].text == "select 3"
    with pytest.raises(LookupError, match=r"notes\.c"):
        sqlite["notes.c"]


def test_a_template_takes_identifiers_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "own.sql").write_text("-- take --\nupdate {table} set {owner} = :owner;\n")
    queries = Queries(SQLITE, [tmp_path])
    queries.instantiate("own", "own_runs", table="runs", owner="owner_id")
    assert queries["own_runs.take"].text == "update runs set owner_id = :owner"
    assert queries["own_runs.take"].parameters == {"owner"}
    for evil in ("runs; drop table work", "", "Runs", "a" * 64, "1a", 'a"b'):
        with pytest.raises(ValueError, match="identifier"):
            queries.instantiate("own", "own_evil", table=evil, owner="x")


def test_both_dialects_know_the_same_queries_with_the_same_parameters() -> None:
    """What a caller passes must not depend on the store."""
    sqlite, postgres = Queries(SQLITE, [SQL]), Queries(POSTGRES, [SQL])
    names = set(iter(sqlite)) ^ set(iter(postgres))
    assert not names, f"known to one dialect only: {names}"
    for name in iter(sqlite):
        assert sqlite[name].parameters == postgres[name].parameters, name
        assert sqlite[name].lists == postgres[name].lists, name
