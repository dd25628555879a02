"""Settings: where they come from, what is refused, and that what is secret stays so."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from podium.app.settings import Profile, Settings
from podium.app.sources import (
    CLIENT_NAMES,
    SettingsError,
    effective,
    fields,
    load,
    load_traced,
    secret_values,
)
from podium.app.wiring import front
from podium.contracts.scopes import Scope

SECRET = "hunter2-is-the-password"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder without a podium.toml."""
    monkeypatch.chdir(tmp_path)


def loaded(
    file: str | None = None,
    environment: dict[str, str] | None = None,
    flags: dict[str, Any] | None = None,
) -> Settings:
    if file is not None:
        Path("podium.toml").write_text(file, "utf-8")
    return load(flags=flags or {}, environment=environment or {})


def refused(*args: Any, **kwargs: Any) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        loaded(*args, **kwargs)
    return caught.value.problems


def test_without_anything_the_defaults_are_in_force() -> None:
    settings = loaded()
    assert settings == Settings()
    assert settings.profile is Profile.EMBEDDED
    assert settings.url == "http://127.0.0.1:8437"


def test_a_flag_wins_over_the_environment_and_that_over_the_file() -> None:
    file = "port = 1\nhost = '127.0.0.1'\n[access]\nfailures_max = 1\nrequests_max = 1\n"
    environment = {"PODIUM_PORT": "2", "PODIUM_ACCESS_FAILURES_MAX": "2"}
    settings = loaded(file, environment, {"port": 3, "log.level": None})
    assert settings.port == 3
    assert settings.access.failures_max == 2
    assert settings.access.requests_max == 1
    assert settings.access.token_days == 90.0


def test_it_is_known_where_each_came_from() -> None:
    Path("podium.toml").write_text("port = 1\n[limits]\nstreams_max = 7\n")
    _, origins = load_traced(flags={"port": 3}, environment={"PODIUM_LOG_LEVEL": "debug"})
    assert origins == {
        "port": "--port",
        "limits.streams_max": "podium.toml",
        "log.level": "PODIUM_LOG_LEVEL",
    }


@pytest.mark.parametrize("field", list(fields()), ids=lambda field: field.name)
def test_every_setting_has_one_name_written_three_ways(field: Any) -> None:
    assert field.variable == "PODIUM_" + field.name.replace(".", "_").upper()
    assert field.flag == "--" + field.name.replace(".", "-").replace("_", "-")
    assert field.variable not in CLIENT_NAMES
    assert field.info.description, f"{field.name} does not say what it means"


def test_lists_are_separated_by_commas() -> None:
    environment = {
        "PODIUM_ACCESS_ANONYMOUS_SCOPES": "read, submit,",
        "PODIUM_EGRESS_PORTS": "80,8080",
        "PODIUM_EGRESS_NETWORKS": "10.0.0.0/8,fd00::/8",
    }
    settings = loaded(environment=environment)
    assert settings.access.anonymous_scopes == (Scope.READ, Scope.SUBMIT)
    assert settings.egress.ports == (80, 8080)
    assert [str(it) for it in settings.egress.networks] == ["10.0.0.0/8", "fd00::/8"]
    assert loaded(environment={"PODIUM_EGRESS_PORTS": ""}).egress.ports == ()


def test_what_the_clients_read_is_none_of_the_servers_business() -> None:
    assert loaded(environment={"PODIUM_URL": "x", "PODIUM_TOKEN": "y"}) == Settings()


