"""Secrets go in through every door; afterwards they are looked for everywhere (P39)."""

from __future__ import annotations

import base64
import json
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from podium.contracts.scopes import Scope
from podium.http.guard import get
from podium.kernel.errors import Unavailable
from podium.kernel.redactor import REDACTOR
from tests.canaries import CANARIES, FORMS, captured_log, leaks
from tests.http.calls import ask, bearer
from tests.http.houses import sqlite_home
from tests.http.process import Running, running

RNG = random.Random(391)

pytestmark = pytest.mark.xdist_group("canaries")


def secret(name: str) -> str:
    return f"canary-{name}-{RNG.randbytes(12).hex()}"


def token_like() -> str:
    middle = base64.urlsafe_b64encode(RNG.randbytes(32)).decode().rstrip("=")
    return f"podium_0123456789ab_{middle}"


@dataclass
class Spy:
    """Calls a server, and keeps all that it ever answered."""

    server: Running
    answers: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.client = httpx.Client(base_url=self.server.url, timeout=30.0)

    def call(
        self, method: str, path: str, *, token: str | None = None, kept: bool = True, **more: Any
    ) -> httpx.Response:
        headers = dict(more.pop("headers", {}))
        if token is not None:
            headers["authorization"] = f"Bearer {token}"
        answer = self.client.request(method, path, headers=headers, **more)
        if kept:
            self.answers.append(f"{answer.headers!r} {answer.text}")
        assert answer.status_code < 500, answer.text
        return answer


@dataclass
class Haul:
    """What was put in, by the door it came through, and where one may look for it."""

    secrets: dict[str, str]
    places: dict[str, str]
    files: dict[str, bytes]


SETTINGS = {
    "master_key": base64.b64encode(RNG.randbytes(32)).decode(),
    "blobs.secret_access_key": secret("s3"),
}


def put_in(spy: Spy) -> dict[str, str]:
    """Every door: headers, query, cookies, bodies good and bad, tokens in all their lives."""
    admin = spy.server.token
    secrets = {"the admin's token": admin, **{f"setting {k}": v for k, v in SETTINGS.items()}}

    made = spy.call(
        "POST", "/api/tokens", token=admin, kept=False, json={"name": "n", "scopes": ["read"]}
    ).json()
    secrets["a new token"] = made["token"]
    spy.call("GET", "/api/queues", token=made["token"])
    rotated = spy.call(
        "POST", f"/api/tokens/{made['id']}/rotate", token=admin, kept=False, json={}
    ).json()
    secrets["a rotated token"] = rotated["token"]
    spy.call("DELETE", f"/api/tokens/{rotated['id']}", token=admin)
    spy.call("GET", "/api/queues", token=rotated["token"])

    secrets["a wrong token"] = token_like()
    spy.call("GET", "/api/queues", token=secrets["a wrong token"])
    secrets["a token in the address"] = token_like()
    spy.call("GET", f"/api/queues?token={secrets['a token in the address']}")
    spy.call("POST", f"/api/work?t={secrets['a token in the address']}", token=admin, json={})

    link = spy.call("POST", "/api/login-links", token=admin, kept=False).json()["url"]
    secrets["a login code"] = httpx.URL(link).params["code"]
    secrets["the first login code"] = httpx.URL(spy.server.login_url).params["code"]
    signed_in = spy.call("GET", link, kept=False)
    secrets["a session"] = signed_in.cookies["podium_session"]
    spy.client.cookies.clear()
    spy.call("GET", "/docs", headers={"cookie": f"podium_session={secrets['a session']}"})
    spy.call("GET", link)

    secrets["a foreign header"] = secret("header")
    secrets["a foreign cookie"] = secret("cookie")
    foreign = {
        "x-api-key": secrets["a foreign header"],
        "cookie": f"sid={secrets['a foreign cookie']}",
    }
    spy.call("GET", "/api/queues", headers=foreign)
    spy.call("POST", "/api/work", token=admin, headers=foreign, json={"items": [{"queue": "q"}]})

    secrets["a value of the wrong kind"] = wrong = secret("wrong")
    for item in ({"queue": "q", "priority": wrong}, {"queue": "q", "unknown": wrong}, wrong):
        spy.call("POST", "/api/work", token=admin, json={"items": [item]})
    spy.call("GET", f"/api/deadletters?cursor={wrong}", token=admin)
    secrets["a body that is no JSON"] = broken = secret("broken")
    for kind in ("application/json", "text/plain"):
        spy.call(
            "POST",
            "/api/work",
            token=admin,
            content=f'{{"password": "{broken}" oops',
            headers={"content-type": kind},
        )

    secrets["an Idempotency-Key"] = key = secret("key")
    for queue in ("q", "r"):
        body = {"items": [{"queue": queue}]}
        spy.call("POST", "/api/work", token=admin, json=body, headers={"idempotency-key": key})
    return secrets


