"""A log line is one JSON object; a metric has our prefix and says what it means."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from podium.kernel.telemetry import Metrics, log_to, logger


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    root = logging.getLogger("podium")
    before = root.handlers[:], root.level, root.propagate
    stream = io.StringIO()
    log_to(stream)
    yield stream
    root.handlers[:], root.level, root.propagate = before[0], before[1], before[2]


def test_a_line_is_one_json_object_with_its_facts(stream: io.StringIO) -> None:
    logger("podium.test").warning("item set apart", id="ü\n", count=3, name="x", message="y")
    (line,) = stream.getvalue().splitlines()
    told = json.loads(line)
    assert (told["level"], told["logger"], told["text"]) == (
        "warning",
        "podium.test",
        "item set apart",
    )
    assert (told["id"], told["count"], told["name"], told["message"]) == ("ü\n", 3, "x", "y")
    assert told["at"].endswith("+00:00")


def test_facts_cannot_hide_what_happened(stream: io.StringIO) -> None:
    logger("podium.test").info("true", level="none", at="never", logger="x")
    told = json.loads(stream.getvalue())
    assert (told["text"], told["level"], told["logger"]) == ("true", "info", "podium.test")


def test_an_error_is_told_with_its_trace_on_one_line(stream: io.StringIO) -> None:
    try:
        raise ValueError("boom\nboom")
    except ValueError as error:
        logger("podium.test").error("it failed", trace=error)
    (line,) = stream.getvalue().splitlines()
    assert "ValueError: boom" in json.loads(line)["trace"]


def test_any_fact_can_be_told(stream: io.StringIO) -> None:
    logger("podium.test").info("odd", what=object(), keys={1: {2, 3}}, bytes=b"x")
    assert "object object" in json.loads(stream.getvalue())["what"]


def test_debug_is_not_told_by_default(stream: io.StringIO) -> None:
    logger("podium.test").debug("quiet")
    assert stream.getvalue() == ""


def test_every_metric_has_our_prefix_and_a_help_text() -> None:
    families = list(Metrics().registry.collect())
    assert len(families) > 5
    for family in families:
        assert family.name.startswith("podium_"), family.name
        assert len(family.documentation) > 10, family.name


def test_two_processes_worth_of_metrics_live_side_by_side() -> None:
    first, second = Metrics(), Metrics()
    first.store_commits.inc()
    assert second.registry.get_sample_value("podium_store_commits_total") == 0
