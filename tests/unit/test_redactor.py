"""Twelve canaries, in every form in which they come back, through every door that texts leave by."""

from __future__ import annotations

import base64
import io
import json
import os
import sys
from collections.abc import Callable, Iterator

import orjson
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from podium.kernel.errors import Invalid
from podium.kernel.redactor import MASK, REDACTOR, Redactor
from podium.kernel.redactor.forms import LENGTH_MIN, forms
from podium.kernel.telemetry import logger
from tests.canaries import (
    CANARIES,
    FORMS,
    JWT,
    PEM_LINES,
    RNG,
    SSH_KEY,
    TOKEN,
    WEBHOOK,
    captured_log,
    leaks,
    texts,
)


@pytest.fixture(scope="module")
def redactor() -> Redactor:
    redactor = Redactor()
    for value in CANARIES.values():
        assert redactor.add(value) is None
    return redactor


@pytest.fixture
def log(redactor: Redactor) -> Iterator[io.StringIO]:
    with captured_log(redactor) as stream:
        yield stream


every_canary = pytest.mark.parametrize("canary", CANARIES.values(), ids=CANARIES)
every_form = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)


# --- registered values ---------------------------------------------------------------------------


@every_canary
@every_form
def test_an_error_text_does_not_tell(
    redactor: Redactor, canary: str | bytes, form: Callable[[str | bytes], str]
) -> None:
    told = form(canary)
    for shift in range(5):
        masked = redactor.mask(f"{'x' * shift} login failed with <{told}>, giving up")
        assert not leaks(masked, told)
        assert MASK in masked
        assert masked.endswith(", giving up")


@every_canary
@every_form
def test_a_log_line_does_not_tell_in_a_fact_a_text_or_a_trace(
    log: io.StringIO, canary: str | bytes, form: Callable[[str | bytes], str]
) -> None:
    told = form(canary)
    out = logger("podium.test")
    out.info("sent", header=told, nested={"list": [told], told: 1}, raw=canary)
    out.info(f"sent {told}")
    try:
        raise Invalid(f"refused: {told}")
    except Invalid as error:
        out.error("it failed", trace=error)
    lines = log.getvalue().splitlines()
    assert len(lines) == 3
    for line in lines:
        assert MASK in line
        unescaped = "\n".join(texts(json.loads(line)))
        assert not leaks(unescaped, told)
        assert not leaks(line, told)


def test_each_line_of_a_key_is_masked_when_it_is_told_alone(redactor: Redactor) -> None:
    for line in SSH_KEY.splitlines()[1:-1]:
        assert redactor.mask(f"stderr: {line}") == f"stderr: {MASK}"


def test_a_value_is_found_without_the_line_break_of_its_file() -> None:
    redactor = Redactor()
    redactor.add("from-a-mounted-file\n")
    assert redactor.mask("key=from-a-mounted-file;") == f"key={MASK};"


def test_the_password_of_a_registered_url_is_a_secret_by_itself() -> None:
    redactor = Redactor()
    redactor.add("postgres://podium:p%40ss-canary@db/podium")
    assert redactor.mask("no login with p@ss-canary or p%40ss-canary") == (
        f"no login with {MASK} or {MASK}"
    )


def test_secrets_that_overlap_leave_nothing_between_them() -> None:
    redactor = Redactor()
    for value in ("alpha-beta", "beta-gamma", "alpha-beta-gamma-delta"):
        redactor.add(value)
    assert redactor.mask("<alpha-beta-gamma>") == f"<{MASK}>"
    assert redactor.mask("<alpha-beta-gamma-delta>") == f"<{MASK}>"
    assert redactor.mask("alpha-beta alpha-beta") == f"{MASK} {MASK}"


VALUES = st.text(
    st.characters(exclude_characters="[]", exclude_categories=["Cs"]), min_size=8, max_size=40
)


@given(VALUES, st.text(), st.text())
def test_wherever_it_stands_it_is_struck_out(value: str, before: str, after: str) -> None:
    redactor = Redactor()
    assume(redactor.add(value) is None and value not in before + after)
    masked = redactor.mask(before + value + after)
    assert value not in masked
    assert MASK in masked
    assert redactor.mask(masked) == masked