# --- names that nobody knows ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "line", "name", "nearest"),
    [
        ("prot = 1\n", 1, "prot", "port"),
        ("port = 1\n\n[database]\nulr = 'x'\n", 4, "database.ulr", "database.url"),
        ("[database]\nurl = ''\n[bus]\nrl = ''\n", 4, "bus.rl", "bus.url"),
        ("[databse]\nurl = ''\n", 1, "databse", "database.url"),
        ("[limits]\nbytes_max = 1\n[blobs]\nbytes_max = 1\n", 2, "limits.bytes_max", None),
        ("database.ulr = 'x'\n", 1, "database.ulr", "database.url"),
        ('database = { url = "", ulr = "" }\n', 1, "database.ulr", "database.url"),
        ("database = 'postgresql://x'\n", 1, "database", "database.url"),
        ('\n"prot" = 1\n', 2, "prot", "port"),
    ],
)
def test_a_key_nobody_knows_is_named_with_its_line_and_the_nearest(
    file: str, line: int, name: str, nearest: str | None
) -> None:
    (problem,) = refused(file)
    assert problem.startswith(f"podium.toml:{line}: there is no setting {name}")
    if nearest is not None:
        assert problem.endswith(f"; did you mean {nearest}?")


def test_all_that_is_wrong_is_said_at_once() -> None:
    problems = refused("prot = 1\nhots = 2\n", {"PODIUM_PROT": "1"}, {"prot": 1})
    assert len(problems) == 4


def test_a_variable_nobody_knows_is_named_with_the_nearest() -> None:
    (problem,) = refused(environment={"PODIUM_DATABASE_ULR": SECRET})
    assert (
        problem
        == "PODIUM_DATABASE_ULR: there is no such setting; did you mean PODIUM_DATABASE_URL?"
    )


def test_a_file_that_is_asked_for_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="there is no such file"):
        load(flags={}, environment={}, file=tmp_path / "none.toml")


@pytest.mark.parametrize("text", ["port = ", "[a", "\x00", "port = 1\nport = 2"])
def test_a_file_that_is_no_toml_is_named(text: str) -> None:
    (problem,) = refused(text)
    assert problem.startswith("podium.toml: ")


def test_a_file_that_cannot_be_read_is_named() -> None:
    Path("podium.toml").write_bytes(b"\xff\xfe")
    (problem,) = refused()
    assert problem.startswith("podium.toml: it cannot be read")


# --- values that make no sense -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("port", "x"),
        ("port", "-1"),
        ("port", "65536"),
        ("stop_seconds", "0"),
        ("stop_seconds", "inf"),
        ("stop_seconds", "nan"),
        ("log.level", "loud"),
        ("access.anonymous_scopes", "root"),
        ("access.token_days", "0"),
        ("access.token_days", "inf"),
        ("access.failures_max", "0"),
        ("limits.body_bytes_max", "0"),
        ("retention.done_days", "inf"),
        ("retention.audit_days", "-1"),
        ("egress.ports", "0"),
        ("egress.networks", "10.0.0.1/8"),
        ("egress.networks", "internet"),
        ("behind_proxy", "perhaps"),
        ("public_url", "podium.example.org"),
        ("public_url", "ftp://podium.example.org"),
        ("public_url", "https://podium.example.org/path"),
        ("public_url", "https://podium.example.org/?q=1"),
        ("public_url", "https://user:pw@podium.example.org"),
        ("public_url", "https://podium.example.org:99999"),
        ("database.url", "mysql://root@db/x"),
        ("database.url", "podium.db"),
        ("bus.url", "amqp://x"),
        ("bus.url", "localhost:4222"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused_by_name(name: str, value: str) -> None:
    variable = "PODIUM_" + name.replace(".", "_").upper()
    problems = refused(environment={variable: value})
    assert problems
    assert all(problem.startswith(name.split(".")[0]) for problem in problems)


def test_a_secret_that_is_refused_is_not_repeated() -> None:
    for environment in (
        {"PODIUM_DATABASE_URL": f"mysql://root:{SECRET}@db/x"},
        {"PODIUM_DATABASE_URL": SECRET},
        {"PODIUM_DATABASE_URL": f"{SECRET}:more"},
        {"PODIUM_BUS_URL": f"amqp://u:{SECRET}@h"},
        {"PODIUM_BUS_URL": f"{SECRET}:x"},
        {"PODIUM_PUBLIC_URL": f"https://u:{SECRET}@podium.example.org"},
    ):
        assert SECRET not in str(refused(environment=environment))


# --- what is safe --------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_on_loopback_no_certificate_is_needed(host: str) -> None:
    assert loaded(environment={"PODIUM_HOST": host}).is_loopback


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "192.0.2.1", "podium.example.org", "", "10.0.0.1"]
)
def test_beyond_loopback_tokens_do_not_travel_in_the_clear(host: str) -> None:
    (problem,) = refused(environment={"PODIUM_HOST": host})
    assert "--tls-cert" in problem
    assert "--behind-proxy" in problem
    tls = {"PODIUM_TLS_CERT": "c.pem", "PODIUM_TLS_KEY": "k.pem"}
    assert loaded(environment={"PODIUM_HOST": host, **tls}).url.startswith("https://")
    behind = loaded(environment={"PODIUM_HOST": host, "PODIUM_BEHIND_PROXY": "true"})
    assert behind.host == host


