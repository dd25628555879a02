"""State machines written as tables.

A machine is data: the states of one kind of thing and the moves between them. Whoever needs
the rules reads the same table: the guard below, the WHERE clause a store writes, the diagram
in the docs, and the random walk in the property tests.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from podium.kernel.errors import IllegalMove


@dataclass(frozen=True, slots=True)
class Move:
    name: str
    source: StrEnum
    target: StrEnum
    when: str


class Machine:
    """Moves with one name may lead to several targets (a failure retries or buries); then the
    caller says which with `towards`."""

    def __init__(self, name: str, start: Iterable[StrEnum], moves: Iterable[Move]) -> None:
        self.name = name
        self.start = tuple(start)
        self.moves = tuple(moves)
        listed = {(move.name, move.source, move.target) for move in self.moves}
        if len(listed) != len(self.moves):
            raise ValueError(f"{name}: a move is listed twice")
        self._targets: dict[tuple[str, StrEnum], tuple[StrEnum, ...]] = {}
        for move in self.moves:
            key = (move.name, move.source)
            self._targets[key] = (*self._targets.get(key, ()), move.target)

    def to(self, state: StrEnum, move: str, towards: StrEnum | None = None) -> StrEnum:
        """Where `move` leads from `state`; IllegalMove if it leads nowhere, or not there."""
        targets = self._targets.get((move, state), ())
        if towards is None and len(targets) == 1:
            return targets[0]
        if towards is not None and towards in targets:
            return towards
        if towards is None and targets:
            raise ValueError(f"{self.name}: {move} from {state} may lead to {targets}: say which")
        raise IllegalMove(self.name, state, move)

    def sources(self, move: str) -> list[StrEnum]:
        """The states `move` may leave from, ready for a WHERE clause."""
        return list(dict.fromkeys(m.source for m in self.moves if m.name == move))

    def allows(self, source: StrEnum, target: StrEnum) -> bool:
        return any(m.source == source and m.target == target for m in self.moves)

    @property
    def states(self) -> list[StrEnum]:
        every = [*self.start, *(s for m in self.moves for s in (m.source, m.target))]
        return list(dict.fromkeys(every))

    @property
    def terminal(self) -> list[StrEnum]:
        sources = {m.source for m in self.moves}
        return [state for state in self.states if state not in sources]

    def mermaid(self) -> str:
        starts = [f"    [*] --> {state}" for state in self.start]
        moves = [f"    {m.source} --> {m.target}: {m.name} ({m.when})" for m in self.moves]
        ends = [f"    {state} --> [*]" for state in self.terminal]
        return "\n".join(["stateDiagram-v2", *starts, *moves, *ends])
