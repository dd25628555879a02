"""One sealed value: AES-256-GCM with a key of its own, which the master key wraps.

    podium:v1:<key id>:<base64url of  wrap nonce 12 | wrapped key 48 | nonce 12 | value and tag>

The name and the version are bound into both parts: a sealed value that is moved to another row
does not open there. The key id is bound into the wrapping only, so that a new master key
re-wraps 48 bytes and leaves the value sealed. What this cannot see is an older sealed value of
the same name that somebody with access to the table puts back.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from typing import NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from podium.kernel.errors import PodiumError
from podium.kernel.secrets.keyring import KEY_BYTES, Keyring, MasterKey

RandomBytes = Callable[[int], bytes]

VERSION = "podium:v1"
NONCE_BYTES = 12
TAG_BYTES = 16
WRAPPED_BYTES = KEY_BYTES + TAG_BYTES
LEAST_BYTES = NONCE_BYTES + WRAPPED_BYTES + NONCE_BYTES + TAG_BYTES


class BrokenSeal(PodiumError):
    def __init__(self, name: str, why: str) -> None:
        super().__init__(
            f"secret {name!r} cannot be opened: {why}. Somebody changed or moved what was stored; "
            "put the secret again, and find out who can write to the database",
            name=name,
        )


class Envelope(NamedTuple):
    key_id: str
    wrap_nonce: bytes
    wrapped: bytes
    nonce: bytes
    sealed: bytes

    @property
    def text(self) -> str:
        body = self.wrap_nonce + self.wrapped + self.nonce + self.sealed
        return f"{VERSION}:{self.key_id}:{_encoded(body)}"


def seal(keyring: Keyring, name: str, value: bytes, random_bytes: RandomBytes) -> Envelope:
    key, nonce = random_bytes(KEY_BYTES), random_bytes(NONCE_BYTES)
    sealed = AESGCM(key).encrypt(nonce, value, _of_value(name))
    return _wrapped(keyring.current, name, key, random_bytes, nonce, sealed)


def open_(keyring: Keyring, name: str, text: str) -> bytes:
    """The value. KeyMissing if we lack its master key, BrokenSeal if anything was changed."""
    envelope = parse(name, text)
    key = _unwrapped(keyring, name, envelope)
    try:
        return AESGCM(key).decrypt(envelope.nonce, envelope.sealed, _of_value(name))
    except InvalidTag:
        raise BrokenSeal(name, "the value does not fit its key or its name") from None


def rewrap(keyring: Keyring, name: str, text: str, random_bytes: RandomBytes) -> Envelope:
    """The same sealed value, for the current master key."""
    envelope = parse(name, text)
    key = _unwrapped(keyring, name, envelope)
    return _wrapped(keyring.current, name, key, random_bytes, envelope.nonce, envelope.sealed)


def parse(name: str, text: str) -> Envelope:
    version, _, rest = text.rpartition(":")[0].rpartition(":")
    if version != VERSION:
        raise BrokenSeal(name, f"it does not begin with {VERSION}")
    body = _decoded(name, text.rpartition(":")[2])
    if len(body) < LEAST_BYTES:
        raise BrokenSeal(name, "it is too short")
    at_key = NONCE_BYTES + WRAPPED_BYTES
    at_value = at_key + NONCE_BYTES
    return Envelope(
        rest, body[:NONCE_BYTES], body[NONCE_BYTES:at_key], body[at_key:at_value], body[at_value:]
    )


def _wrapped(
    master: MasterKey, name: str, key: bytes, random_bytes: RandomBytes, nonce: bytes, sealed: bytes
) -> Envelope:
    wrap_nonce = random_bytes(NONCE_BYTES)
    wrapped = master.wrap.encrypt(wrap_nonce, key, _of_key(master.id, name))
    return Envelope(master.id, wrap_nonce, wrapped, nonce, sealed)


def _unwrapped(keyring: Keyring, name: str, envelope: Envelope) -> bytes:
    master = keyring.find(envelope.key_id, f"secret {name!r}")
    try:
        return master.wrap.decrypt(envelope.wrap_nonce, envelope.wrapped, _of_key(master.id, name))
    except InvalidTag:
        raise BrokenSeal(name, "its key does not fit the master key or its name") from None


def _of_value(name: str) -> bytes:
    return f"{VERSION}:value:{name}".encode()


def _of_key(key_id: str, name: str) -> bytes:
    return f"{VERSION}:key:{key_id}:{name}".encode()


def _encoded(body: bytes) -> str:
    return urlsafe_b64encode(body).decode().rstrip("=")


def _decoded(name: str, text: str) -> bytes:
    try:
        body = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        raise BrokenSeal(name, "it is not base64") from None
    # Python's decoder skips what it does not know: one value must have one text.
    if _encoded(body) != text:
        raise BrokenSeal(name, "it is not base64 as we write it")
    return body
