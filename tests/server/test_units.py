"""Units of systemd: what they say, and what systemd itself says of them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.cli.running import Captured, run

from easeml_meter.errors import InvalidInput
from easeml_meter.server.settings import Settings
from easeml_meter.server.units import Kind, unit

FILE = Path("/etc/meter.toml")
POSTGRESQL = Settings(folder=Path("/srv/meter"), database="postgresql://m:secret@db/m")
SQLITE = Settings(folder=Path("/srv/meter"))
UNITS = {
    "a server that runs no models": (Kind.SERVER, POSTGRESQL, 1.5),
    "a server that runs models": (Kind.SERVER, SQLITE, 3.2),
    "a worker": (Kind.WORKER, POSTGRESQL, 3.2),
}
"""Each with the most exposure that `systemd-analyze security` may find, of 10."""


def said(text: str, name: str) -> list[str]:
    return re.findall(rf"^{name}=(.*)$", text, re.MULTILINE)


@pytest.mark.parametrize(("kind", "settings", "most"), UNITS.values(), ids=UNITS)
def test_systemd_takes_the_unit_and_finds_it_hardened(
    tmp_path: Path, kind: Kind, settings: Settings, most: float
) -> None:
    tool = shutil.which("systemd-analyze")
    if tool is None:
        pytest.skip("systemd-analyze is not installed")
    path = tmp_path / "meter.service"
    path.write_text(unit(kind, settings, FILE))
    verified = subprocess.run(
        [tool, "verify", str(path)], capture_output=True, text=True, check=False
    )
    assert [line for line in verified.stderr.splitlines() if "meter.service" in line] == []
    judged = subprocess.run(
        [
            tool,
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
