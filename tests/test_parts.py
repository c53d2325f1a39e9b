"""`make test` runs parts side by side, tells the time of each, and fails if one of them does."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MAKEFILE = """
good other:
\t@echo this is $@
bad:
\t@echo this is $@; false
waits:
\t@while [ ! -e met ]; do sleep 0.01; done; echo this is $@
meets:
\t@echo this is $@; touch met
"""


def parts(folder: Path, *words: str) -> tuple[int, list[str], list[str]]:
    """Return the exit code, the parts that printed something, and those whose time was told."""
    (folder / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "parts.sh", folder / "scripts")
    (folder / "Makefile").write_text(MAKEFILE)
    done = subprocess.run(
        ["sh", "scripts/parts.sh", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    ran = re.findall(r"^this is (\w+)$", done.stdout, re.MULTILINE)
    return done.returncode, ran, re.findall(r"^(\w+) +\d+ s$", done.stdout, re.MULTILINE)


def test_those_after_the_dashes_run_side_by_side(tmp_path: Path) -> None:
    told = ["good", "waits", "meets"]
    assert parts(tmp_path, "good", "--", "waits", "meets") == (0, ["good", "meets", "waits"], told)


@pytest.mark.parametrize(
    ("words", "ran"),
    [
        ("good bad other -- waits", ["good", "bad"]),
        ("good -- bad other", ["good", "other", "bad"]),
        ("good -- other bad", ["good", "bad", "other"]),
        ("bad", ["bad"]),
    ],
)
def test_one_that_fails_is_not_hidden(tmp_path: Path, words: str, ran: list[str]) -> None:
    code, found, told = parts(tmp_path, *words.split())
    assert (code != 0, found) == (True, ran)
    assert sorted(told) == sorted(ran)


def test_the_time_of_a_part_alone_is_told(tmp_path: Path) -> None:
    assert parts(tmp_path, "good", "other") == (0, ["good", "other"], ["good", "other"])
