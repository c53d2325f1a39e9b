"""`meter doctor`: one line a check, an exit code, and JSON."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.running import Captured, run

from easeml_meter.service.place import Site


def served(folder: Path) -> Path:
    """Make the folder of a server; return its key."""
    folder.mkdir(mode=0o700)
    key = folder / "server.key"
    Site.open(f"sqlite:///{folder}/meter.db", folder / "files", key).close()
    (folder / "files").mkdir()
    return key


def test_a_sound_server_is_eight_lines_and_exit_code_0(tmp_path: Path, capsys: Captured) -> None:
    served(tmp_path / "site")
    code, out, err = run(capsys, "doctor", "--folder", str(tmp_path / "site"))
    assert (code, err) == (0, "")
    assert [line.split()[1] for line in out.splitlines()] == [
        *("key", "sandbox", "database", "clock", "disk", "files", "proxy", "mail"),
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
    assert (code, said["ok"], len(said["checks"])) == (1, False, 8)
    assert said["checks"][0]["verdict"] == "fail"
    assert set(said["checks"][0]) == {"check", "verdict", "said", "remedy"}


def test_wrong_settings_are_one_line(tmp_path: Path, capsys: Captured) -> None:
    code, _, err = run(capsys, "doctor", "--folder", str(tmp_path), "--port", "70000")
    assert (code, err.count("\n")) == (2, 1)
