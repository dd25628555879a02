"""The reference pages say what the code says: all of it, and nothing else."""

from __future__ import annotations

import re

import pytest

from podium.app.sources import fields
from podium.contracts.errors import Code
from podium.http.errors import STATUS
from tests.docs.reference import (
    FOLDER,
    PAGES,
    commands,
    explanations,
    metrics,
    openapi,
)


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_what_the_code_says(name: str) -> None:
    assert (FOLDER / name).read_text() == PAGES[name](), f"{name} is old: run scripts/docs"


def test_every_setting_is_on_its_page_and_explained() -> None:
    page = (FOLDER / "settings.md").read_text()
    assert [field.name for field in fields() if f"| `{field.name}` |" not in page] == []
    assert [field.name for field in fields() if not field.info.description] == []


def test_every_command_is_on_its_page_with_all_its_options() -> None:
    page = (FOLDER / "cli.md").read_text()
    for path, command in commands():
        section = page.split(f"\n## {path}\n")[1].split("\n## ")[0]
        options = [option for each in command.params for option in each.opts if option[:2] == "--"]
        assert [option for option in options if option not in section] == [], path


def test_every_command_explains_itself() -> None:
    assert [path for path, command in commands() if not command.help] == []


def test_every_route_is_on_its_page_with_what_it_needs() -> None:
    page = (FOLDER / "http.md").read_text()
    for path, methods in openapi()["paths"].items():
        for method, operation in methods.items():
            section = page.split(f"\n## {method.upper()} {path}\n")[1].split("\n## ")[0]
            assert f"Needs: {operation['x-podium-needs']}." in section
            assert operation.get("description"), f"{method} {path} does not say what it does"


def test_every_link_inside_the_http_page_leads_somewhere() -> None:
    page = (FOLDER / "http.md").read_text()
    headings = {heading.lower() for heading in re.findall(r"^## (\w+)$", page, re.MULTILINE)}
    assert set(re.findall(r"\]\(#(\w+)\)", page)) - headings == set()


def test_every_metric_is_on_its_page() -> None:
    page = (FOLDER / "metrics.md").read_text()
    assert [each._name for each in metrics() if f"| `{each._name}` |" not in page] == []


def test_every_code_has_a_status_and_an_explanation() -> None:
    assert set(explanations()) == set(STATUS) == set(Code)
