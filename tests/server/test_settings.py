"""Settings of a server: from flags, the environment and a file; secrets are not shown."""

from __future__ import annotations

import re
import sys
import traceback
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from easeml_meter.errors import InvalidInput
from easeml_meter.server.settings import Settings, read_settings
from easeml_meter.storage.store import Store, alone


def test_flags_win_over_environment_over_file(tmp_path: Path) -> None:
    file = tmp_path / "server.toml"
    file.write_text('host = "192.0.2.1"\nport = 1\nburst = 7\ntrusted_proxy = ["10.0.0.1"]\n')
    environment = {
        "METER_SERVER_PORT": "2",
        "METER_SERVER_BURST": "8",
        "METER_SERVER_METRICS_PUBLIC": "true",
        "METER_SERVER_ALLOWED_HOST": "a.example, b.example",
        "METER_SERVER_PLANS_PER_MINUTE": "0.5",
        "METER_SERVER_KEY": "/run/key",
        "OTHER": "x",
    }
    found = read_settings(file, environment, {"burst": 9, "host": None, "folder": Path("f")})
    assert found == Settings(
        host="192.0.2.1",
        port=2,
        burst=9,
        folder=Path("f"),
        key=Path("/run/key"),
        trusted_proxy=("10.0.0.1",),
        allowed_host=("a.example", "b.example"),
        metrics_public=True,
        plans_per_minute=0.5,
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("colour = 1", "'colour' is no setting"),
        ("PORT = 1", "'PORT' is no setting"),
        ("_env_file = 'x'", "'_env_file' is no setting"),
        ("port = '80'", "port: '80' given, a whole number"),
        ("port = true", "port: 'True' given, a whole number"),
        ("burst = 0.5", "burst: '0.5' given, a whole number"),
        ("metrics_public = 1", "metrics_public: '1' given, true or false"),
        ("trusted_proxy = 'x'", "trusted_proxy: 'x' given, a list of texts"),
        ("allowed_host = ['a', 1]", """allowed_host: "['a', 1]" given, a list of texts"""),
        ("allowed_host = {a = 'b'}", "given, a list of texts"),
        ("burst = 1.0", "burst: '1.0' given, a whole number"),
        ("requests_per_second = true", "requests_per_second: 'True' given, a number"),
        ("log_level = 1", "log_level: '1' given, one of debug"),
        ("host = 1", "host: '1' given, a text"),
        ("folder = 1", "folder: '1' given, a path"),
        ("port =", "not a valid TOML file"),
        ("smtp_password = 17", "smtp_password: '(hidden)' given"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path: Path, content: str, said: str) -> None:
    file = tmp_path / "server.toml"
    file.write_text(content)
    with pytest.raises(InvalidInput, match=_literally(said)):
        read_settings(file, {}, {})


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot be read"):
        read_settings(tmp_path / "none.toml", {}, {})


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("PORT", "eighty", "METER_SERVER_PORT: 'eighty' given, a whole number"),
        ("PORT", "80.0", "METER_SERVER_PORT: '80.0' given, a whole number"),
        ("METRICS_PUBLIC", "perhaps", "true or false"),
        ("BADGES", "yes", "METER_SERVER_BADGES: 'yes' given, true or false"),
        ("BURST", "", "a whole number"),
    ],
)
def test_a_wrong_variable_is_refused(name: str, value: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=_literally(said)):
        read_settings(None, {f"METER_SERVER_{name}": value}, {})


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"port": 65536}, "at most 65535"),
        ({"port": -1}, "at least 0"),
        ({"requests_per_second": float("nan")}, "at least 0"),
        ({"log_level": "loud"}, "one of debug"),
        ({"tls_key": Path("k")}, "both or neither"),
        ({"trusted_proxy": ("*",)}, "an address or a network"),
        ({"smtp_host": "mail.example"}, "smtp_from"),
        ({"executor": "dask:host"}, "executor: 'dask:host' given, one of inline, processes"),
    ],
)
def test_impossible_settings_are_refused(values: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=_literally(said)):
        Settings(**values)


def test_variables_are_named_in_capitals() -> None:
    others = {"meter_server_port": "1", "METER_SERVER_port": "2"}
    assert read_settings(None, others, {}) == Settings()


def test_an_empty_path_is_the_default_one(tmp_path: Path) -> None:
    file = tmp_path / "server.toml"
    file.write_text('folder = ""\ntls_key = ""\n')
    assert read_settings(file, {"METER_SERVER_KEY": ""}, {}) == Settings()


def test_settings_are_what_is_passed_and_stay_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("METER_SERVER_PORT", "1")
    settings = Settings()
    assert settings.port == 8080
    with pytest.raises(InvalidInput, match="'colour' is no setting"):
        Settings(colour=1)  # type: ignore[call-arg]
    with pytest.raises(ValidationError, match="frozen"):
        settings.port = 2


