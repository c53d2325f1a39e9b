"""Units of systemd: what they say, and what systemd itself says of them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from tests.cli.running import Captured, run

from easeml_meter.errors import InvalidInput
from easeml_meter.server.settings import Settings
from easeml_meter.server.units import TIMER, Kind, unit

FILE = Path("/etc/meter.toml")
POSTGRESQL = Settings(folder=Path("/srv/meter"), database="postgresql://m:secret@db/m")
SQLITE = Settings(folder=Path("/srv/meter"))
UNITS = {
    "a server that runs no models": (Kind.SERVER, POSTGRESQL, 1.5),
    "a server that runs models": (Kind.SERVER, SQLITE, 3.2),
    "a worker": (Kind.WORKER, POSTGRESQL, 3.2),
    "backups": (Kind.BACKUP, SQLITE, 1.5),
}
"""Each with the most exposure that `systemd-analyze security` may find, of 10."""


def said(text: str, name: str) -> list[str]:
    return re.findall(rf"^{name}=(.*)$", text, re.MULTILINE)


TOOL = "systemd-analyze"
"""`make for-work` installs it (SYSTEM_PACKAGES): without it, these tests fail rather than skip."""


def problems(*units: Path) -> list[str]:
    """Give what systemd says of these units, and not of those of this machine."""
    verified = subprocess.run(
        [TOOL, "verify", *map(str, units)], capture_output=True, text=True, check=False
    )
    names = [unit.name for unit in units]
    return [line for line in verified.stderr.splitlines() if any(name in line for name in names)]


@pytest.mark.parametrize(("kind", "settings", "most"), UNITS.values(), ids=UNITS)
def test_systemd_takes_the_unit_and_finds_it_hardened(
    tmp_path: Path, kind: Kind, settings: Settings, most: float
) -> None:
    path = tmp_path / "meter.service"
    path.write_text(unit(kind, settings, FILE))
    assert problems(path) == []
    judged = subprocess.run(
        [
            TOOL,
            "security",
            "--offline=true",
            "--no-pager",
            f"--threshold={10 * most:.0f}",
            str(path),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert judged.returncode == 0, judged.stdout.splitlines()[-1]


def test_systemd_takes_the_timer_with_its_unit(tmp_path: Path) -> None:
    timer, service = tmp_path / "meter-backup.timer", tmp_path / said(TIMER, "Unit")[0]
    timer.write_text(TIMER)
    service.write_text(unit(Kind.BACKUP, SQLITE, FILE, ["--to", "s3://b/%", "--keep", "30"]))
    assert problems(timer, service) == []
    service.write_text(service.read_text().replace("oneshot", "sometimes"))
    assert problems(timer, service) != []


def test_a_backup_ends_by_itself_and_may_write_to_its_folder() -> None:
    there = "/mnt/the backups/100%"
    text = unit(Kind.BACKUP, POSTGRESQL, FILE, ["--to", there, "--keep", "30"], there)
    assert said(text, "Type") == ["oneshot"]
    assert said(text, "ExecStart")[0].endswith('--to "/mnt/the backups/100%%" --keep 30')
    assert said(text, "ReadWritePaths") == ['/srv/meter "/mnt/the backups/100%%"']
    assert (said(text, "Restart"), said(text, "WantedBy")) == ([], [])
    assert said(text, "RestrictNamespaces") == ["yes"]
    with pytest.raises(InvalidInput, match="absolute"):
        unit(Kind.BACKUP, POSTGRESQL, FILE, ["--to", "backups"], "backups")
    elsewhere = unit(Kind.BACKUP, POSTGRESQL, FILE, ["--to", "s3://b/c"], "s3://b/c")
    assert said(elsewhere, "ReadWritePaths") == ["/srv/meter"]


def test_what_runs_models_may_make_namespaces_and_nothing_else_may() -> None:
    assert said(unit(Kind.SERVER, POSTGRESQL, FILE), "RestrictNamespaces") == ["yes"]
    for text in (unit(Kind.SERVER, SQLITE, FILE), unit(Kind.WORKER, POSTGRESQL, FILE)):
        assert "user mnt pid" in said(text, "RestrictNamespaces")[0]
        for hiding in ("ProtectProc", "ProcSubset", "ProtectKernelTunables", "ProtectHostname"):
            assert said(text, hiding) == []


def test_only_the_program_itself_is_asked_to_stop() -> None:
    """A model that got SIGTERM would be answered "no reading", and charged."""
    text = unit(Kind.WORKER, POSTGRESQL, FILE)
    assert said(text, "KillMode") == ["mixed"]
    assert int(said(text, "TimeoutStopSec")[0]) > POSTGRESQL.shutdown_seconds


def test_no_secret_is_in_the_unit_and_all_that_is_written_may_be() -> None:
    elsewhere = POSTGRESQL.model_copy(update={"files": "/mnt/files", "key": Path("/etc/m/k")})
    text = unit(Kind.SERVER, elsewhere, FILE)
    assert "secret" not in text
    assert said(text, "ReadWritePaths") == ["/srv/meter /etc/m /mnt/files"]


@pytest.mark.parametrize("kind", [Kind.SERVER, Kind.BACKUP])
def test_a_unit_may_write_to_the_books_wherever_they_are(kind: Kind) -> None:
    """Beside the books, SQLite keeps its journal, and the server its lock."""
    books = SQLITE.model_copy(update={"database": "sqlite:////srv/books/meter.db"})
    assert said(unit(kind, books, FILE), "ReadWritePaths") == ["/srv/meter /srv/books"]
    relative = SQLITE.model_copy(update={"database": "sqlite:///books/meter.db"})
    with pytest.raises(InvalidInput, match="absolute"):
        unit(kind, relative, FILE)


def test_a_unit_reaches_what_lies_in_a_home() -> None:
    """ProtectHome=yes hides a folder there, whatever ReadWritePaths says."""
    assert said(unit(Kind.SERVER, SQLITE, FILE), "ProtectHome") == ["yes"]
    there = SQLITE.model_copy(update={"folder": Path("/home/meter/site")})
    assert said(unit(Kind.SERVER, there, FILE), "ProtectHome") == ["read-only"]
    written = Path("/root/meter.toml")
    assert said(unit(Kind.SERVER, SQLITE, written), "ProtectHome") == ["read-only"]


@pytest.mark.parametrize("kind", Kind)
def test_every_unit_takes_variables_from_a_file_that_need_not_exist(kind: Kind) -> None:
    """Those of S3 (AWS_...) are no settings of the program."""
    text = unit(kind, POSTGRESQL, FILE)
    assert said(text, "EnvironmentFile") == ["-/etc/meter.env"]
    assert text.index("EnvironmentFile=") < text.index("ExecStart")


def test_a_service_needs_a_file_of_settings_and_absolute_paths() -> None:
    with pytest.raises(InvalidInput, match="--settings FILE"):
        unit(Kind.SERVER, SQLITE, None)
    with pytest.raises(InvalidInput, match="absolute"):
        unit(Kind.SERVER, Settings(), FILE)


@pytest.mark.parametrize("command", ["serve", "worker"])
def test_commands_print_their_unit_and_stop(tmp_path: Path, capsys: Captured, command: str) -> None:
    file = tmp_path / "meter.toml"
    file.write_text(f'folder = "{tmp_path}/site"\ndatabase = "postgresql://m@db/m"\n')
    code, out, err = run(capsys, command, "--settings", str(file), "--print-systemd")
    assert (code, err) == (0, "")
    assert said(out, "ExecStart")[0].endswith(f"bin/meter {command} --settings {file}")
    assert not (tmp_path / "site").exists()
    flag = ("--folder", "/srv/meter")
    code, _, err = run(capsys, command, "--settings", str(file), *flag, "--print-systemd")
    assert (code, err.count("\n")) == (2, 1)


def test_backup_prints_its_unit_and_its_timer(tmp_path: Path, capsys: Captured) -> None:
    file = tmp_path / "meter.toml"
    file.write_text(f'folder = "{tmp_path}/site"\n')
    words = ("backup", "--to", "s3://b/c", "--settings", str(file), "--keep", "7")
    code, out, err = run(capsys, *words, "--print-systemd")
    assert (code, err) == (0, "")
    (line,) = said(out, "ExecStart")
    assert line.endswith(f"bin/meter backup --settings {file} --to s3://b/c --keep 7")
    assert run(capsys, *words, "--print-timer") == (0, TIMER, "")
    assert not (tmp_path / "site").exists()
    for wrong in (
        (*words, "--folder", "/srv/meter"),
        ("backup", "b.tar", "--settings", str(file)),
        ("backup", "--to", "backups", "--settings", str(file)),
        ("backup", "--to", "s3://b/c"),
    ):
        code, _, err = run(capsys, *wrong, "--print-systemd")
        assert (code, err.count("\n")) == (2, 1), wrong
