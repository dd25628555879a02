"""The master keys: the first is current and seals, the others only open what they sealed before.

A key needs no name: its id is a short hash of it, so the row that it sealed says which key it
waits for, and two operators cannot mean different keys by one name. No key is used for two things:
sealing and each purpose have keys of their own, derived from it.
"""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NoReturn

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from podium.kernel.errors import Invalid, Unavailable

KEY_BYTES = 32
DIFFERENT_BYTES_MIN = 16
MAKE_ONE = "make one with: openssl rand -base64 32"
PURPOSE = re.compile(r"[a-z][a-z0-9-]{0,63}")
TO_STANDARD = str.maketrans("-_", "+/")


class KeyMissing(Unavailable):
    def __init__(self, key_id: str, what: str) -> None:
        super().__init__(
            f"{what} was sealed with master key {key_id}, which this process does not have. "
            "Add that key after the current one, in the key file or in PODIUM_MASTER_KEY, and start again",
            key_id=key_id,
        )


class MasterKey:
    __slots__ = ("_key", "id", "wrap")

    def __init__(self, key: bytes, source: str = "the master key") -> None:
        if why := weakness(key):
            raise Invalid(f"{source} cannot be used: {why}; {MAKE_ONE}", field="master_key")
        self._key = key
        self.id = self._derive("key-id")[:6].hex()
        self.wrap = AESGCM(self._derive("wrap"))
        """Seals the keys of values."""

    def __repr__(self) -> str:
        return f"MasterKey({self.id})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a master key is not pickled: whoever gets the bytes could open everything")

    def reveal_bytes(self) -> bytes:
        return self._key

    def derive(self, purpose: str) -> bytes:
        if not PURPOSE.fullmatch(purpose):
            raise Invalid(f"purpose {purpose!r} is not a short word in small letters")
        return self._derive(f"purpose:{purpose}")

    def _derive(self, label: str) -> bytes:
        info = f"podium:v1:{label}".encode()
        return HKDF(SHA256(), KEY_BYTES, salt=None, info=info).derive(self._key)


class Keyring:
    def __init__(self, keys: Sequence[MasterKey]) -> None:
        if not keys:
            raise Invalid(f"there is no master key; {MAKE_ONE}", field="master_key")
        self.current = keys[0]
        self._by_id = {key.id: key for key in keys}

    @classmethod
    def parse(cls, text: str, source: str) -> Keyring:
        """Keys in base64, with commas or line breaks between them; the first is current."""
        return cls(
            [
                MasterKey(_decoded(word, source), source)
                for word in re.split(r"[\s,]+", text)
                if word
            ]
        )

    def __repr__(self) -> str:
        return f"Keyring({', '.join(self._by_id)})"

    def __iter__(self) -> Iterator[MasterKey]:
        return iter(self._by_id.values())

    def find(self, key_id: str, what: str) -> MasterKey:
        """The key with this id. KeyMissing, naming `what` it should open, if we do not have it."""
        try:
            return self._by_id[key_id]
        except KeyError:
            raise KeyMissing(key_id, what) from None

    def derive(self, purpose: str) -> bytes:
        """A key for one purpose, such as signing links: always the same for one master key.

        The purpose is a label that never changes: another label is another key.
        """
        return self.current.derive(purpose)

    def derive_all(self, purpose: str) -> list[bytes]:
        """As `derive`, of every key, the current one first.

        Whoever verifies tries them all: then what was signed before a rotation holds until the old master key is dropped.
        """
        return [key.derive(purpose) for key in self]


def weakness(key: bytes) -> str | None:
    """Why a key must not be used. Random bytes fail here less than once in 10^13."""
    if len(key) != KEY_BYTES:
        return f"it has {len(key)} bytes and must have {KEY_BYTES}"
    if len(set(key)) <= DIFFERENT_BYTES_MIN:
        return "it repeats itself"
    if len({(b - a) % 256 for a, b in pairwise(key)}) == 1:
        return "it counts"
    if all(0x20 <= byte < 0x7F for byte in key):
        return "it is readable text, not random bytes"
    return None


def _decoded(word: str, source: str) -> bytes:
    standard = word.translate(TO_STANDARD).rstrip("=")
    try:
        return b64decode(standard + "=" * (-len(standard) % 4), validate=True)
    except (Error, ValueError):
        # Without the word: it may well be the key.
        raise Invalid(
            f"{source} has a key that is not base64; {MAKE_ONE}", field="master_key"
        ) from None