@given(VALUES, st.integers(0, 5), st.binary(max_size=5))
def test_base64_of_something_longer_is_struck_out_too(
    value: str, before: int, after: bytes
) -> None:
    redactor = Redactor()
    assume(redactor.add(value) is None)
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        encoded = encode(b"x" * before + value.encode() + after).decode()
        first, end = -(-before * 8 // 6), (before + len(value.encode())) * 8 // 6
        masked = redactor.mask(encoded)
        assert encoded[first:end] not in masked
        assert masked.startswith(encoded[:first])


@given(VALUES, st.recursive(st.text() | st.integers(-(2**53), 2**53), lambda v: st.lists(v)))
def test_a_json_text_stays_json(value: str, other: object) -> None:
    redactor = Redactor()
    assume(redactor.add(value) is None)
    text = orjson.dumps({"value": value, "other": other}).decode()
    assert MASK in json.loads(redactor.mask_json(text))["value"]


def test_a_value_made_of_punctuation_does_not_break_a_json_text() -> None:
    redactor = Redactor()
    redactor.add('","b":"2"')
    text = '{"a":"1","b":"2"}'
    assert json.loads(redactor.mask_json(text)) == {"a": "1", "b": "2"}
    hidden = redactor.mask_json(json.dumps({"a": 'x","b":"2"y'}))
    assert json.loads(hidden) == {"a": f"x{MASK}y"}


def test_a_number_can_be_a_secret_and_so_can_a_key() -> None:
    redactor = Redactor()
    redactor.add("4929123456781234")
    tree = {"card": 4929123456781234, "4929123456781234": [1, True, None, 2.5]}
    assert redactor.mask_tree(tree) == {"card": MASK, MASK: [1, True, None, 2.5]}
    assert json.loads(redactor.mask_json(json.dumps({"card": 4929123456781234}))) == {"card": MASK}


# --- what is known -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("", "shorter"),
        ("1234567", "shorter"),
        (b"\0" * 32, "different"),
        ("abababababab", "different"),
        ("x" * 65_537, "longer"),
    ],
)
def test_what_would_strike_out_innocent_texts_is_refused_with_a_reason(
    value: str | bytes, reason: str
) -> None:
    redactor = Redactor()
    assert reason in (redactor.add(value) or "")
    assert len(redactor) == 0
    assert redactor.mask("1234567 and abababababab") == "1234567 and abababababab"


def test_the_value_that_was_not_added_for_longest_is_forgotten_first() -> None:
    redactor = Redactor(values_max=2)
    redactor.add("first-secret")
    redactor.add("second-secret")
    redactor.add("first-secret")
    redactor.add("third-secret")
    assert redactor.mask("first-secret second-secret third-secret") == (
        f"{MASK} second-secret {MASK}"
    )
    assert len(redactor) == 2


def test_a_form_that_two_values_share_outlives_one_of_them() -> None:
    redactor = Redactor(values_max=2)
    redactor.add("shared-secret\n")
    redactor.add("shared-secret")
    redactor.add("other-secret")
    assert redactor.mask("shared-secret") == MASK
    redactor.add("one-more-secret")
    assert redactor.mask("shared-secret") == "shared-secret"


def test_forgetting_everything_leaves_nothing_behind() -> None:
    redactor = Redactor(values_max=1)
    for n in range(50):
        redactor.add(f"secret-number-{n}")
    alone = Redactor()
    alone.add("secret-number-49")
    assert entries(redactor) == entries(alone)
    assert redactor._form_bytes == alone._form_bytes


def entries(redactor: Redactor) -> int:
    return sum(len(each) for each in redactor._index.values())


def test_long_values_are_bounded_by_the_memory_they_take() -> None:
    redactor = Redactor(form_bytes_max=1_000_000)
    for n in range(30):
        redactor.add(f"{n:02}-" + RNG.randbytes(4_000).hex())
    assert 1 <= len(redactor) < 30
    assert redactor._form_bytes <= 1_000_000


def test_what_many_keys_have_in_common_is_not_tried_once_for_each() -> None:
    redactor = Redactor()
    for _ in range(100):
        body = base64.b64encode(RNG.randbytes(200)).decode()
        redactor.add(
            "\n".join([*PEM_LINES[:2], body[:70], body[70:140], body[140:], PEM_LINES[-1]])
        )
    tried = {bytes_of(step): len(each) for step, each in redactor._index.items()}
    assert sum(tried.get(each, 0) for each in (b"----", b"---B", b"BEGI")) < 10
    assert max(tried.values()) < 30


def bytes_of(step: int) -> bytes:
    return step.to_bytes(4, sys.byteorder)


def test_a_redactor_does_not_print_what_it_knows(redactor: Redactor) -> None:
    assert repr(redactor) == "Redactor(12 values)"


def test_the_forms_of_a_plain_token_are_few() -> None:
    """Each costs memory; a token of letters reads the same in a URL, in JSON and in a trace."""
    assert len(forms(b"AKIAQYLPMN5HFIQR7CNY")) <= 12
    assert all(len(form) >= LENGTH_MIN for form in forms(b'a"\\b c\xc3\xbc\n'))


