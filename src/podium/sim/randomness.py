"""Chance, forked by label.

One generator per purpose, all from one seed: when the workload draws once more, the faults stay
where they were.
"""

from __future__ import annotations

import random


class Randomness:
    def __init__(self, seed: str) -> None:
        self._seed = seed

    def fork(self, label: str) -> random.Random:
        # A text is hashed with SHA-512, so PYTHONHASHSEED has no say.
        return random.Random(f"{self._seed}/{label}")
