"""Names for new things: ULIDs, 26 characters that sort by the time they were made.

Within one process they are strictly increasing even inside one millisecond, so that rows
appended in order stay in order, and the primary key grows at its right edge.
"""

from __future__ import annotations

import random
import re

from podium.kernel.clock import Clock, to_micros

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
RANDOM_BITS = 80
RANDOM_LIMIT = 1 << RANDOM_BITS
ULID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")


class Ulids:
    def __init__(self, clock: Clock, rng: random.Random) -> None:
        self._clock = clock
        self._rng = rng
        self._last = 0

    def new(self) -> str:
        millis = to_micros(self._clock.now()) // 1000
        fresh = (millis << RANDOM_BITS) | self._rng.getrandbits(RANDOM_BITS)
        # The same millisecond, or a clock that stepped back: go on from the last one instead.
        same_or_earlier = millis <= self._last >> RANDOM_BITS
        self._last = self._last + 1 if same_or_earlier else fresh
        return encode(self._last)


def encode(value: int) -> str:
    # Ten bits at a time: half the steps of five.
    chars: list[str] = []
    for _ in range(13):
        chars.append(PAIRS[value & 1023])
        value >>= 10
    return "".join(reversed(chars))


PAIRS = [a + b for a in ALPHABET for b in ALPHABET]
