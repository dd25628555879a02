"""What every suite of the queue begins with."""

from __future__ import annotations

import pytest

from podium.testing.desk import Desk
from podium.testing.worlds import World


class WorkSuite:
    @pytest.fixture
    def desk(self, world: World) -> Desk:
        return world.desk()
