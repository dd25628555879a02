"""The fleet's smoke test, as part of everything."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fleet.processes import Fleet, ground
from tests.fleet.smoke import smoke


# Three real servers, nine processes, and waiting for the leases of who was killed.
@pytest.mark.timeout(180)
@pytest.mark.xdist_group("fleet")
async def test_a_fleet_on_postgres_nats_and_s3_loses_nothing_when_some_of_it_is_killed(
    tmp_path: Path,
) -> None:
    with ground() as found:
        fleet = Fleet(found, tmp_path)
        try:
            await smoke(fleet, print)
        finally:
            await fleet.stop()
