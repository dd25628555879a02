"""Which keys there may be, paths that we sign, and addresses of object stores."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podium.backends.objectstore import open_objects
from podium.backends.objectstore.address import BucketAddress, Credentials, bucket_address
from podium.kernel.blobs.keys import KEY, refuse_content_type, refuse_key, refuse_prefix
from podium.kernel.blobs.links import LinkVerdict, signed_path, verify_link
from podium.kernel.errors import Invalid

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SECRET = b"s" * 32

BAD_KEYS = [
    "",
    ".",
    "..",
    "../../x",
    "a/../b",
    "a/./b",
    "/etc/passwd",
    "a/",
    "/",
    "a//b",
    "..\\x",
    "a\\b",
    "%2e%2e/",
    "%2e%2e%2fx",
    "a%00",
    "a%2fb",
    "a\0b",
    "a\nb",
    "a\n",
    "a\tb",
    "\x7f",
    "a b",
    "a.",
    "a./b",
    ".a",
    "a/.hidden",
    "c:\\windows",
    "s3://bucket/key",
    "a?b",
    "a#1",
    "a*",
    "~a:b",
    "é",
    "а",  # Cyrillic
    "a\u202eb",
    "\ud800",
    "x" * 1025,
    "ab/" * 341 + "abc",
    b"a",
    None,
    7,
]


@pytest.mark.parametrize("key", BAD_KEYS, ids=lambda key: ascii(key)[:20])
def test_a_key_that_could_mean_something_else_is_refused(key: object) -> None:
    with pytest.raises(Invalid) as refused:
        refuse_key(key)
    assert refused.value.details["field"] == "key"


@pytest.mark.parametrize(
    "key",
    [
        "a",
        "exports/01JZ8/result.xml",
        "staging/7/2/9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "a..b",
        "Id=7/~x/a@b+c,d-e_f",
        "x" * 1024,
    ],
)
def test_a_plain_key_is_taken(key: str) -> None:
    refuse_key(key)


@given(st.from_regex(KEY, fullmatch=True).filter(lambda key: len(key) <= 1024))
def test_a_key_is_the_same_in_a_url(key: str) -> None:
    refuse_key(key)
    assert quote(key, safe="/=@+~,") == key
    assert urlsplit(f"http://host/blobs/{key}?x=1").path == f"/blobs/{key}"
    for length in range(len(key)):
        if not key[:length].endswith("."):
            refuse_prefix(key[:length])


@pytest.mark.parametrize("prefix", ["..", "a//", "/", "a/.", "é", "%2e", "x" * 1025, None])
def test_a_prefix_that_no_key_has_is_refused(prefix: object) -> None:
    with pytest.raises(Invalid) as refused:
        refuse_prefix(prefix)
    assert refused.value.details["field"] == "prefix"


@pytest.mark.parametrize("content_type", ["text/plain", "text/plain; charset=utf-8", "a/b+c;d=e"])
def test_a_content_type_is_taken(content_type: str) -> None:
    refuse_content_type(content_type)


@pytest.mark.parametrize(
    "content_type", ["", "text", "a/b\r\nX: y", "a/b; c", "a/é", "a/" + "b" * 255, 7]
)
def test_an_odd_content_type_is_refused(content_type: object) -> None:
    with pytest.raises(Invalid):
        refuse_content_type(content_type)


# --- signed paths --------------------------------------------------------------------------------


def verdict(
    path: str, *, method: str = "GET", now: datetime = NOW, secret: bytes = SECRET
) -> LinkVerdict:
    parts = urlsplit(path)
    query = {name: values[0] for name, values in parse_qs(parts.query).items()}
    return verify_link(
        parts.path.removeprefix("/blobs/"), method=method, now=now, secret=secret, **query
    )


def signed_for(seconds: float, *, key: str = "a/b.xml", method: str = "GET") -> str:
    expires_at = NOW + timedelta(seconds=seconds)
    return signed_path(key, method=method, expires_at=expires_at, secret=SECRET)


def test_a_signed_path_is_valid_until_its_moment() -> None:
    path = signed_for(60)
    assert verdict(path) == LinkVerdict.VALID
    assert verdict(path, now=NOW + timedelta(seconds=59.9)) == LinkVerdict.VALID
    assert verdict(path, now=NOW + timedelta(seconds=60)) == LinkVerdict.EXPIRED


def test_a_path_for_getting_is_good_for_its_head_and_for_nothing_else() -> None:
    path = signed_for(60)
    assert verdict(path, method="HEAD") == LinkVerdict.VALID
    assert verdict(path, method="PUT") == LinkVerdict.FORGED
    assert verdict(signed_for(60, method="PUT")) == LinkVerdict.FORGED
    assert verdict(signed_for(60, method="PUT"), method="PUT") == LinkVerdict.VALID


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("b.xml", "c.xml"),
        ("expires=17672256", "expires=27672256"),
        ("expires=17672256", "expires=017672256"),
        ("expires=17672256", "expires=+17672256"),
        ("signature=", "signature=A"),
        ("signature=", "signature=%C3%A9"),
        ("/blobs/a", "/blobs/a/"),
    ],
)
def test_a_path_that_was_changed_is_forged(old: str, new: str) -> None:
    path = signed_for(60)
    assert old in path
    assert verdict(path.replace(old, new)) == LinkVerdict.FORGED


def test_a_path_of_somebody_else_is_forged() -> None:
    assert verdict(signed_for(60), secret=b"t" * 32) == LinkVerdict.FORGED


def test_a_short_secret_is_refused() -> None:
    with pytest.raises(ValueError, match="32"):
        signed_path("a", method="GET", expires_at=NOW, secret=b"short")


def test_only_keys_and_known_methods_are_signed() -> None:
    with pytest.raises(Invalid):
        signed_for(60, key="../x")
    with pytest.raises(ValueError, match="DELETE"):
        signed_for(60, method="DELETE")


@given(key=st.text(), expires=st.text(), signature=st.text())
def test_whatever_comes_without_our_signature_is_forged(
    key: str, expires: str, signature: str
) -> None:
    answer = verify_link(
        key, method="GET", expires=expires, signature=signature, now=NOW, secret=SECRET
    )
    assert answer == LinkVerdict.FORGED


# --- addresses -----------------------------------------------------------------------------------


def test_an_address_names_bucket_prefix_region_and_endpoint() -> None:
    url = "s3://bucket/a/b?endpoint=https://account.r2.cloudflarestorage.com/&region=auto"
    assert bucket_address(urlsplit(url)) == BucketAddress(
        "bucket", "a/b/", "auto", "https://account.r2.cloudflarestorage.com"
    )
    aws = bucket_address(urlsplit("s3://bucket?region=eu-west-1"))
    assert (aws.prefix, aws.origin) == ("", "https://s3.eu-west-1.amazonaws.com")


@pytest.mark.parametrize(
    "url",
    [
        "s3://",
        "s3://Bucket",
        "s3://canary:canary@bucket",
        "s3://bucket/../x",
        "s3://bucket/a//b",
        "s3://bucket?endpoint=ftp://host",
        "s3://bucket?endpoint=http://canary:canary@host",
        "s3://bucket?secret_access_key=canary",
        "gs://bucket",
        "file://host/path",
    ],
)
def test_an_address_that_is_none_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(Invalid) as refused:
        open_objects(url)
    assert refused.value.details["field"] == "blobs_url"
    assert "canary" not in str(refused.value)


def test_half_a_pair_of_credentials_is_refused() -> None:
    with pytest.raises(Invalid, match="belong together"):
        open_objects("s3://bucket", secret_access_key="canary")


def test_credentials_do_not_show() -> None:
    assert "canary" not in repr(Credentials("canary", "canary", "canary"))
