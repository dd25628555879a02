"""What starts the house: what it prints, and how it refuses."""

from __future__ import annotations

import signal
import socket
import stat
import subprocess
from pathlib import Path

import pytest

from podium import __version__
from podium.cli.front import run
from tests.cli.programs import PODIUM, SECONDS_MAX, Up, environment, podium, seen_on_a_terminal

EXTERNAL = "0.0.0.0"


def test_up_says_where_it_is_and_what_it_keeps_where(server: Up) -> None:
    assert server.facts["version"] == __version__
    assert server.facts["pid"] == server.process.pid
    token = Path(server.facts["token_file"])
    assert token == server.data_dir / "admin.token"
    assert stat.S_IMODE(token.stat().st_mode) == 0o600
    assert server.facts["login_url"].startswith(f"{server.url}/login?code=")


def test_up_tells_people_the_few_things_they_want(tmp_path: Path) -> None:
    with subprocess.Popen(
        [*PODIUM, "up", "--port", "0", "--no-worker"],
        env=environment(tmp_path / "data"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        told = [process.stdout.readline() for _ in range(5)]
        process.send_signal(signal.SIGTERM)
        rest, logged = process.communicate(timeout=SECONDS_MAX)
    assert process.returncode == 0
    assert told[0].startswith(f"Podium {__version__} is up at http://127.0.0.1:")
    assert [line.split()[0] for line in told[1:]] == ["data", "token", "sign", "stop"]
    assert rest == ""
    assert all(line.startswith("{") for line in logged.splitlines())


def test_somebody_at_a_terminal_does_not_drown_in_the_log(tmp_path: Path) -> None:
    up = ["up", "--port", "0", "--no-worker"]
    assert "{" not in seen_on_a_terminal(tmp_path / "data", *up)
    asked = seen_on_a_terminal(tmp_path / "data", *up, "--set", "log.level=info")
    assert '"text":"ready"' in asked


@pytest.mark.parametrize("port", ["another", "the same"])
def test_a_second_up_on_the_same_folder_is_told_who_has_it(server: Up, port: str) -> None:
    chosen = "0" if port == "another" else server.url.rpartition(":")[2]
    told = server("up", "--port", chosen, "--quiet")
    assert told.code == 1
    assert f"is in use by process {server.process.pid} " in told.complaint
    assert "; stop that one first" in told.complaint


def test_the_database_is_its_owners_also_in_a_folder_that_is_not(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o755)
    assert podium(data, "migrate").code == 0
    assert stat.S_IMODE((data / "podium.db").stat().st_mode) == 0o600


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        told = podium(tmp_path / "data", "up", "--port", str(port))
    assert told.code == 1
    assert told.complaint.startswith(
        f"127.0.0.1 port {port} cannot be used: Address already in use;"
    )


def test_a_data_folder_that_cannot_be_one_is_named(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file in its place")
    told = podium(tmp_path / "data", "up", "--port", "0")
    assert told.code == 1
    assert told.complaint.startswith(f"the data folder {tmp_path / 'data'} cannot be made:")
    assert "; give another --data-dir" in told.complaint


@pytest.mark.parametrize(
    ("flags", "complaints"),
    [
        (["--port", "abc"], ["port: Input should be a valid integer"]),
        (["--port", "99999"], ["port: Input should be less than or equal to 65535"]),
        (["--set", "prt=1"], ["there is no setting prt; did you mean port?"]),
        (
            ["--set", "log.levle=info", "--set", "databse.url=x"],
            [
                "there is no setting log.levle; did you mean log.level?",
                "there is no setting databse.url",
            ],
        ),
        (["--set", "port"], ["--set port: give it as NAME=VALUE"]),
        (["--config", "nowhere.toml"], ["nowhere.toml: there is no such file"]),
        (["--host", EXTERNAL], [f"host {EXTERNAL} is reachable from outside"]),
        (["--tls-cert", "x.pem"], ["tls_cert and tls_key belong together"]),
        (["--database-url", "mysql://x"], ["database: url: it begins with postgresql://"]),
    ],
)
def test_wrong_settings_are_listed_one_per_line(
    tmp_path: Path,
    flags: list[str],
    complaints: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In this process: nothing is started, and a process for each would take a minute."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PODIUM_DATA_DIR", str(tmp_path / "data"))
    assert run(["up", *flags]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == len(complaints)
    for line, complaint in zip(lines, complaints, strict=True):
        assert line.startswith(f"podium: {complaint}")
    assert not (tmp_path / "data").exists()


def test_an_unknown_variable_is_refused_with_the_nearest(tmp_path: Path) -> None:
    told = podium(tmp_path / "data", "up", PODIUM_PROT="1")
    assert told.code == 2
    assert told.complaint == "PODIUM_PROT: there is no such setting; did you mean PODIUM_PORT?"


@pytest.mark.parametrize("name", ["server", "orchestrator"])
def test_a_fleet_needs_a_database_that_can_be_shared(tmp_path: Path, name: str) -> None:
    told = podium(tmp_path / "data", name)
    assert told.code == 1
    assert "give --database-url postgresql://" in told.complaint


def test_a_database_is_migrated_once(tmp_path: Path) -> None:
    first = podium(tmp_path / "data", "migrate", "--json").json["applied"]
    assert "kernel 0001_kernel" in first
    assert podium(tmp_path / "data", "migrate", "--json").json == {"applied": []}
    assert podium(tmp_path / "data", "migrate").out == "the database is up to date\n"


def test_what_is_in_use_is_not_migrated(server: Up) -> None:
    told = server("migrate")
    assert told.code == 1
    assert f"process {server.process.pid}" in told.complaint
