"""An opened secret. It can be held, passed on and compared; it is read only by asking for it."""

from __future__ import annotations

import hmac
from typing import Any, NoReturn

from podium.kernel.errors import Invalid
from podium.kernel.redactor import MASK


class Secret:
    """Prints as `[secret]` wherever it goes. JSON refuses it; a log line shows the mask."""

    __slots__ = ("_value", "name")

    def __init__(self, name: str, value: bytes) -> None:
        self.name = name
        self._value = value

    def reveal(self) -> str:
        """The value as text. Invalid if it is not text: then ask for its bytes."""
        try:
            return self._value.decode()
        except UnicodeDecodeError:
            raise Invalid(f"secret {self.name!r} is not text") from None

    def reveal_bytes(self) -> bytes:
        return self._value

    def __repr__(self) -> str:
        return f"Secret({self.name!r}, {MASK})"

    def __str__(self) -> str:
        return MASK

    def __format__(self, spec: str) -> str:
        return format(MASK, spec)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(self._value, other._value)

    __hash__ = None  # type: ignore[assignment]

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Secret:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not pickled: whoever gets the bytes could read it")
