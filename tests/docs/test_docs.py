"""The documentation is tested: links lead somewhere, diagrams come from their tables."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from podium.kernel.work import ITEM, State

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("bench/*.md")]
)
LINK = re.compile(r"\]\((?!https?://|#|mailto:)(?P<target>[^)#\s]+)(?:#[^)]*)?\)")
DIAGRAM = re.compile(
    r"<!-- machine: work item -->\n```mermaid\n(?P<text>.*?)```\n<!-- end -->", re.S
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_file(page: Path) -> None:
    targets = [match["target"] for match in LINK.finditer(page.read_text())]
    missing = [target for target in targets if not (page.parent / target).exists()]
    assert not missing, f"{page.name} links to what is not there: {missing}"


def test_the_diagram_of_a_work_item_is_that_of_its_table() -> None:
    page = (ROOT / "docs/internals/architecture.md").read_text()
    found = DIAGRAM.search(page)
    assert found, "the architecture page has no diagram of a work item"
    assert found["text"] == ITEM.mermaid() + "\n"


def test_the_glossary_knows_every_state_of_a_work_item() -> None:
    glossary = (ROOT / "docs/glossary.md").read_text().lower()
    assert [state for state in State if state not in glossary] == []


def test_decisions_are_numbered_without_gaps_and_say_what_they_cost() -> None:
    pages = sorted((ROOT / "docs/internals/decisions").glob("*.md"))
    assert [int(page.name[:4]) for page in pages] == list(range(1, len(pages) + 1))
    for page in pages:
        text = page.read_text()
        assert text.startswith(f"# {int(page.name[:4])}. ")
        assert "**Situation.**" in text
        assert "**Decision.**" in text