# --- shapes that nobody registered ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        (f"got {TOKEN}.", f"got podium_0123456789ab_{MASK}."),
        (f"got {TOKEN[:45]}…", f"got podium_0123456789ab_{MASK}…"),
        (f"/blobs?token={TOKEN}&x=1", f"/blobs?token=podium_0123456789ab_{MASK}&x=1"),
        (f"key {WEBHOOK} used", f"key whsec_{MASK} used"),
        (f"Authorization: Bearer {JWT}", f"Authorization: Bearer {MASK}"),
        (f"AUTHORIZATION: BEARER {JWT}", f"AUTHORIZATION: BEARER {MASK}"),
        ("authorization: Basic dXNlcjpwYXNz\r\n", f"authorization: Basic {MASK}\r\n"),
        ("{'Authorization': 'secret-by-itself'}", f"{{'Authorization': '{MASK}'}}"),
        ("(b'authorization', b'Basic dXNlcjpwYXNz')", f"(b'authorization', b'Basic {MASK}')"),
        (r"{\"Authorization\":\"Basic dXNlcjpw\"}", rf"{{\"Authorization\":\"Basic {MASK}\"}}"),
        ("curl -H 'bearer abcdefgh12'", f"curl -H 'bearer {MASK}'"),
        ("postgres://podium:pa@ss:w@db:5432/x", f"postgres://podium:{MASK}@db:5432/x"),
        ("redis://:only-a-password@cache", f"redis://:{MASK}@cache"),
        (f"key:\n{SSH_KEY}ok", f"key:\n{MASK}\nok"),
        ("\\n".join(PEM_LINES), MASK),
        ("\n".join(PEM_LINES[:3]), MASK),
        (SSH_KEY.replace("OPENSSH ", "") + SSH_KEY, f"{MASK}\n{MASK}\n"),
    ],
)
def test_a_shape_is_masked_and_says_whose_it_was(text: str, masked: str) -> None:
    assert Redactor().mask(text) == masked
    assert Redactor().mask(masked) == masked


@pytest.mark.parametrize(
    "text",
    [
        "a valid token is needed: Authorization: Bearer …",
        "bearer authentication is required",
        "podium_store_commit_seconds_bucket and podium_audit_violations read 0",
        "http://127.0.0.1:8080/health answered 200",
        'see {"url":"http://10.0.0.7:8080","mail":"a@b.example"}',
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "git@github.com:podium/podium.git, ssh://git@host/x",
        "whsec_ is the prefix",
        "",
        "\ud800 is not Unicode",
    ],
)
def test_an_innocent_text_stays_as_it_is(redactor: Redactor, text: str) -> None:
    assert redactor.mask(text) == text


def test_the_shape_of_a_header_is_seen_when_its_name_and_value_are_apart() -> None:
    headers = {"Authorization": "Basic dXNlcjpwYXNz", "Accept": "text/plain"}
    masked = {"Authorization": f"Basic {MASK}", "Accept": "text/plain"}
    assert Redactor().mask_tree({"headers": headers}) == {"headers": masked}
    text = orjson.dumps({"headers": headers}).decode()
    assert json.loads(Redactor().mask_json(text)) == {"headers": masked}


def test_shapes_are_masked_in_the_log_though_nobody_registered_them(log: io.StringIO) -> None:
    fresh = "podium_zzzzzzzzzzzz_" + base64.urlsafe_b64encode(os.urandom(32)).decode()[:43]
    logger("podium.test").info("asked", url=f"http://u:swordfish@h/?t={fresh}", key=SSH_KEY)
    line = json.loads(log.getvalue())
    assert line["url"] == f"http://u:{MASK}@h/?t=podium_zzzzzzzzzzzz_{MASK}"
    assert line["key"].strip() == MASK


def test_the_log_of_the_process_masks_what_the_process_knows() -> None:
    """Without a redactor of one's own: what any part registers is masked for all."""
    with captured_log() as stream:
        REDACTOR.add("known-to-one-part-only")
        logger("podium.test").info("told", by="known-to-one-part-only")
    assert json.loads(stream.getvalue())["by"] == MASK


@pytest.mark.parametrize(
    "text",
    ["://" * 30_000, "://a:" * 20_000, "authorization:" * 8_000, "bearer " * 15_000,
     "-----BEGIN PRIVATE KEY-----" * 4_000, "podium_" * 15_000, "://" + "a" * 100_000 + ":" + "b" * 100_000],
    ids=lambda text: text[:12],
)  # fmt: skip
def test_a_hostile_text_costs_no_more_than_its_length(redactor: Redactor, text: str) -> None:
    """The time limit of the run is the assertion on time; patterns that back up would take hours."""
    assert len(redactor.mask(text)) <= len(text) + len(MASK) * 10_000
