from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.programs import Up, up


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """One server per module, on a free port, in a folder of its own."""
    with up(tmp_path_factory.mktemp("cli") / "data", "--no-worker") as running:
        yield running
