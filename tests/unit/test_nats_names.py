"""Our names as subjects, consumers and headers: nothing NATS gives a meaning to, and nothing confused."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podium.backends.nats import names
from podium.backends.nats.settings import NatsSettings
from podium.kernel.errors import Invalid

name = st.text(st.characters(codec="utf-8", exclude_characters="/"), min_size=1, max_size=100)
source = st.one_of(name, st.tuples(name, name).map("/".join))

PREFIX = "podium.bus"


def test_plain_names_stay_readable() -> None:
    assert names.subject(PREFIX, "orders") == "podium.bus.orders"
    assert names.subject(PREFIX, "events/audit-1") == "podium.bus.events.audit-1"
    assert names.subject(PREFIX, "a b.*") == "podium.bus.a=20b=2E=2A"
    assert names.durable("events/audit") == "events~audit"


@given(source)
def test_a_subject_can_be_read_back(source: str) -> None:
    subject = names.subject(PREFIX, source)
    assert re.fullmatch(r"podium\.bus(\.[A-Za-z0-9_=-]+){1,2}", subject)
    assert names.source(PREFIX, subject) == source


@pytest.mark.parametrize("subject", ["podium.bus", "podium.bus.a.b.c", "other.a", "podium.bus.=FF"])
def test_a_subject_that_is_none_of_ours_names_nothing(subject: str) -> None:
    assert names.source(PREFIX, subject) is None


@given(source, source)
def test_two_sources_never_share_a_consumer(one: str, other: str) -> None:
    assert (names.durable(one) == names.durable(other)) == (one == other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a/b", "a--b"),
        ("a-/b", "a/-b"),
        ("a--/b", "a/--b"),
        ("a//b", "a/b"),
        ("x" * 300, "x" * 301),
    ],
)
def test_two_sources_that_look_alike_have_two_consumers(one: str, other: str) -> None:
    assert names.durable(one) != names.durable(other)


@given(st.text(st.characters(codec="utf-8"), min_size=1))
def test_any_text_fits_into_a_header(text: str) -> None:
    header = names.header(text)
    assert re.fullmatch(r"[!-~]+", header)
    assert names.unheader(header) == text
    assert ":" not in names.header_name(text)


@pytest.mark.parametrize("settings", [{"stream": "a.b"}, {"stream": ""}, {"prefix": "a..b"}])
def test_a_stream_or_prefix_that_nats_would_misread_is_refused(settings: dict[str, str]) -> None:
    with pytest.raises(Invalid):
        NatsSettings("nats://127.0.0.1", **settings)  # type: ignore[arg-type]