def look(spy: Spy) -> dict[str, str]:
    """All that a curious administrator can read."""
    admin = spy.server.token
    paths = ("/metrics", "/docs", "/openapi.json", "/api/audit", "/api/tokens?everything=true")
    pages = {path: spy.call("GET", path, token=admin).text for path in paths}
    for kind, id in [("token", it["id"]) for it in json.loads(pages[paths[-1]])["tokens"]]:
        pages[f"journal of {id}"] = spy.call("GET", f"/api/journal/{kind}/{id}", token=admin).text
    processes = [spy.server.process, *spy.server.process.children(recursive=True)]
    assert len(processes) >= 2, "the server and its worker"
    pages["the process list"] = repr([process.cmdline() for process in processes])
    pages["the environment of its children"] = repr([it.environ() for it in processes[1:]])
    pages["all answers"] = "\n".join(spy.answers)
    return pages


@pytest.fixture(scope="module")
def haul(tmp_path_factory: pytest.TempPathFactory) -> Haul:
    folder = tmp_path_factory.mktemp("canaries")
    environment = {"PODIUM_" + k.replace(".", "_").upper(): v for k, v in SETTINGS.items()}
    environment["PODIUM_LOG_LEVEL"] = "debug"
    with running(folder, environment, with_worker=True) as server:
        spy = Spy(server)
        secrets = put_in(spy)
        places = look(spy)
        spy.client.close()
    files = {
        path.name: path.read_bytes()
        for path in (folder / "data").rglob("*")
        if path.is_file() and path.name != "admin.token"
    }
    assert any(name.startswith("podium.db") for name in files)
    places["the log"] = server.log.read_text()
    return Haul(secrets, places, files)


def test_twelve_secrets_and_more_went_in(haul: Haul) -> None:
    assert len(haul.secrets) >= 12
    assert len(set(haul.secrets.values())) == len(haul.secrets)


def test_none_is_read_again_in_any_form(haul: Haul) -> None:
    for door, value in haul.secrets.items():
        for name, form in FORMS.items():
            for place, text in haul.places.items():
                assert form(value) not in text, f"{door}, as {name}, in {place}"


def test_no_part_of_a_token_is_read_either(haul: Haul) -> None:
    for door, value in haul.secrets.items():
        if value.startswith("podium_"):
            for place, text in haul.places.items():
                assert leaks(text, value.split("_", 2)[2]) is None, f"{door} in {place}"


def test_no_file_has_what_would_open_a_door(haul: Haul) -> None:
    """Whoever copies the folder, but not the token file, cannot call us."""
    kept_by_name = {"an Idempotency-Key"}
    for door, value in haul.secrets.items():
        if door in kept_by_name:
            continue
        for file, data in haul.files.items():
            assert value.encode() not in data, f"{door} in {file}"


def test_the_log_was_written_and_looked_at(haul: Haul) -> None:
    lines = [json.loads(line) for line in haul.places["the log"].splitlines()]
    assert "ready" in {line["text"] for line in lines}


def test_a_password_in_the_database_url_stays_where_it_is(
    tmp_path: Path, postgres_url: str
) -> None:
    password = secret("pq")
    url = postgres_url.replace("postgres@", f"postgres:{password}@")
    assert password in url
    environment = {"PODIUM_DATABASE_URL": url, "PODIUM_MASTER_KEY": SETTINGS["master_key"]}
    with running(tmp_path, environment, with_worker=True) as server:
        spy = Spy(server)
        spy.call("POST", "/api/work", token=server.token, json={"items": [{"queue": "q"}]})
        places = look(spy)
        spy.client.close()
    places["the log"] = server.log.read_text()
    for place, text in places.items():
        assert leaks(text, password) is None, place


@pytest.mark.parametrize("name", CANARIES)
async def test_a_failure_of_ours_tells_neither_caller_nor_log(name: str) -> None:
    """An error with a secret in its text, whatever kind of error it is."""
    value = CANARIES[name]
    text = value if isinstance(value, str) else repr(value)

    async def fail() -> None:
        raise RuntimeError(f"cannot connect with {text}")

    async def be_away() -> None:
        raise Unavailable(f"no answer from {text}", url=text)

    more = [
        get("/api/fails", fail, needs=Scope.ADMIN),
        get("/api/away", be_away, needs=Scope.ADMIN),
    ]
    refusal = REDACTOR.add(value)
    assert refusal is None
    with captured_log() as log:
        async with sqlite_home(more=more) as home:
            for path, status in (("/api/fails", 500), ("/api/away", 503)):
                answer = await ask(home, "GET", path, [bearer(home.admin)])
                assert answer.status == status
                assert leaks(answer.body.decode(), text) is None
                assert answer.error["traceId"] in log.getvalue()
    assert leaks(log.getvalue(), text) is None
