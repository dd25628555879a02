"""Sealed values and opened secrets: what opens, what is refused, what is never shown."""

from __future__ import annotations

import copy
import json
import logging
import os
import pickle
from dataclasses import asdict, dataclass

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from podium.kernel import payload
from podium.kernel.errors import Invalid
from podium.kernel.redactor import MASK
from podium.kernel.secrets import BrokenSeal, KeyMissing, Keyring, Secret
from podium.kernel.secrets.envelope import Envelope, open_, parse, rewrap, seal
from podium.kernel.secrets.keyring import MasterKey
from podium.kernel.telemetry import JsonLines

FIRST, SECOND = bytes(range(7, 32 * 7, 7)) + b"\x01", os.urandom(32)

SEALED_LONG_AGO = (
    "podium:v1:353f2c2c1008:YRDleBvMzqaWdi5hq-6SLdqQv4UfgHiTv8IWqrTz7UQIgYJbcwXwOZJQi"
    "qV6UORR09tzROWxANwpVfjne9XUfkRvzsKj2BFzr8SrPbfhDNA6G6bVIZFyknjjml35_FLZ88lPGw"
)


def ring(*keys: bytes) -> Keyring:
    return Keyring([MasterKey(key) for key in keys])


@pytest.fixture
def old() -> bytes:
    return os.urandom(32)


@pytest.fixture
def new() -> bytes:
    return os.urandom(32)


# --- the envelope --------------------------------------------------------------------------------

KEYRING = ring(SECOND, FIRST)


def test_what_earlier_releases_derived_and_sealed_stays_good() -> None:
    keyring = ring(FIRST)
    assert keyring.derive("blob-links").hex() == (
        "865e56d6e0058f2e763a18b56a7f5737c458e6644150b86fd6bc551aaa2157c1"
    )
    assert open_(keyring, "smtp", SEALED_LONG_AGO) == b"swordfish-77"


@given(st.binary(max_size=300), st.text(min_size=1, max_size=50).filter(lambda n: n.isprintable()))
def test_what_is_sealed_opens_under_its_name(value: bytes, name: str) -> None:
    text = seal(KEYRING, name, value, os.urandom).text
    assert text.startswith(f"podium:v1:{KEYRING.current.id}:")
    assert open_(KEYRING, name, text) == value


def test_the_same_value_is_never_sealed_twice_alike() -> None:
    sealed = [seal(KEYRING, "a", b"value", os.urandom) for _ in range(50)]
    for field in ("wrap_nonce", "wrapped", "nonce", "sealed"):
        assert len({getattr(envelope, field) for envelope in sealed}) == 50


def test_a_sealed_value_shows_nothing_of_what_is_in_it() -> None:
    envelope = seal(KEYRING, "a", b"visible?" * 4, os.urandom)
    body = b"".join(envelope[1:])
    assert b"visible?" not in body
    assert SECOND not in body


@given(st.text(min_size=1), st.text(min_size=1))
def test_a_sealed_value_does_not_open_under_another_name(name: str, other: str) -> None:
    name, other = repr(name), repr(other) + "'"
    text = seal(KEYRING, name, b"value", os.urandom).text
    with pytest.raises(BrokenSeal):
        open_(KEYRING, other, text)
    with pytest.raises(BrokenSeal):
        rewrap(KEYRING, other, text, os.urandom)


