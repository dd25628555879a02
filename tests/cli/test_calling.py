"""The commands that call a server: what they print, for people and for programs, and how they end."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from podium.contracts.work import Claim, Failure, NewWork, Report
from podium.sdk import SyncClient
from tests.cli.programs import (
    PODIUM,
    SECONDS_MAX,
    Told,
    Up,
    environment,
    podium,
    seen_on_a_terminal,
)


def bury(server: Up, *ids: str, queue: str, error: str = "bad weather") -> None:
    """Dead letters, made as a worker would."""
    token = Path(server.facts["token_file"]).read_text().strip()
    with SyncClient(server.url, token) as client:
        client.enqueue([NewWork(queue=queue, id=id) for id in ids])
        taken = client.claim(Claim(queues=[queue], holder="test", n=len(ids))).items
        client.report(
            Report(
                failed=[
                    Failure(id=it.id, epoch=it.epoch, error=error, retryable=False) for it in taken
                ]
            )
        )


def is_table(told: Told, *headings: str) -> bool:
    return told.out.splitlines()[0].split("  ")[0] == headings[0] and all(
        heading in told.out for heading in headings
    )


def test_queues_are_counted_by_state(server: Up) -> None:
    bury(server, "q-1", queue="counted")
    told = server("queues")
    assert (told.code, told.err) == (0, "")
    assert is_table(told, "queue", "ready", "running", "dead")
    counts = {each["queue"]: each["counts"] for each in server("queues", "--json").json["queues"]}
    assert counts["counted"] == {"dead": 1}


def test_dead_letters_are_listed_and_put_back(server: Up) -> None:
    bury(server, "d-1", "d-2", "d-3", queue="letters", error="bad \x1b[31mred\nline")
    shown = server("deadletter", "list", "--queue", "letters")
    assert is_table(shown, "id", "queue", "reason", "error")
    assert "bad \\x1b[31mred\\nline" in shown.out
    letters = server("deadletter", "list", "--queue", "letters", "--json", "--limit", "2")
    assert [letter["id"] for letter in letters.json_lines] == ["d-1", "d-2"]

    assert server("deadletter", "replay", "d-1", "--json").json == {"ids": ["d-1"], "unknown": []}
    again = server("deadletter", "replay", "d-1")
    assert again.code == 1
    assert again.complaint == (
        "not dead letters: d-1; podium deadletter list shows which there are"
    )
    assert server("deadletter", "replay", "--queue", "letters").out == "2 put back\n"
    assert server("deadletter", "list", "--queue", "letters").out == "there are no dead letters\n"


def test_a_replay_must_say_which(server: Up) -> None:
    told = server("deadletter", "replay")
    assert told.code == 2
    assert told.complaint == "say which: ids, or --queue NAME, or --all"


def test_why_says_what_an_item_waits_for(server: Up) -> None:
    bury(server, "w-1", queue="asked")
    told = server("why", "work", "w-1")
    assert told.code == 0
    assert told.out.startswith("state  dead\n")
    assert server("why", "work", "w-1", "--json").json["state"] == "dead"


def test_an_unknown_id_and_an_unknown_kind_are_said_in_one_line(server: Up) -> None:
    told = server("why", "work", "nobody")
    assert told.code == 1
    assert told.complaint.startswith("there is no work item 'nobody'")
    assert "; look at what there is" in told.complaint
    told = server("why", "cheese", "x")
    assert (told.code, told.complaint) == (2, "there is no kind 'cheese'; kinds are work")


def test_a_token_is_made_listed_replaced_and_ended(server: Up) -> None:
    made = server("token", "create", "ci", "--scope", "read", "--days", "3", "--json").json
    assert made["scopes"] == ["read"]
    assert server("queues", PODIUM_URL=server.url, PODIUM_TOKEN=made["token"]).code == 0

    listed = server("token", "list")
    assert is_table(listed, "id", "name", "scopes")
    assert made["token"] not in listed.out
    ids = [token["id"] for token in server("token", "list", "--json").json_lines]
    assert made["id"] in ids

    fresh = server("token", "rotate", made["id"], "--json").json
    assert fresh["token"] != made["token"]
    assert server("token", "revoke", fresh["id"]).out == f"{fresh['id']} is revoked\n"
    assert fresh["id"] not in server("token", "list", "--json").out
    assert fresh["id"] in server("token", "list", "--all", "--json").out


def test_a_token_that_may_not_is_told_so(server: Up) -> None:
    made = server("token", "create", "looker", "--scope", "read", "--json").json
    told = server("token", "list", PODIUM_URL=server.url, PODIUM_TOKEN=made["token"])
    assert told.code == 1
    assert "admin" in told.complaint


def test_a_wrong_token_is_said_in_one_line(server: Up) -> None:
    told = server("queues", PODIUM_TOKEN="podium_not_a_token")
    assert told.code == 1
    assert "; set PODIUM_TOKEN" in told.complaint


def test_a_wrong_scope_is_wrong_usage(server: Up) -> None:
    told = server("token", "create", "x", "--scope", "everything")
    assert told.code == 2
    assert "see podium token create --help" in told.complaint


def test_the_audit_counts_no_broken_promise(server: Up) -> None:
    told = server("audit")
    assert (told.code, told.err) == (0, "")
    assert set(server("audit", "--json").json["violations"].values()) == {0}


def test_the_access_log_is_newest_first(server: Up) -> None:
    server("login")
    entries = server("audit", "--log", "--json", "--limit", "1").json_lines
    assert [entry["route"] for entry in entries] == ["/api/login-links"]
    assert is_table(server("audit", "--log"), "at", "actor", "address", "call", "status")


def test_a_login_link_is_for_this_server(server: Up) -> None:
    assert server("login").out.startswith(f"{server.url}/login?code=")
    assert server("login", "--json").json["url"].startswith(server.url)


def test_nobody_home_is_said_at_once(tmp_path: Path) -> None:
    told = podium(tmp_path / "data", "queues")
    assert told.code == 1
    assert "podium up" in told.complaint
    told = podium(tmp_path / "data", "queues", PODIUM_URL="http://127.0.0.1:1")
    assert told.code == 1
    assert told.complaint == "there is no server at http://127.0.0.1:1; start one: podium up"


def test_no_colour_without_a_terminal(server: Up) -> None:
    assert "\x1b" not in server("queues", FORCE_COLOR="", TERM="xterm-256color").out


def test_a_terminal_gets_colour_unless_it_wants_none(tmp_path: Path) -> None:
    data = tmp_path / "data"
    assert "\x1b[32mok" in seen_on_a_terminal(data, "doctor", "--port", "0")
    plain = seen_on_a_terminal(data, "doctor", "--port", "0", NO_COLOR="1")
    assert "\x1b" not in plain
    assert "is made at the first start" in plain


def test_ctrl_c_is_quiet(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(SECONDS_MAX)
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with subprocess.Popen(
            [*PODIUM, "queues"],
            env=environment(tmp_path / "data", {"PODIUM_URL": url}),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            silent.accept()[0].close()  # is anybody there?
            asked, _ = silent.accept()  # the call itself, which is never answered
            with asked:
                assert asked.recv(3) == b"GET"
                process.send_signal(signal.SIGINT)
                out, err = process.communicate(timeout=SECONDS_MAX)
    assert (process.returncode, out, err) == (130, b"", b"")


@pytest.mark.parametrize("command", [["version"], ["version", "--json"], ["--help"]])
def test_a_reader_that_has_gone_is_no_news(tmp_path: Path, command: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with subprocess.Popen(
        [*PODIUM, *command],
        env=environment(tmp_path),
        stdout=writing,
        stderr=subprocess.PIPE,
    ) as process:
        os.close(writing)
        assert process.stderr is not None
        assert process.stderr.read() == b""


def test_a_mistake_of_ours_is_one_line_and_a_trace_on_demand(tmp_path: Path) -> None:
    broken = (
        "import podium.cli.version as v, sys; v.shown = None; from podium.cli import main; main()"
    )
    command = [sys.executable, "-c", broken, "version"]
    told = subprocess.run(command, capture_output=True, text=True, env=environment(tmp_path))
    assert told.returncode == 1
    assert told.stderr.startswith("podium: a mistake of ours: AttributeError")
    assert len(told.stderr.splitlines()) == 1
    assert "PODIUM_DEBUG=1" in told.stderr
    told = subprocess.run(
        command, capture_output=True, text=True, env=environment(tmp_path, {"PODIUM_DEBUG": "1"})
    )
    assert "Traceback" in told.stderr
