"""The server as `podium up` starts it: who gets in, over a real socket."""

from __future__ import annotations

import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from podium.app.settings import Settings
from podium.app.wiring import http, wire
from podium.http.guard import Open
from tests.http.calls import refusal
from tests.http.houses import declared_routes
from tests.http.process import Running, running
from tests.http.raw import Answer, Wire

pytestmark = pytest.mark.xdist_group("server")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    environment = {"PODIUM_ACCESS_FAILURES_MAX": "1000000"}
    with running(tmp_path_factory.mktemp("server"), environment) as up:
        yield up


def said(server: Running, head: str, host: str = "localhost") -> Answer:
    with Wire(server.port) as wire:
        wire.send(f"{head} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\n\r\n".encode())
        return wire.answer()


def test_the_token_file_is_its_owners_alone(server: Running) -> None:
    assert stat.S_IMODE(server.token_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(server.data.stat().st_mode) == 0o700
    assert stat.S_IMODE((server.data / "url").stat().st_mode) == 0o600
    with server.caller() as admin:
        assert admin.get("/api/tokens").status_code == 200


def test_without_a_token_every_route_but_the_open_ones_is_401(
    server: Running, tmp_path: Path
) -> None:
    routes = declared_routes(http(wire(Settings(data_dir=str(tmp_path)))))
    assert len(routes) > 25
    for route in routes:
        if route.method == "HEAD":
            continue  # an answer without a body; it is signed, as the GET beside it
        for id in ("0123456789ab", "healthz", "x/../healthz", "%2e%2e/login", "a;b", "static"):
            path = route.path
            for name in ("{id}", "{id:path}", "{kind}", "{key:path}", "{name}"):
                path = path.replace(name, id)
            answer = said(server, f"{route.method} {path}")
            if isinstance(route.needs, Open):
                assert answer.status in (200, 401, 404), path
            else:
                assert answer.status == 401, path
                code = refusal(answer.status, answer.headers, answer.body)["code"]
                assert code == "AUTH_INVALID_TOKEN"


@pytest.mark.parametrize(
    "path", ["/nothing", "/api", "/api/", "/API/queues", "//", "/healthz/", "/healthz/x", "/.git"]
)
def test_what_is_not_there_is_401_too(server: Running, path: str) -> None:
    for method in ("GET", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"):
        assert said(server, f"{method} {path}").status == 401


@pytest.mark.parametrize("host", ["evil.example", "localhost/healthz?x=", "evil:8437", "a b"])
def test_a_host_that_is_not_ours_is_400(server: Running, host: str) -> None:
    for path in ("/healthz", "/api/queues", "/nothing"):
        assert said(server, f"GET {path}", host).status == 400


def test_the_address_it_listens_on_is_its_own_name(server: Running) -> None:
    for host in ("127.0.0.1", f"127.0.0.1:{server.port}", "[::1]"):
        assert said(server, "GET /healthz", host).status == 200


def test_the_printed_link_signs_a_browser_in_once(server: Running) -> None:
    with httpx.Client(base_url=server.url) as browser:
        assert browser.get("/docs").status_code == 401
        assert browser.get(server.login_url).status_code == 303
        assert browser.get("/docs").status_code == 200
        assert "Queues" in browser.get("/").text
        assert browser.post("/api/login-links").status_code == 401
    with httpx.Client(base_url=server.url) as another:
        assert another.get(server.login_url).status_code == 401


def test_who_hangs_up_while_waiting_is_given_nothing(server: Running) -> None:
    """A worker that dies in its long poll takes no item with it."""
    body = b'{"queues":["hung"],"holder":"dead","wait_seconds":20}'
    head = (
        f"POST /api/work/claim HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {server.token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with server.caller() as admin:
        with Wire(server.port) as wire:
            wire.send(head.encode() + body)
            wire.sock.settimeout(0.2)
            with pytest.raises(TimeoutError):
                wire.sock.recv(1)
        deadline = time.monotonic() + 5
        while _claims(admin) < 1 and time.monotonic() < deadline:
            time.sleep(0.05)
        made = admin.post("/api/work", json={"items": [{"queue": "hung", "id": "kept"}]})
        assert made.status_code == 201
        shown = admin.get("/api/work/kept").json()
        assert (shown["state"], shown["attempts"]) == ("ready", 0)


def _claims(admin: httpx.Client) -> int:
    """How many claims have been answered, to whomever."""
    text = admin.get("/metrics").text
    return text.count('podium_http_requests_total{method="POST",route="/api/work/claim"')


def test_a_claim_that_waits_is_woken_from_another_connection(server: Running) -> None:
    found: list[str] = []

    def wait() -> None:
        wish = {"queues": ["woken"], "holder": "h", "wait_seconds": 20}
        with server.caller() as worker:
            answer = worker.post("/api/work/claim", json=wish)
            found.extend(item["id"] for item in answer.json()["items"])

    waiting = threading.Thread(target=wait)
    waiting.start()
    with server.caller() as admin:
        admin.post("/api/work", json={"items": [{"queue": "woken", "id": "w"}]})
    waiting.join(15)
    assert found == ["w"]


def test_events_are_streamed_as_they_happen(server: Running) -> None:
    with server.caller() as admin, server.caller() as reader:
        with reader.stream("GET", "/api/events?kind=work&id=told") as stream:
            lines = stream.iter_lines()
            assert next(lines) == ": connected"
            admin.post("/api/work", json={"items": [{"queue": "told", "id": "told"}]})
            admin.post("/api/work/cancel", json={"ids": ["told"]})
            data = next(line for line in lines if line.startswith("data: "))
            assert '"event":"cancelled"' in data


def test_a_second_start_keeps_the_token_and_mends_what_others_could_read(tmp_path: Path) -> None:
    with running(tmp_path) as first:
        token = first.token
    with running(tmp_path) as second:
        assert second.token == token
    second.token_file.chmod(0o644)
    with running(tmp_path) as third:
        assert third.token != token
        assert stat.S_IMODE(third.token_file.stat().st_mode) == 0o600
    third.token_file.write_text("podium_0123456789ab_" + "A" * 43)
    with running(tmp_path) as fourth, fourth.caller() as admin:
        assert admin.get("/api/queues").status_code == 200
