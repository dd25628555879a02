"""`podium doctor`: it finds what was broken on purpose, and says how to mend it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg

from podium.testing.broker_server import nats
from tests.cli.programs import Told, Up, podium
from tests.cli.test_calling import bury

LEVELS = ["ok", "warn", "fail"]


def findings(told: Told) -> dict[str, dict[str, Any]]:
    """By check; of several the worst."""
    worst: dict[str, dict[str, Any]] = {}
    for each in sorted(told.json["findings"], key=lambda found: LEVELS.index(found["level"])):
        worst[each["check"]] = each
    return worst


def origins(told: Told) -> dict[str, tuple[str, str]]:
    return {each["name"]: (each["value"], each["from"]) for each in told.json["settings"]}


def test_nothing_is_wrong_before_the_first_start(tmp_path: Path) -> None:
    told = podium(tmp_path / "data", "doctor", "--json", "--port", "0")
    assert (told.code, told.err) == (0, "")
    levels = {name: each["level"] for name, each in findings(told).items()}
    assert levels.pop("server") == "warn"
    assert set(levels.values()) == {"ok"}
    assert not (tmp_path / "data").exists()


def test_a_running_server_is_asked_over_http(server: Up) -> None:
    bury(server, "sick-1", queue="sick")
    told = server("doctor", "--json")
    assert told.code == 0
    found = findings(told)
    assert found["server"]["level"] == "ok"
    assert f"process {server.process.pid}" in found["database"]["text"]
    assert found["audit"]["text"] == "no promise is broken"
    assert found["dead letters"]["level"] == "warn"
    assert found["dead letters"]["mend"] == "podium deadletter list"


def test_files_that_others_can_read_are_found_with_what_mends_them(tmp_path: Path) -> None:
    data = tmp_path / "data"
    podium(data, "migrate")
    (data / "admin.token").write_text("x")
    (data / "admin.token").chmod(0o644)
    (data / "master.key").chmod(0o640)
    data.chmod(0o755)
    told = podium(data, "doctor", "--json", "--port", "0")
    assert told.code == 1
    assert told.complaint == "to be mended: token, master key; the table says how"
    found = findings(told)
    assert found["folder"]["mend"] == f"chmod 700 {data}"
    assert found["token"]["mend"] == f"chmod 600 {data / 'admin.token'}"
    assert found["migrations"]["level"] == "ok"


def test_wrong_settings_and_a_taken_port_are_findings(tmp_path: Path, server: Up) -> None:
    told = podium(tmp_path / "data", "doctor", "--json", "--set", "prt=1")
    assert told.code == 1
    assert findings(told)["settings"]["text"] == "there is no setting prt; did you mean port?"
    host, port = server.url.removeprefix("http://").split(":")
    taken = podium(tmp_path / "data", "doctor", "--json", "--host", host, "--port", port)
    # Somebody answers there, but it is not open to what lies in this folder.
    assert findings(taken)["work"]["level"] == "warn"


def test_it_shows_what_is_in_force_and_whence_without_secrets(tmp_path: Path) -> None:
    (tmp_path / "podium.toml").write_text("stop_seconds = 7\n[retention]\ndone_days = 3\n")
    told = podium(
        tmp_path / "data",
        "doctor",
        "--json",
        "--port",
        "0",
        PODIUM_MASTER_KEY="c2VjcmV0IHNlY3JldCBzZWNyZXQgc2VjcmV0IHNlY3I=",
        PODIUM_RETENTION_DONE_DAYS="4",
    )
    found = origins(told)
    assert found["port"] == ("0", "--port")
    assert found["stop_seconds"] == ("7.0", "podium.toml")
    assert found["retention.done_days"] == ("4.0", "PODIUM_RETENTION_DONE_DAYS")
    assert found["host"] == ("127.0.0.1", "default")
    assert found["master_key"] == ("********", "PODIUM_MASTER_KEY")
    assert "c2VjcmV0" not in told.out


def test_a_fleet_is_looked_at_part_by_part(tmp_path: Path, postgres_url: str) -> None:
    with nats() as broker:
        flags = ["--port", "0", "--database-url", postgres_url, "--bus-url", broker.url]
        told = podium(tmp_path / "data", "doctor", "--json", *flags)
        found = findings(told)
        assert found["bus"]["level"] == "ok"
        assert found["clock"]["level"] == "ok"
        assert found["migrations"]["mend"] == "podium migrate"
        assert found["master key"]["level"] == "fail"
        assert told.code == 1


def test_what_cannot_be_reached_is_named(tmp_path: Path) -> None:
    told = podium(
        tmp_path / "data",
        "doctor",
        "--json",
        "--port",
        "0",
        "--database-url",
        "postgresql://nobody:hush@127.0.0.1:1/none",
        "--bus-url",
        "nats://nobody:hush@127.0.0.1:1",
    )
    found = findings(told)
    assert (found["database"]["level"], found["bus"]["level"]) == ("fail", "fail")
    assert "hush" not in told.out


def test_a_database_that_does_not_sync_is_a_failure(tmp_path: Path, postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(
            "do $$ begin execute format('alter database %I set synchronous_commit = off',"
            " current_database()); end $$"
        )
    told = podium(
        tmp_path / "data", "doctor", "--json", "--port", "0", "--database-url", postgres_url
    )
    assert findings(told)["database"]["text"].startswith("synchronous_commit is off")


def test_people_get_a_table(tmp_path: Path) -> None:
    told = podium(tmp_path / "data", "doctor", "--port", "0")
    assert told.out.splitlines()[0].split() == ["check", "what", "how", "to", "mend", "it"]
    assert ["port", "0", "--port"] in [line.split() for line in told.out.splitlines()]


def test_doctor_says_whether_a_callback_would_be_let_out(tmp_path: Path) -> None:
    address = "http://169.254.169.254/latest"
    told = podium(tmp_path / "data", "doctor", "--json", "--port", "0", "--reach", address)
    assert told.code == 1
    found = findings(told)["reach"]
    assert "metadata service" in found["text"]
    assert "egress.networks" in found["mend"]
