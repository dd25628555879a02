"""Who lives in the virtual world, and what they want from it."""

from podium.sim.scenarios.bus import BusScenario
from podium.sim.scenarios.ownership import OwnershipScenario
from podium.sim.scenarios.scenario import Scenario
from podium.sim.scenarios.work import OutageScenario, WorkScenario

SCENARIOS: dict[str, type[Scenario]] = {
    scenario.name: scenario
    for scenario in (WorkScenario, OwnershipScenario, BusScenario, OutageScenario)
}

__all__ = ["SCENARIOS", "Scenario"]
