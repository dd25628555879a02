"""A signature fits one body, one id and one moment, in the form that others understand."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta

import pytest
import standardwebhooks
from hypothesis import given
from hypothesis import strategies as st

from podium.contracts.errors import Code
from podium.effects.http.webhooks import BadSignature, key_of, new_secret, sign, verify
from podium.kernel.errors import Invalid

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
OLD = new_secret(bytes(range(32)))
NEW = new_secret(bytes(range(32, 64)))
BODY = b'{"status": "done"}'


def test_the_example_of_the_standard_is_signed_alike() -> None:
    headers = sign(
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        datetime.fromtimestamp(1614265330, UTC),
        b'{"test": 2432232314}',
        ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"],
    )
    assert headers == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


@given(
    st.text("abcXYZ019_-", min_size=1, max_size=30),
    st.text(st.characters(exclude_categories=["Cs"])),
    st.binary(min_size=24, max_size=64),
)
def test_another_program_verifies_what_we_sign_and_we_what_it_signs(
    id: str, text: str, entropy: bytes
) -> None:
    # It asks the machine for the time, so here the machine's time is the right one.
    now = datetime.now(UTC)
    secret = new_secret(entropy)
    theirs = standardwebhooks.Webhook(secret)
    theirs.verify(text.encode(), sign(id, now, text.encode(), [secret]), json_parse=False)
    headers = {
        "webhook-id": id,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": theirs.sign(id, now, text),
    }
    assert verify(headers, text.encode(), [secret], now).id == id


def test_during_a_rotation_either_secret_fits() -> None:
    both = sign("msg_1", NOW, BODY, [NEW, OLD])
    assert both["webhook-signature"].count("v1,") == 2
    for secrets in ([NEW], [OLD], [OLD, NEW]):
        assert verify(both, BODY, secrets, NOW) == ("msg_1", int(NOW.timestamp()))
    only_old = sign("msg_1", NOW, BODY, [OLD])
    assert verify(only_old, BODY, [NEW, OLD], NOW).id == "msg_1"
    with pytest.raises(BadSignature):
        verify(only_old, BODY, [NEW], NOW)


def test_header_names_may_come_in_any_case() -> None:
    headers = {name.title(): value for name, value in sign("msg_1", NOW, BODY, [OLD]).items()}
    assert verify(headers, BODY, [OLD], NOW).id == "msg_1"


def test_other_versions_beside_ours_are_passed_over() -> None:
    headers = sign("msg_1", NOW, BODY, [OLD])
    headers["webhook-signature"] = f"v1a,xyz  v2,abc {headers['webhook-signature']}"
    assert verify(headers, BODY, [OLD], NOW).id == "msg_1"
    headers["webhook-signature"] = headers["webhook-signature"].replace("v1,", "v2,")
    with pytest.raises(BadSignature):
        verify(headers, BODY, [OLD], NOW)


@pytest.mark.parametrize(("seconds", "is_taken"), [(0, True), (300, True), (-300, True), (301, False), (-301, False), (86_400 * 365, False)])  # fmt: skip
def test_an_old_or_early_signature_is_refused(seconds: int, is_taken: bool) -> None:
    headers = sign("msg_1", NOW, BODY, [OLD])
    later = NOW + timedelta(seconds=seconds)
    if is_taken:
        assert verify(headers, BODY, [OLD], later)
    else:
        with pytest.raises(BadSignature, match="timestamp") as refused:
            verify(headers, BODY, [OLD], later)
        assert refused.value.code == Code.AUTH_INVALID_TOKEN


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("webhook-id", "msg_2"),
        ("webhook-id", ""),
        ("webhook-id", "msg.1"),
        ("webhook-id", "ü" * 10),
        ("webhook-id", "x" * 129),
        ("webhook-timestamp", "1767268801"),
        ("webhook-timestamp", ""),
        ("webhook-timestamp", "now"),
        ("webhook-timestamp", "1e9"),
        ("webhook-timestamp", "nan"),
        ("webhook-timestamp", "-1"),
        ("webhook-timestamp", "1_767_268_800"),
        ("webhook-timestamp", "١٧٦٧٢٦٨٨٠٠"),
        ("webhook-timestamp", "9" * 5000),
        ("webhook-signature", ""),
        ("webhook-signature", "v1"),
        ("webhook-signature", "v1,"),
        ("webhook-signature", "v1,é"),
        ("webhook-signature", "v1,\udcff"),
        ("webhook-signature", "v1,\0"),
        ("webhook-signature", "v1," + "A" * 44),
        ("webhook-signature", "v1,x " * 100_000),
    ],
    ids=lambda part: repr(part)[:40],
)
def test_a_wrong_header_is_refused_and_nothing_worse(name: str, value: str) -> None:
    headers = {**sign("msg_1", NOW, BODY, [OLD]), name: value}
    with pytest.raises(BadSignature):
        verify(headers, BODY, [OLD], NOW)


@given(st.dictionaries(st.text(), st.text()), st.binary())
def test_no_header_makes_it_raise_anything_else(headers: dict[str, str], body: bytes) -> None:
    given_ = {**sign("msg_1", NOW, BODY, [OLD]), **headers}
    for name in ("webhook-id", "webhook-timestamp", "webhook-signature"):
        mixed = {**given_, name: "".join(headers.values())}
        with pytest.raises(BadSignature):
            verify(mixed, body + b"x", [OLD], NOW)


@given(st.integers(0, len(BODY) * 8 - 1))
def test_one_bit_changed_is_noticed(bit: int) -> None:
    changed = bytearray(BODY)
    changed[bit // 8] ^= 1 << bit % 8
    with pytest.raises(BadSignature):
        verify(sign("msg_1", NOW, BODY, [OLD]), bytes(changed), [OLD], NOW)


def test_the_end_of_an_id_cannot_pass_for_a_timestamp() -> None:
    with pytest.raises(Invalid, match="webhook-id"):
        sign("msg.1767268800", NOW, BODY, [OLD])


def test_without_a_secret_nothing_is_signed_and_nothing_fits() -> None:
    with pytest.raises(Invalid):
        sign("msg_1", NOW, BODY, [])
    with pytest.raises(BadSignature):
        verify(sign("msg_1", NOW, BODY, [OLD]), BODY, [], NOW)


@pytest.mark.parametrize(
    "secret",
    [
        "",
        "whsec_",
        "whsec_short",
        "whsec_" + base64.b64encode(bytes(23)).decode(),
        "whsec_" + base64.b64encode(bytes(65)).decode(),
        "whsec_é",
        "whsec_" + "!" * 40,
        "hunter2hunter2hunter2hunter2hunter2hunter2 ",
    ],
)
def test_a_secret_that_is_none_is_refused_without_being_shown(secret: str) -> None:
    with pytest.raises(Invalid) as refused:
        key_of(secret, "callback_secret")
    assert refused.value.details == {"field": "callback_secret"}
    assert "hunter2" not in str(refused.value)


def test_a_secret_is_taken_with_or_without_its_prefix_and_padding() -> None:
    secret = new_secret(bytes(25))
    assert key_of(secret) == key_of(secret.removeprefix("whsec_")) == key_of(secret.rstrip("="))
    with pytest.raises(ValueError, match="random bytes"):
        new_secret(bytes(8))
