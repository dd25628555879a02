"""Master keys: where they come from, which are refused, and what is derived from them."""

from __future__ import annotations

import base64
import os
import pickle
import stat
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from podium.kernel.errors import Invalid
from podium.kernel.secrets import Keyring, load_keyring
from podium.kernel.secrets.keyring import MasterKey, weakness


def encoded(key: bytes) -> str:
    return base64.b64encode(key).decode()


def ring(*keys: bytes) -> Keyring:
    return Keyring([MasterKey(key) for key in keys])


@pytest.fixture
def old() -> bytes:
    return os.urandom(32)


@pytest.fixture
def new() -> bytes:
    return os.urandom(32)


# --- keys ----------------------------------------------------------------------------------------


def test_the_first_key_is_current_and_the_others_only_open(old: bytes, new: bytes) -> None:
    keyring = Keyring.parse(f"{encoded(new)},{encoded(old)}", "here")
    assert keyring.current.id == MasterKey(new).id
    assert [key.id for key in keyring] == [MasterKey(new).id, MasterKey(old).id]


@pytest.mark.parametrize("between", [",", ", ", "\n", "\n\n", " \r\n"])
def test_keys_are_separated_by_commas_or_lines(old: bytes, new: bytes, between: str) -> None:
    text = f"{encoded(new)}{between}{encoded(old)}\n"
    assert len(list(Keyring.parse(text, "here"))) == 2


def test_both_alphabets_of_base64_are_taken_padded_or_not() -> None:
    key = b"\xff\xfe\xfd" + os.urandom(29)
    standard, url = encoded(key), base64.urlsafe_b64encode(key).decode()
    ids = {
        Keyring.parse(text, "here").current.id
        for text in (standard, url, standard.rstrip("="), url.rstrip("="))
    }
    assert ids == {MasterKey(key).id}


def test_a_keys_id_is_always_the_same_and_tells_nothing_of_it(old: bytes) -> None:
    assert MasterKey(old).id == MasterKey(old).id
    assert len(MasterKey(old).id) == 12
    assert MasterKey(old).id not in old.hex()


@pytest.mark.parametrize(
    ("key", "why"),
    [
        (b"", "0 bytes"),
        (bytes.fromhex("9f86d081884c7d659a2feaa0c55ad015"), "16 bytes"),
        (bytes.fromhex("a3bf4f1b2b0b822cd15d6c15b0f00a08" * 2 + "7e"), "33 bytes"),
        (b"\0" * 32, "repeats"),
        (b"\xff" * 32, "repeats"),
        (b"0123456789abcdef" * 2, "repeats"),
        (bytes(range(32)), "counts"),
        (bytes(range(255, 223, -1)), "counts"),
        (b"change-me-CHANGE-ME-1234567890!!", "readable"),
    ],
)
def test_a_weak_key_is_refused_and_not_repeated(key: bytes, why: str) -> None:
    with pytest.raises(Invalid) as refused:
        Keyring.parse(encoded(key) or "=", "PODIUM_MASTER_KEY")
    assert why in str(refused.value)
    assert "openssl rand -base64 32" in str(refused.value)
    if key:
        assert encoded(key) not in "".join(traceback.format_exception(refused.value))


def test_random_keys_are_not_weak() -> None:
    assert [weakness(os.urandom(32)) for _ in range(2_000)] == [None] * 2_000


@pytest.mark.parametrize("text", ["", " , ", "not base64!", "ü", "AAAA=AAAA"])
def test_what_is_no_key_is_refused_without_being_repeated(text: str) -> None:
    with pytest.raises(Invalid) as refused:
        Keyring.parse(text, "PODIUM_MASTER_KEY")
    assert not text.strip(" ,") or text not in str(refused.value)


