"""`meter serve` (its flags, and what keeps it from starting, in one line) and `meter doctor`."""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.cli.running import Captured, run
from tests.server.driving import begin
from tests.server.helpers import serve as served_from
from tests.service.sites import make_room, make_site

from easeml_meter.cli.server import installation, serve
from easeml_meter.core.doctor import Finding, Verdict
from easeml_meter.scoring import sandbox
from easeml_meter.server import worker
from easeml_meter.server.settings import Settings
from easeml_meter.service.actor import SYSTEM
from easeml_meter.service.doctor import examine
from easeml_meter.service.place import RECIPIENT, Site
from easeml_meter.storage.files import FolderFiles


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


def served(folder: Path) -> Path:
    """Make the folder of a server; return its key."""
    folder.mkdir(mode=0o700)
    key = folder / "server.key"
    Site.open(f"sqlite:///{folder}/meter.db", folder / "files", key).close()
    (folder / "files").mkdir()
    return key


def test_a_sound_server_is_seven_lines_and_exit_code_0(tmp_path: Path, capsys: Captured) -> None:
    served(tmp_path / "site")
    code, out, err = run(capsys, "doctor", "--folder", str(tmp_path / "site"))
    assert (code, err) == (0, "")
    assert [line.split()[1] for line in out.splitlines()] == [
        *("key", "sandbox", "database", "disk", "files", "workers", "proxy"),
    ]


def test_a_failure_is_exit_code_1_and_says_what_to_do(tmp_path: Path, capsys: Captured) -> None:
    key = served(tmp_path / "site")
    key.chmod(0o644)
    code, out, _ = run(capsys, "doctor", "--folder", str(tmp_path / "site"))
    assert code == 1
    assert out.splitlines()[0].startswith(f"fail  key       {key}: accounts other than")
    assert f"chmod 600 {key}" in out


def test_json_has_the_same(tmp_path: Path, capsys: Captured) -> None:
    served(tmp_path / "site").chmod(0o604)
    code, out, _ = run(capsys, "doctor", "--folder", str(tmp_path / "site"), "--json")
    said = json.loads(out)
    assert (code, said["ok"], len(said["checks"])) == (1, False, 7)
    assert said["checks"][0]["verdict"] == "fail"
    assert set(said["checks"][0]) == {"check", "verdict", "said", "remedy"}


def test_wrong_settings_are_one_line(tmp_path: Path, capsys: Captured) -> None:
    code, _, err = run(capsys, "doctor", "--folder", str(tmp_path), "--port", "70000")
    assert (code, err.count("\n")) == (2, 1)


def test_an_installation_is_what_the_settings_name(tmp_path: Path) -> None:
    found = installation(Settings(folder=tmp_path, trusted_proxy=("10.0.0.1",)))
    assert found.database == f"sqlite:///{tmp_path}/meter.db"
    assert (found.key, found.files) == (tmp_path / "server.key", str(tmp_path / "files"))
    assert found.trusted_proxy == ("10.0.0.1",)
    assert "postgresql" not in repr(installation(Settings(database="postgresql://m:secret@h/m")))


@pytest.mark.parametrize(
    ("given", "clear"),
    [
        ({}, False),
        ({"host": "localhost"}, False),
        ({"host": "0.0.0.0"}, True),  # noqa: S104
        ({"host": "meter.example.org"}, True),
        ({"host": "::", "trusted_proxy": ("10.0.0.1",)}, False),
    ],
)
def test_tokens_travel_in_the_clear_to_other_machines_only(
    given: dict[str, Any], clear: bool
) -> None:
    assert Settings(**given).in_the_clear is clear


def test_tls_alone_is_no_proxy() -> None:
    tls: dict[str, Any] = {"tls_certificate": Path("a.pem"), "tls_key": Path("a.key")}
    found = installation(Settings(host="0.0.0.0", **tls))  # noqa: S104
    assert (found.exposed, found.in_the_clear) == (True, False)
    assert not installation(Settings(host="127.0.0.1", **tls)).exposed
    assert not installation(Settings(host="0.0.0.0", trusted_proxy=("10.0.0.1",))).exposed  # noqa: S104


@pytest.fixture
def lived_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a site with a meter that has both sets."""
    monkeypatch.setattr(sandbox, "missing", lambda: None)
    folder = tmp_path / "site"
    folder.mkdir(mode=0o700)
    with served_from(folder) as served:
        worker.prepare(served.site)
        begin(served, served.add_meter(), tmp_path)
        yield folder


def files_of(folder: Path, **settings: Any) -> Finding:
    given = Settings(folder=folder, **settings)
    return next(each for each in examine(SYSTEM, installation(given)) if each.check == "files")


def test_nothing_is_missing_where_everything_is_there(lived_in: Path) -> None:
    assert files_of(lived_in).verdict is Verdict.OK


@pytest.mark.parametrize("kind", ["testsets", "validation"])
def test_a_set_that_the_books_name_is_missed(lived_in: Path, kind: str) -> None:
    (gone,) = [
        each
        for each in lived_in.glob(f"files/meters/*/{kind}/*")
        if each.suffix in {".sealed", ".parquet"}
    ]
    gone.unlink()
    finding = files_of(lived_in)
    assert finding.verdict is Verdict.FAIL
    assert str(gone.relative_to(lived_in / "files")) in finding.said
    assert "backup" in finding.remedy


def test_files_of_another_server_or_none_are_missed(lived_in: Path) -> None:
    (lived_in / "files" / RECIPIENT).unlink()
    finding = files_of(lived_in)
    assert (finding.verdict, RECIPIENT in finding.said) == (Verdict.FAIL, True)
    (lived_in / "files").rename(lived_in / "away")
    finding = files_of(lived_in)
    assert (finding.verdict, "no such folder" in finding.said) == (Verdict.FAIL, True)
    assert not (lived_in / "files").exists()


def test_few_names_are_looked_for(lived_in: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    exists = FolderFiles.exists

    def noting(self: FolderFiles, name: str) -> bool:
        asked.append(name)
        return exists(self, name)

    monkeypatch.setattr(FolderFiles, "exists", noting)
    monkeypatch.setattr("easeml_meter.service.doctor._NAMES", 1)
    assert files_of(lived_in).verdict is Verdict.OK
    named = [each for each in asked if each.startswith("meters/")]
    assert sorted(each.split("/")[2] for each in named) == ["testsets", "validation"]


def test_what_others_can_read_is_a_warning(lived_in: Path, tmp_path: Path) -> None:
    lived_in.chmod(0o750)
    finding = files_of(lived_in)
    assert (finding.verdict, finding.remedy) == (Verdict.WARN, f"chmod 700 {lived_in}")
    lived_in.chmod(0o700)
    # Beside a site, a folder or a database has to be closed by itself.
    outside = tmp_path / "outside"
    outside.mkdir()
    outside.chmod(0o755)
    (lived_in / "files").rename(outside / "files")
    (outside / "files").chmod(0o755)
    finding = files_of(lived_in, files=str(outside / "files"))
    assert finding.remedy == f"chmod 700 {outside / 'files'}"
    (outside / "files").chmod(0o700)
    assert files_of(lived_in, files=str(outside / "files")).verdict is Verdict.OK
    books = outside / "meter.db"
    for each in lived_in.glob("meter.db*"):
        shutil.copy(each, outside)
    books.chmod(0o644)
    moved = {"files": str(outside / "files"), "database": f"sqlite:///{books}"}
    assert files_of(lived_in, **moved).remedy == f"chmod 600 {books}*"
    outside.chmod(0o700)
    assert files_of(lived_in, **moved).verdict is Verdict.OK
