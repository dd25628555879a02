"""Names for new things: ULIDs, 26 characters that sort by the time they were made.

Within one process they are strictly increasing even inside one millisecond, so that rows
appended in order stay in order, and the primary key grows at its right edge.
"""

from __future__ import annotations

import random
import re
from functools import lru_cache

from podium.kernel.clock import Clock, to_micros

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
RANDOM_BITS = 80
ULID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")


class Ulids:
    def __init__(self, clock: Clock, rng: random.Random) -> None:
        self._clock = clock
        self._rng = rng
        self._last = 0

    def new(self) -> str:
        return self.many(1)[0]

    def many(self, count: int) -> list[str]:
        millis = to_micros(self._clock.now()) // 1000
        first = (millis << RANDOM_BITS) | self._rng.getrandbits(RANDOM_BITS)
        # The same millisecond, or a clock that stepped back: go on from the last one instead.
        if millis <= self._last >> RANDOM_BITS:
            first = self._last + 1
        self._last = first + count - 1
        return [encode(value) for value in range(first, first + count)]


def encode(value: int) -> str:
    return _encode_front(value >> 10) + PAIRS[value & 1023]


@lru_cache(maxsize=16)
def _encode_front(value: int) -> str:
    """All but the last two characters: the same for the next thousand values."""
    chars = []
    for _ in range(12):
        chars.append(PAIRS[value & 1023])
        value >>= 10
    return "".join(reversed(chars))


PAIRS = [a + b for a in ALPHABET for b in ALPHABET]