def test_a_keyring_shows_ids_only(old: bytes, new: bytes) -> None:
    keyring = ring(new, old)
    shown = f"{keyring} {keyring!r} {keyring.current} {list(keyring)}"
    assert shown.startswith(f"Keyring({keyring.current.id}, ")
    for key in (old, new):
        assert repr(key)[2:-1] not in shown
        assert key.hex() not in shown
    with pytest.raises(TypeError):
        pickle.dumps(keyring)


def test_each_purpose_has_a_key_of_its_own_that_never_changes(old: bytes, new: bytes) -> None:
    keyring = ring(new, old)
    assert keyring.derive("blob-links") == ring(new).derive("blob-links")
    assert keyring.derive("blob-links") != keyring.derive("cursors")
    assert len(keyring.derive("cursors")) == 32


def test_what_was_signed_before_a_rotation_can_be_verified_after_it(old: bytes, new: bytes) -> None:
    before = ring(old).derive("blob-links")
    after = ring(new, old)
    assert after.derive("blob-links") != before
    assert after.derive_all("blob-links") == [after.derive("blob-links"), before]
    assert before not in ring(new).derive_all("blob-links")


@pytest.mark.parametrize("purpose", ["", "Blob links", "a:b", "ü", "x" * 65])
def test_a_purpose_is_a_short_word(old: bytes, purpose: str) -> None:
    with pytest.raises(Invalid):
        ring(old).derive(purpose)


# --- the key file --------------------------------------------------------------------------------


def load(path: Path, variable: str | None = None, *, may_create: bool = True) -> Keyring:
    return load_keyring(variable, path, random_bytes=os.urandom, may_create=may_create)


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def test_the_file_is_made_at_first_use_for_us_alone_and_read_again(tmp_path: Path) -> None:
    path = tmp_path / "master.key"
    before = os.umask(0)
    try:
        first = load(path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert load(path, may_create=False).current.id == first.current.id
    assert names_in(tmp_path) == ["master.key"]


def test_the_variable_goes_before_the_file(tmp_path: Path, new: bytes) -> None:
    path = tmp_path / "master.key"
    assert load(path, encoded(new)).current.id == MasterKey(new).id
    assert not path.exists()


def test_a_variable_that_is_empty_is_a_mistake_not_a_wish_for_a_new_key(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="no master key"):
        load(tmp_path / "master.key", "")
    assert names_in(tmp_path) == []


def test_without_leave_to_make_one_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match=r"master\.key does not exist and PODIUM_MASTER_KEY"):
        load(tmp_path / "master.key", may_create=False)
    assert names_in(tmp_path) == []


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o660, 0o620, 0o777])
def test_a_file_that_others_can_get_at_is_refused_with_the_remedy(
    tmp_path: Path, mode: int
) -> None:
    path = tmp_path / "master.key"
    load(path)
    path.chmod(mode)
    with pytest.raises(Invalid, match=f"{mode:03o}.*chmod 600 {path}"):
        load(path)
    path.chmod(0o400)
    assert load(path).current.id


@pytest.mark.parametrize("content", [b"", b"\n", b"\xff\xfe", b"c2hvcnQ=", b"A" * 43])
def test_a_file_with_no_good_key_is_refused_and_stays(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "master.key"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(Invalid):
        load(path)
    assert path.read_bytes() == content


def test_a_folder_is_no_key_file_and_a_missing_folder_is_said(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match=str(tmp_path)):
        load(tmp_path)
    with pytest.raises(Invalid, match="nowhere"):
        load(tmp_path / "nowhere" / "master.key")


def test_many_that_start_at_once_agree_on_one_key(tmp_path: Path) -> None:
    path = tmp_path / "master.key"
    with ThreadPoolExecutor(8) as pool:
        ids = {keyring.current.id for keyring in pool.map(load, [path] * 32)}
    assert len(ids) == 1
    assert names_in(tmp_path) == ["master.key"]


def test_broken_randomness_makes_no_file(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="repeats"):
        load_keyring(None, tmp_path / "master.key", random_bytes=bytes, may_create=True)
    assert names_in(tmp_path) == []
