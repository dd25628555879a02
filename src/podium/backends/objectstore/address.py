"""Where a bucket is, and with what we come in.

    s3://bucket/prefix?endpoint=https://…&region=auto

Credentials are no part of an address: addresses are shown and logged.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NoReturn
from urllib.parse import SplitResult, parse_qsl, urlsplit

from podium.kernel.errors import Invalid

REGION = "us-east-1"
BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
PREFIX = re.compile(r"(?:[A-Za-z0-9_-]+/)*")
OPTIONS = {"endpoint", "region"}


@dataclass(frozen=True, slots=True)
class BucketAddress:
    bucket: str
    prefix: str
    """Empty, or ending with a slash."""
    region: str
    endpoint: str | None

    @property
    def origin(self) -> str:
        return self.endpoint or f"https://s3.{self.region}.amazonaws.com"


@dataclass(frozen=True, slots=True)
class Credentials:
    access_key_id: str = field(repr=False)
    secret_access_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)


def bucket_address(parts: SplitResult) -> BucketAddress:
    if "@" in parts.netloc:
        refuse_address("the address of a bucket has no credentials in it; set them apart")
    if not BUCKET.fullmatch(parts.netloc):
        refuse_address("after s3:// comes the name of a bucket")
    prefix = parts.path.strip("/") + "/" if parts.path.strip("/") else ""
    if not PREFIX.fullmatch(prefix):
        refuse_address(
            "the prefix in a bucket is made of letters, digits, _ and -, with single slashes"
        )
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    unknown = sorted(options.keys() - OPTIONS)
    if unknown:
        refuse_address(
            f"there is no option {unknown[0]!r}; there are: {', '.join(sorted(OPTIONS))}"
        )
    return BucketAddress(
        bucket=parts.netloc,
        prefix=prefix,
        region=options.get("region") or REGION,
        endpoint=_endpoint(options.get("endpoint")),
    )


def _endpoint(endpoint: str | None) -> str | None:
    if endpoint is None:
        return None
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        refuse_address("the endpoint of a bucket looks like https://host or http://host:port")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def credentials(
    access_key_id: str | None, secret_access_key: str | None, session_token: str | None
) -> Credentials | None:
    if access_key_id and secret_access_key:
        return Credentials(access_key_id, secret_access_key, session_token)
    if access_key_id or secret_access_key:
        refuse_address("an access key id and a secret access key belong together: set both or none")
    return None


def refuse_address(why: str) -> NoReturn:
    raise Invalid(f"this is no address of an object store: {why}", field="blobs_url")
