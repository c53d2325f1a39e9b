"""Every command in README and docs runs, and prints what the page says it prints."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
METER = Path(sys.executable).with_name("meter")


def documented_commands() -> list[tuple[str, str, list[str]]]:
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for block in re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
            for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
                command, *output = part.rstrip("\n").split("\n")
                found.append((page.name, command, output))
    return found


@pytest.mark.parametrize(
    ("page", "command", "output"), documented_commands(), ids=lambda value: str(value)[:60]
)
def test_documented_command(page: str, command: str, output: list[str], tmp_path: Path) -> None:
    program, *arguments = shlex.split(command)
    assert program == "meter", f"{page}: only meter commands are run"
    done = subprocess.run(
        [METER, *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={"COLUMNS": "80", "PATH": "/usr/bin:/bin"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout
    if output:
        printed = [line.rstrip() for line in done.stdout.rstrip().split("\n")]
        assert printed == [line.rstrip() for line in output]


def test_readme_python_runs() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, "README.md", "exec"), {})  # noqa: S102  the page's own code


def test_readme_make_targets_exist() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"^make (\w+)", text, re.MULTILINE)
    assert targets
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_contributing_fits_on_a_screen() -> None:
    assert len((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").splitlines()) <= 40
