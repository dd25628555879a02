"""One seed as a table: when, who, what, and which rows changed."""

from __future__ import annotations

from podium.sim.day import Outcome
from podium.sim.runner import Task, days_of_this_process
from podium.sim.world import Line

ACTION_WIDTH = 44
NODE_WIDTH = 14


def replay(task: Task) -> Outcome:
    outcome = days_of_this_process().live(task, keeps_lines=True)
    print(f"{'seconds':>10}  {'node':<{NODE_WIDTH}} {'action':<{ACTION_WIDTH}} rows")
    for line in outcome.lines:
        print(table_line(line))
    verdict = outcome.message or "nothing went wrong"
    print(f"{outcome.scenario} {outcome.seed}: {verdict}; history {outcome.digest}")
    return outcome


def table_line(line: Line) -> str:
    start = f"{line.at_seconds:10.3f}  {line.node:<{NODE_WIDTH}} {line.action:<{ACTION_WIDTH}}"
    return f"{start} {line.rows}".rstrip()