@pytest.mark.parametrize("name", ["PODIUM_TLS_CERT", "PODIUM_TLS_KEY"])
def test_a_certificate_and_its_key_belong_together(name: str) -> None:
    (problem,) = refused(environment={name: "x.pem"})
    assert "belong together" in problem


def test_nobody_is_let_in_without_a_token_by_default() -> None:
    settings = Settings()
    assert settings.access.anonymous_scopes == ()
    assert settings.is_loopback
    assert not settings.behind_proxy
    assert settings.egress.networks == ()
    assert settings.egress.ports == (80, 443)


def test_secrets_are_masked_wherever_settings_are_shown() -> None:
    key = base64.b64encode(b"k" * 32).decode()
    environment = {
        "PODIUM_DATABASE_URL": f"postgresql://u:{SECRET}@db/x",
        "PODIUM_BUS_URL": f"nats://u:{SECRET}@h:4222",
        "PODIUM_BLOBS_SECRET_ACCESS_KEY": SECRET,
        "PODIUM_MASTER_KEY": key,
    }
    settings = loaded(environment=environment)
    shown = {field.name: text for field, text in effective(settings)}
    assert shown["database.url"] == shown["master_key"] == "********"
    for text in (repr(settings), str(settings), str(shown), settings.model_dump_json()):
        assert SECRET not in text
        assert key not in text
    assert dict(secret_values(settings)) == {
        "database.url": f"postgresql://u:{SECRET}@db/x",
        "bus.url": f"nats://u:{SECRET}@h:4222",
        "blobs.secret_access_key": SECRET,
        "master_key": key,
    }
    assert dict(secret_values(Settings())) == {}


def test_whatever_may_hold_a_secret_is_one() -> None:
    hiding = ("url", "key", "secret", "password", "token")
    open_names = {"public_url", "tls_key", "blobs.url", "blobs.access_key_id", "access.token_days"}
    for field in fields():
        if any(word in field.name for word in hiding):
            assert field.is_secret or field.name in open_names, field.name


# --- what follows from them ----------------------------------------------------------------------


def test_a_database_makes_it_distributed() -> None:
    for url in ("postgresql://podium@db/podium", "postgres://podium@db/podium"):
        assert loaded(environment={"PODIUM_DATABASE_URL": url}).profile is Profile.DISTRIBUTED


def test_links_are_built_from_the_public_address_and_its_host_is_ours() -> None:
    settings = loaded(environment={"PODIUM_PUBLIC_URL": "https://Podium.Example.org:8443/"})
    assert settings.url == "https://Podium.Example.org:8443"
    assert front(settings).hosts == {"127.0.0.1", "podium.example.org"}
    assert loaded(environment={"PODIUM_HOST": "::1"}).url == "http://[::1]:8437"


def test_a_path_may_begin_at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    assert loaded(environment={"PODIUM_DATA_DIR": "~/podium"}).data_path == Path("/home/ada/podium")
