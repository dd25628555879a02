"""Whatever a payload is, it is kept as it was or refused with a code; nothing in between."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podium.contracts.errors import Code
from podium.kernel import payload
from podium.kernel.errors import Invalid, TooLarge


def nested(depth: int) -> Any:
    value: Any = 1
    for n in range(depth):
        value = [value] if n % 2 else {"x": value}
    return value


REFUSED: dict[str, Any] = {
    "NUL": "a\0b",
    "NUL in a key": {"a\0": 1},
    "NUL deep inside": {"a": [1, {"b": ["\0"]}]},
    "a lone surrogate": "\ud800",
    "a lone surrogate in a key": {"\udfff": 1},
    "NaN": float("nan"),
    "NaN beside an honest null": [None, {"x": float("nan")}],
    "infinity": {"x": [float("-inf")]},
    "65 bits": 2**64,
    "65 bits below": -(2**63) - 1,
    "depth 65": nested(65),
    "depth 1,000": nested(1_000),
    "depth 100,000": nested(100_000),
    "a set": {1, 2},
    "bytes": b"x",
    "an object": object(),
    "keys that are not text": {1: 2},
}

KEPT: dict[str, Any] = {
    "nothing": None,
    "empty": {},
    "an honest null": {"a": None, "b": [None]},
    "the text of an escape": "\\u0000",
    "the word null": "null",
    "depth 64": nested(64),
    "many brackets, flat": [[] for _ in range(1_000)],
    "64 bits": [2**63 - 1, -(2**63)],
    "unicode": "ü 🎭 \u2028 \x01",
}


@pytest.mark.parametrize("value", REFUSED.values(), ids=REFUSED.keys())
def test_what_some_store_could_not_keep_is_refused_by_field(value: Any) -> None:
    with pytest.raises(Invalid) as refused:
        payload.dumps(value, field="input")
    assert refused.value.code == Code.VALIDATION_INVALID_PARAMS
    assert refused.value.details["field"] == "input"


@pytest.mark.parametrize("value", KEPT.values(), ids=KEPT.keys())
def test_what_every_store_can_keep_is_kept(value: Any) -> None:
    assert payload.loads(payload.dumps(value)) == value


def test_a_tuple_is_a_list() -> None:
    assert payload.dumps((1, (2,))) == "[1,[2]]"


def test_ten_megabytes_are_too_large_and_the_limit_can_be_told() -> None:
    with pytest.raises(TooLarge) as refused:
        payload.dumps("x" * 10_000_000)
    assert refused.value.code == Code.PAYLOAD_TOO_LARGE
    assert len(payload.dumps("x" * 2_000_000, bytes_max=3_000_000)) == 2_000_002


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
            inner,
            max_size=5,
        )
    ),
    max_leaves=30,
)


@given(JSON)
def test_any_json_comes_back_as_it_was(value: Any) -> None:
    text = payload.dumps(value)
    assert payload.loads(text) == value
    assert json.loads(text) == value
