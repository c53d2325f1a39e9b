"""`meter demo`, from `python -m easeml_meter`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path


def run(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the command in a folder, with a terminal's width and no terminal."""
    return subprocess.run(
        [sys.executable, "-m", "easeml_meter", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "80"},
    )


def test_a_folder_that_exists_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "meter-demo").mkdir()
    done = run("demo", folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    wanted = (
        "exists already: look at it with meter -C meter-demo status, or: meter demo meter-demo-2"
    )
    assert f"meter-demo: {wanted}" in done.stderr
    assert list((tmp_path / "meter-demo").iterdir()) == []


def test_programs_get_the_end_of_the_story(tmp_path: Path) -> None:
    done = run("demo", "told", "--json", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    assert (told["folder"], told["phase"], len(told["signals"])) == ("told", "released", 10)
    assert (tmp_path / "told" / "tutorial").is_dir()


def test_the_alarm_rings_where_the_bands_march(tmp_path: Path) -> None:
    done = run("demo", "told", "--yes", folder=tmp_path)
    lines = [line for line in done.stdout.splitlines() if "%  " in line and " validation " in line]
    heard = ["ALARM" if "ALARM" in line else "ok" for line in lines]
    assert heard == ["ok"] * 7 + ["ALARM"] + ["ok"] * 2
    assert "[3]" in lines[7]
    assert max(map(len, lines)) < 80
