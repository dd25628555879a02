"""What was measured: for each subject and measure, the numbers of all rounds."""

from __future__ import annotations

import statistics
from collections.abc import Sequence


class Samples:
    def __init__(self, found: dict[str, list[float]] | None = None) -> None:
        self.found = found or {}

    def add(self, subject: str, measure: str, *values: float) -> None:
        self.found.setdefault(f"{subject} | {measure}", []).extend(values)

    def of(self, subject: str, measure: str) -> list[float]:
        return self.found.get(f"{subject} | {measure}", [])

    def knows(self, subject: str) -> bool:
        return any(name.startswith(f"{subject} | ") for name in self.found)

    def median(self, subject: str, measure: str) -> float | None:
        """None when it was not measured."""
        values = self.of(subject, measure)
        return statistics.median(values) if values else None


def quantile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