def test_every_bit_of_the_body_counts() -> None:
    envelope = seal(KEYRING, "a", b"some value", os.urandom)
    for field in ("wrap_nonce", "wrapped", "nonce", "sealed"):
        good: bytes = getattr(envelope, field)
        for n in range(len(good) * 8):
            bad = bytearray(good)
            bad[n // 8] ^= 1 << (n % 8)
            changed = Envelope(**{**envelope._asdict(), field: bytes(bad)})
            with pytest.raises(BrokenSeal):
                open_(KEYRING, "a", changed.text)


def test_every_character_of_the_text_counts() -> None:
    """Also the bits that base64 does not use in its last character, and what a decoder skips."""
    for value in (b"x", b"xx", b"xxx"):
        text = seal(KEYRING, "a", value, os.urandom).text
        for n in range(len(text)):
            for other in ("A", "B", "_", "=", "\n", ":"):
                if text[n] != other:
                    with pytest.raises((BrokenSeal, KeyMissing)):
                        open_(KEYRING, "a", text[:n] + other + text[n + 1 :])
            with pytest.raises((BrokenSeal, KeyMissing)):
                open_(KEYRING, "a", text[:n])
        for more in ("=", "A", "\n", "!"):
            with pytest.raises(BrokenSeal):
                open_(KEYRING, "a", text + more)


@pytest.mark.parametrize(
    "text", ["", "podium", "podium:v1:", "podium:v2:000000000000:AAAA", "plain text", "ü" * 200]
)
def test_what_was_never_sealed_is_refused(text: str) -> None:
    with pytest.raises(BrokenSeal, match="put the secret again"):
        open_(KEYRING, "a", text)


def test_parts_of_two_envelopes_do_not_make_one() -> None:
    one, two = (seal(KEYRING, "a", value, os.urandom) for value in (b"one", b"two"))
    mixed = Envelope(one.key_id, one.wrap_nonce, one.wrapped, two.nonce, two.sealed)
    with pytest.raises(BrokenSeal):
        open_(KEYRING, "a", mixed.text)


def test_a_key_id_that_names_another_of_our_keys_is_refused() -> None:
    envelope = seal(KEYRING, "a", b"value", os.urandom)
    other = MasterKey(FIRST).id
    with pytest.raises(BrokenSeal):
        open_(KEYRING, "a", envelope._replace(key_id=other).text)


def test_a_key_that_is_missing_is_named_with_what_to_do(old: bytes, new: bytes) -> None:
    text = seal(ring(old), "smtp-password", b"value", os.urandom).text
    with pytest.raises(KeyMissing) as missing:
        open_(ring(new), "smtp-password", text)
    said = str(missing.value)
    assert MasterKey(old).id in said
    assert "smtp-password" in said
    assert "PODIUM_MASTER_KEY" in said


def test_rewrapping_moves_to_the_current_key_and_leaves_the_value_sealed(
    old: bytes, new: bytes
) -> None:
    before = seal(ring(old), "a", b"value", os.urandom)
    after = rewrap(ring(new, old), "a", before.text, os.urandom)
    assert (after.nonce, after.sealed) == (before.nonce, before.sealed)
    assert open_(ring(new), "a", after.text) == b"value"
    assert parse("a", after.text) == after
    with pytest.raises(KeyMissing):
        open_(ring(old), "a", after.text)


# --- an opened secret ----------------------------------------------------------------------------


@dataclass
class Login:
    user: str
    password: Secret


def test_a_secret_does_not_print_itself() -> None:
    secret = Secret("smtp", b"swordfish-77")
    login = Login("me", secret)
    record = logging.makeLogRecord({"msg": "sent", "facts": {"login": login, "raw": secret}})
    shown = [
        str(secret),
        repr(secret),
        f"{secret} {secret!r} {secret:>30}",
        "%s %r" % (secret, secret),  # noqa: UP031
        repr(login),
        repr(asdict(login)),
        json.dumps(secret, default=str),
        orjson.dumps([secret], default=repr).decode(),
        JsonLines().format(record),
    ]
    for text in shown:
        assert "swordfish" not in text
        assert MASK in text
    assert not hasattr(secret, "__dict__")


def test_json_and_pickle_refuse_a_secret() -> None:
    secret = Secret("smtp", b"swordfish-77")
    for refuse in (json.dumps, orjson.dumps, payload.dumps, pickle.dumps):
        with pytest.raises((TypeError, Invalid)) as refused:
            refuse(secret)
        assert "swordfish" not in str(refused.value)


def test_a_secret_is_read_by_asking_for_it() -> None:
    assert Secret("a", "ünïcode".encode()).reveal() == "ünïcode"
    assert Secret("a", b"\xff").reveal_bytes() == b"\xff"
    with pytest.raises(Invalid, match="not text"):
        Secret("a", b"\xff").reveal()


def test_secrets_are_compared_by_value_and_copied_by_reference() -> None:
    secret = Secret("a", b"value")
    assert secret == Secret("b", b"value")
    assert secret != Secret("a", b"other")
    assert secret != "value"
    assert copy.deepcopy([secret])[0] is secret
    with pytest.raises(TypeError):
        hash(secret)
