"""How long to wait before trying again. Pure: the same policy, attempt and draw, the same delay."""

from __future__ import annotations

import random
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field


class Backoff(StrEnum):
    FIXED = "fixed"
    LINEAR = "linear"
    EXPONENTIAL = "exponential"


class RetryPolicy(BaseModel):
    """`attempts_max` counts starts, whatever ended them: 1 means never started twice."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    backoff: Backoff = Backoff.EXPONENTIAL
    base_seconds: float = Field(default=1.0, ge=0, le=86_400, allow_inf_nan=False)
    cap_seconds: float = Field(default=300.0, ge=0, le=7 * 86_400, allow_inf_nan=False)
    jitter: float = Field(
        default=0.1,
        ge=0,
        le=1,
        allow_inf_nan=False,
        description="Each delay moves by up to this share, up or down, and never above the cap.",
    )

    def delay_seconds(self, attempt: int, rng: random.Random) -> float:
        """The wait after start number `attempt` (the first is 1) ended badly."""
        if attempt < 1:
            raise ValueError(f"attempt {attempt}: the first attempt is 1")
        delay = min(self._grown(attempt), self.cap_seconds)
        moved = delay * (1 + self.jitter * (2 * rng.random() - 1))
        return min(moved, self.cap_seconds)

    def _grown(self, attempt: int) -> float:
        match self.backoff:
            case Backoff.FIXED:
                return self.base_seconds
            case Backoff.LINEAR:
                return self.base_seconds * attempt
            case Backoff.EXPONENTIAL:
                # Two to the power of 63 is past every cap; a float would overflow at 1,024.
                return self.base_seconds * 2.0 ** min(attempt - 1, 63)


DEFAULT = RetryPolicy()
