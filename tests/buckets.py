"""Buckets on a real S3 server, made by hand: no code under test says what is there."""

from __future__ import annotations

from datetime import UTC, datetime

import httpx

from podium.backends.objectstore.address import Credentials
from podium.backends.objectstore.uploads import signed
from podium.testing.object_server import ObjectServer


def make_bucket(server: ObjectServer, name: str) -> None:
    url = f"{server.endpoint}/{name}"
    answer = httpx.put(url, headers=signature("PUT", url, server), trust_env=False)
    assert answer.status_code == httpx.codes.OK, answer.text


def signature(method: str, url: str, server: ObjectServer) -> dict[str, str]:
    credentials = Credentials(server.access_key_id, server.secret_access_key)
    return signed(method, url, "us-east-1", credentials, datetime.now(UTC))
