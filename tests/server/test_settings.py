from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from easeml_meter.cli.server import serve
from easeml_meter.errors import InvalidInput
from easeml_meter.server.settings import Settings, known, read_settings


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


def test_flags_reach_the_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen: list[Settings] = []
    monkeypatch.setattr(
        "easeml_meter.server.running.run", lambda settings, *_, **__: seen.append(settings)
    )
    file = tmp_path / "server.toml"
    file.write_text('metrics_public = true\nallowed_host = ["file.example"]\n')
    flags = ["--no-metrics-public", "--trusted-proxy", "10.0.0.1", "--trusted-proxy", "10.1.0.0/16"]
    done = CliRunner().invoke(
        serve,
        ["--settings", str(file), *flags, "--smtp-port", "25"],
        env={"METER_SERVER_SMTP_PORT": "26"},
        catch_exceptions=False,
    )
    assert done.exit_code == 0
    assert seen == [
        Settings(
            trusted_proxy=("10.0.0.1", "10.1.0.0/16"),
            smtp_port=25,
            allowed_host=("file.example",),
        )
    ]


def test_help_lists_every_setting_with_its_variable() -> None:
    text = " ".join(CliRunner().invoke(serve, ["--help"]).output.split())
    for name in known():
        assert f"--{name.replace('_', '-')}" in text
        assert f"METER_SERVER_{name.upper()};" in text
    assert "default: 127.0.0.1]" in text


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("colour = 1", "'colour' is no setting"),
        ("port = '80'", "port: '80' given, a whole number"),
        ("port = true", "port: 'True' given, a whole number"),
        ("burst = 0.5", "burst: '0.5' given, a whole number"),
        ("metrics_public = 1", "metrics_public: '1' given, true or false"),
        ("trusted_proxy = 'x'", "trusted_proxy: 'x' given, a list of texts"),
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
        ("METRICS_PUBLIC", "perhaps", "true or false"),
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
    ],
)
def test_impossible_settings_are_refused(values: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=_literally(said)):
        Settings(**values)


def test_secrets_are_not_shown() -> None:
    settings = Settings(database="postgresql://me:geheim@db/x", smtp_password="geheim")  # noqa: S106
    assert "geheim" not in repr(settings)
    assert "geheim" in settings.database_url


def _literally(text: str) -> str:
    return re.escape(text)
