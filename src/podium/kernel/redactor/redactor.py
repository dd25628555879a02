"""The redactor: what must not be read is struck out before a text leaves the process.

Two kinds of things are masked. Values that somebody registered, in the forms in which they come back
by accident: as they are, in base64 at any alignment, in a URL, in JSON, in a traceback. And shapes
that say by themselves what they are: our own tokens, `Authorization` headers, passwords in URLs,
private keys. A value that is reversed, cut up, compressed or hashed passes through: nobody can catch
those, and `docs/concepts/secrets.md` says so.

Every log line and every journal line goes through here, so a text without a secret must cost next
to nothing. A text is read in steps of four bytes. Of each form seven bytes are chosen: wherever it
stands, one of the four groups of four among them falls on a step. So one pass in C over the steps,
as numbers, says "none of these thousands of forms", and only a hit is looked at closer. The seven
are chosen where the fewest other forms have theirs: a thousand keys that all begin with the same
line must not all be tried at every line of dashes.
"""

from __future__ import annotations

import sys
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from podium.kernel.redactor.forms import LENGTH_MIN, forms, refusal
from podium.kernel.redactor.shapes import AUTHORIZATION, MASK, mask_shapes

VALUES_MAX = 1_000
FORM_BYTES_MAX = 64 * 1024 * 1024

STEP = 4
ANCHOR = 2 * STEP - 1
"""So many bytes contain a whole step, wherever they begin."""
ANCHORS_TRIED = 8
assert ANCHOR <= LENGTH_MIN

Entry = tuple[bytes, int]
"""A form, and how far into it a step is."""
Anchor = list[tuple[int, Entry]]
"""The steps by which a form is met, wherever it stands."""


class Redactor:
    """Knows secret values and strikes them out. It keeps the values themselves: never print one."""

    def __init__(
        self, *, values_max: int = VALUES_MAX, form_bytes_max: int = FORM_BYTES_MAX
    ) -> None:
        self._values_max = values_max
        self._form_bytes_max = form_bytes_max
        self._form_bytes = 0
        self._values: OrderedDict[bytes, list[bytes]] = OrderedDict()
        self._uses: Counter[bytes] = Counter()
        """How many values have a form: keys of one kind have a line in common, and it counts once."""
        self._anchored: dict[bytes, Anchor] = {}
        # Tuples, replaced whole: a thread that logs may read while the loop registers.
        self._index: dict[int, tuple[Entry, ...]] = {}

    def __repr__(self) -> str:
        return f"Redactor({len(self)} values)"

    def __len__(self) -> int:
        return len(self._values)

    # Knowing --------------------------------------------------------------------------------

    def add(self, value: str | bytes) -> str | None:
        """Strike this value out from now on. If it cannot be, nothing changes and the answer is why.

        When there are too many, the one that was not added for the longest time is forgotten.
        """
        data = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else bytes(value)
        if why_not := refusal(data):
            return why_not
        if data in self._values:
            self._values.move_to_end(data)
            return None
        self._values[data] = forms(data)
        for form in self._values[data]:
            self._uses[form] += 1
            if self._uses[form] == 1:
                self._enter(form)
        while len(self) > self._values_max or (self._is_full and len(self) > 1):
            self._forget_oldest()
        return None

    @property
    def _is_full(self) -> bool:
        return self._form_bytes > self._form_bytes_max

    def _enter(self, form: bytes) -> None:
        anchor = min(_anchors(form), key=self._crowd)
        for step, entry in anchor:
            self._index[step] = (*self._index.get(step, ()), entry)
        self._anchored[form] = anchor
        self._form_bytes += len(form)

    def _crowd(self, anchor: Anchor) -> tuple[int, int]:
        """How many forms would have to be tried here; where that is equal, how plain the place is."""
        most = max(len(self._index.get(step, ())) for step, _ in anchor)
        return most, -len({step for step, _ in anchor})

    def _forget_oldest(self) -> None:
        _, gone = self._values.popitem(last=False)
        for form in gone:
            self._uses[form] -= 1
            if not self._uses[form]:
                self._leave(form)

    def _leave(self, form: bytes) -> None:
        for step, entry in self._anchored.pop(form):
            left = list(self._index[step])
            left.remove(entry)
            self._index[step] = tuple(left)
            if not left:
                del self._index[step]
        del self._uses[form]
        self._form_bytes -= len(form)

    # Masking --------------------------------------------------------------------------------

    def mask(self, text: str) -> str:
        """The text with every secret struck out. For log lines, journal lines, error texts alike."""
        return mask_shapes(self._mask_values(text))

    def mask_json(self, text: str) -> str:
        """As `mask`, for a JSON text, which stays one: only inside its texts is anything replaced."""
        if self.mask(text) == text:
            return text
        return orjson.dumps(self.mask_tree(orjson.loads(text))).decode()

    def mask_tree(self, value: Any) -> Any:
        """A copy of a JSON-like value with every secret in its texts, keys and numbers struck out."""
        if isinstance(value, str):
            return self.mask(value)
        if isinstance(value, dict):
            return {self.mask_tree(key): self._mask_field(key, part) for key, part in value.items()}
        if isinstance(value, list | tuple):
            return [self.mask_tree(part) for part in value]
        if isinstance(value, int | float) and self._index and self.mask(repr(value)) != repr(value):
            return MASK
        return value

    def _mask_field(self, key: object, value: Any) -> Any:
        """In a tree, a header's name and its value are apart: together they have the shape."""
        if isinstance(key, str) and isinstance(value, str) and AUTHORIZATION.needle in key.lower():
            head = f"{AUTHORIZATION.needle}: "
            value = AUTHORIZATION.pattern.sub(AUTHORIZATION.instead, head + value)[len(head) :]
        return self.mask_tree(value)

    def _mask_values(self, text: str) -> str:
        if not self._index:
            return text
        data = text.encode("utf-8", "surrogatepass")
        steps = memoryview(data)[: len(data) // STEP * STEP].cast("I")
        if self._index.keys().isdisjoint(steps):
            return text
        spans = _merged(sorted(self._found(data, steps)))
        return _struck_out(data, spans) if spans else text

    def _found(self, data: bytes, steps: Iterable[int]) -> Iterator[tuple[int, int]]:
        for n, step in enumerate(steps):
            for form, offset in self._index.get(step, ()):
                start = n * STEP - offset
                if start >= 0 and data.startswith(form, start):
                    yield start, start + len(form)


REDACTOR = Redactor()
"""The one of this process, and the default wherever one is passed in.

It is shared on purpose. The log is one per process, because `logging` is; and a value that one
part knows to be secret must not be told by another part that never heard of it. A redactor that
somebody forgets to hand on would be a leak, while sharing can only mask more. Nothing is ever
decided by what it knows.
"""


def _anchors(form: bytes) -> Iterator[Anchor]:
    """A few to choose from, from the beginning of a form to its end."""
    last = len(form) - ANCHOR
    for at in dict.fromkeys(last * n // (ANCHORS_TRIED - 1) for n in range(ANCHORS_TRIED)):
        yield [
            (int.from_bytes(form[offset : offset + STEP], sys.byteorder), (form, offset))
            for offset in range(at, at + STEP)
        ]


def _merged(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Where spans touch or overlap they become one: no remainder stands between two masks."""
    merged: list[tuple[int, int]] = []
    for start, end in spans:
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _struck_out(data: bytes, spans: Iterable[tuple[int, int]]) -> str:
    kept, at = [], 0
    for start, end in spans:
        kept.append(data[at:start])
        at = end
    kept.append(data[at:])
    return MASK.encode().join(kept).decode("utf-8", "surrogatepass")
