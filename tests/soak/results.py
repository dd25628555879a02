"""What came out, and how much it proves."""

from __future__ import annotations

from dataclasses import dataclass, field

CONFIDENCE_RULE = 3.0
"""No failure in n trials: with 95 % confidence the rate is below 3/n (the rule of three)."""


@dataclass(slots=True)
class Result:
    part: str
    case: str
    trials: int = 0
    failures: int = 0
    acknowledged: int = 0
    lost: int = 0
    must_lose: bool = False
    """A control: run without what protects, it shows that this rig can see a loss."""
    remarks: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        if self.must_lose:
            return self.lost > 0
        return self.trials > 0 and self.failures == 0 and self.lost == 0

    @property
    def bound(self) -> str:
        if self.must_lose:
            return (
                "control: must lose" if self.is_good else "control lost nothing: the rig is blind"
            )
        if not self.is_good:
            return "FAILED"
        return f"< {min(1.0, CONFIDENCE_RULE / self.trials):.1%} per trial"


HEADINGS = ("part", "case", "trials", "failed", "acknowledged", "lost", "95 % bound", "remarks")


def table(results: list[Result]) -> str:
    rows = [
        HEADINGS,
        *(
            (
                result.part,
                result.case,
                f"{result.trials:,}",
                f"{result.failures:,}",
                f"{result.acknowledged:,}",
                f"{result.lost:,}",
                result.bound,
                "; ".join(result.remarks),
            )
            for result in results
        ),
    ]
    widths = [max(len(row[n]) for row in rows) for n in range(len(HEADINGS))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        for row in rows
    ]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([lines[0], rule, *lines[1:]])