@pytest.mark.parametrize("name", ["database", "files", "smtp_password"])
def test_no_error_carries_a_secret(tmp_path: Path, name: str) -> None:
    file = tmp_path / "server.toml"
    file.write_text(f'{name} = ["geheim"]\n')
    with pytest.raises(InvalidInput, match="hidden") as raised:
        read_settings(file, {}, {})
    assert "geheim" not in "".join(traceback.format_exception(raised.value))
    assert raised.value.__context__ is None  # nor would a debugger that follows the chain show it


def test_a_secret_is_not_shown_when_another_setting_is_wrong() -> None:
    environment = {"METER_SERVER_SMTP_PASSWORD": "geheim"}
    with pytest.raises(InvalidInput, match="at least 0") as raised:
        read_settings(None, environment, {"port": -1})
    assert "geheim" not in "".join(traceback.format_exception(raised.value))


def test_secrets_are_not_shown() -> None:
    settings = Settings(database="postgresql://me:geheim@db/x", smtp_password="geheim")  # noqa: S106
    assert "geheim" not in repr(settings)
    assert "geheim" in settings.database_url


def test_a_server_keeps_its_books_in_its_folder_whatever_that_is_called(tmp_path: Path) -> None:
    for name in ("run?1", "a%20b"):
        folder = tmp_path / name
        settings = read_settings(None, {}, {"folder": folder})
        with alone(settings.database_url):
            Store.open(settings.database_url).close()
        assert (folder / "meter.db").is_file()


def _literally(text: str) -> str:
    return re.escape(text)


@pytest.mark.parametrize(
    "flags",
    [
        {"folder": "{bound}/data"},
        {"key": "{bound}/server.key"},
        {"files": "{bound}/files"},
        {"database": "sqlite:///{bound}/meter.db"},
    ],
)
def test_what_submitted_commands_could_read_is_refused(flags: dict[str, str]) -> None:
    """Before, a server below its own environment showed its key to every submitted command."""
    bound = f"{sys.prefix}/lib"
    given = {name: text.format(bound=bound) for name, text in flags.items()}
    with pytest.raises(InvalidInput, match="submitted commands can read"):
        read_settings(None, {}, given)
    elsewhere = {"files": "s3://bucket/files", "database": "postgresql://localhost/meter"}
    assert read_settings(None, {}, elsewhere).files == "s3://bucket/files"


PROVIDER: dict[str, Any] = {
    "oidc_issuer": "https://login.example.org",
    "oidc_client_id": "meter",
    "public_url": "https://meter.example.org",
}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"oidc_issuer": "http://login.example.org"}, "oidc_issuer: 'http://login.example.org'"),
        ({"oidc_issuer": "login.example.org"}, "oidc_issuer"),
        ({"oidc_client_id": ""}, "oidc_client_id: '' given, needed with oidc_issuer"),
        ({"public_url": ""}, "public_url: '' given, needed with oidc_issuer"),
        ({"oidc_seat": ["g=owner:spam"]}, "oidc_seat: 'g=owner:spam' given, GROUP=admin"),
        ({"oidc_issuer": "", "oidc_client_id": "x"}, "oidc_issuer: '' given, the provider"),
    ],
)
def test_a_provider_is_named_as_a_whole(given: dict[str, Any], said: str) -> None:
    Settings(**PROVIDER)
    with pytest.raises(InvalidInput, match=re.escape(said)):
        Settings(**(PROVIDER | given))


@pytest.mark.parametrize("name", ["database", "smtp_password", "oidc_client_secret"])
def test_a_secret_comes_from_a_file_of_its_own(tmp_path: Path, name: str) -> None:
    file = tmp_path / "secret"
    file.write_text("sqlite:///hidden words\n")
    found = read_settings(None, {f"METER_SERVER_{name.upper()}_FILE": str(file)}, {})
    assert getattr(found, name) == "sqlite:///hidden words"
    assert "hidden" not in repr(found)
    both: dict[str, Any] = {name: "x", f"{name}_file": file}
    with pytest.raises(InvalidInput, match=f"{name}_file: .* given, it or {name}, not both"):
        Settings(**both)


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"", "holds no secret"), (b"one\ntwo\n", "holds no secret"), (b"\xff", "cannot be read")],
)
def test_a_file_that_holds_no_secret_is_named(tmp_path: Path, content: bytes, said: str) -> None:
    file = tmp_path / "secret"
    file.write_bytes(content)
    with pytest.raises(InvalidInput, match=said) as refused:
        Settings(smtp_password_file=file)
    assert "one" not in str(refused.value).replace("one line", "")
    with pytest.raises(InvalidInput, match=r"missing.*cannot be read \(No such file"):
        Settings(smtp_password_file=tmp_path / "missing")
