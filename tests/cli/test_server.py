"""`meter serve`: its flags, and what keeps it from starting, in one line."""

from __future__ import annotations

import socket
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.cli.running import Captured, run
from tests.service.sites import make_room, make_site

from easeml_meter.cli.server import serve
from easeml_meter.server.settings import Settings


def test_flags_reach_the_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen: list[Settings] = []
    monkeypatch.setattr(
        "easeml_meter.server.serve.run", lambda settings, *_, **__: seen.append(settings)
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
    for name in Settings.model_fields:
        assert f"--{name.replace('_', '-')}" in text
        assert f"METER_SERVER_{name.upper()};" in text
    assert "default: 127.0.0.1]" in text


def test_a_port_in_use_is_one_line(tmp_path: Path, capsys: Captured) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        arguments = ("serve", "--folder", str(tmp_path / "site"), "--port", str(port))
        code, out, err = run(capsys, *arguments)
    assert (code, out) == (1, "")
    assert err.startswith(f"meter: 127.0.0.1:{port}: cannot listen there")
    assert err.count("\n") == 1


def test_files_that_are_away_are_one_line(tmp_path: Path, capsys: Captured) -> None:
    """A share that was not mounted got a note of its own, and the server answered errors."""
    site = tmp_path / "site"
    with closing(make_site(site, f"sqlite:///{site}/meter.db")) as opened:
        make_room(opened, tmp_path / "room")
    (site / "files").rename(tmp_path / "away")
    with socket.create_server(("127.0.0.1", 0)) as taken:  # should it start all the same
        port = str(taken.getsockname()[1])
        code, out, err = run(capsys, "serve", "--folder", str(site), "--port", port)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert f"{site}/files: none of the files is there that the books name" in err
    assert not (site / "files").exists()


def test_missing_certificate_is_one_line(tmp_path: Path, capsys: Captured) -> None:
    arguments = ("--tls-certificate", str(tmp_path / "no.pem"), "--tls-key", str(tmp_path / "no"))
    code, _, err = run(
        capsys, "serve", "--folder", str(tmp_path / "site"), "--port", "0", *arguments
    )
    assert code == 1
    assert "cannot be used for TLS: No such file" in err
    assert err.count("\n") == 1
