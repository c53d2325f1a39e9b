"""Tests that ask a meter, run by a pytest of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from tests import forking
from tests.service.helpers import Session, condition_spec, make_session

ROOT = Path(__file__).parents[2]
PLUGIN = "easeml_meter.integrations.pytest_plugin"
ALONE = ("--strict-markers", "--junitxml=j.xml", "-rs", "-p", "no:cacheprovider", "--rootdir=.")
PYTEST = "import pytest, sys; sys.exit(pytest.console_main())"
TEST = """
import pytest

@pytest.mark.meter({limits})
def test_hidden(meter):
    meter.submit({test!r}, {validation!r}, model="m")
"""


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return make_session(tmp_path)


def written(session: Session, test: int, validation: int, limits: str = "max_band=2") -> str:
    files = map(str, session.files(test, validation))
    named = dict(zip(("test", "validation"), files, strict=True))
    return TEST.format(limits=limits, **named)


def run(folder: Path, code: str, *options: str, fresh: bool = False) -> tuple[str, dict[str, str]]:
    """Run a test in a pytest of its own; return what it prints, and its JUnit properties.

    A `fresh` one has imported nothing before.
    """
    (folder / "test_it.py").write_text(code)
    # The plugin may be installed beside: then -p would register it a second time.
    alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "METER_FOLDER": "meter"}
    words = ["-p", PLUGIN, *ALONE, *options, "test_it.py"]
    if fresh:
        command = [sys.executable, "-m", "pytest", *words]
        done = subprocess.run(
            command, cwd=folder, env=alone, capture_output=True, text=True, check=False
        )
    else:
        done = forking.run(words, alone, program=PYTEST, folder=folder)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found = ET.parse(folder / "j.xml").iter("property")  # noqa: S314 (its own file)
    return done.stdout, {each.attrib["name"]: each.attrib["value"] for each in found}


def told(session: Session) -> int:
    return len(session.meter.status().signals)


def test_pytest_finds_the_plugin_by_its_entry_point() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"meter": PLUGIN}


def test_without_the_option_nothing_is_asked(session: Session) -> None:
    out, _ = run(session.folder, written(session, 0, 0))
    assert "1 skipped" in out
    assert "spends an answer of a test set: run with --meter" in out
    plain = "def test_unmarked(meter):\n    raise AssertionError\n"
    assert "1 skipped" in run(session.folder, plain)[0]
    assert told(session) == 0


def test_a_good_model_passes_and_is_recorded(session: Session) -> None:
    out, properties = run(session.folder, written(session, 0, 0), "--meter")
    assert "1 passed" in out
    assert properties == {
        "meter.answer": "1",
        "meter.step": "1",
        "meter.generation": "1",
        "meter.steps_left": "3",
        "meter.repeated": "False",
    }


@pytest.mark.parametrize("limits", ["max_band=2", "2"])
def test_a_model_above_the_band_fails_in_one_line(session: Session, limits: str) -> None:
    """The band without its name was not read, and every model passed."""
    code = written(session, len(session.test_labels), 0, limits)
    out, properties = run(session.folder, code, "--meter")
    assert "1 failed" in out
    failed = [line for line in out.splitlines() if line.startswith("failed: ")]
    assert len(failed) == 1
    assert "model m: step 1 of test set 1: band 3 is above band 2. With probability" in failed[0]
    assert "Traceback" not in out
    assert "submit(" not in out
    assert properties["meter.answer"] == "3"


def test_a_test_that_runs_again_is_free(session: Session) -> None:
    """A retrained model of the same name has other predictions; it was charged again."""
    run(session.folder, written(session, 0, 0), "--meter")
    out, properties = run(session.folder, written(session, 1, 0), "--meter")
    assert "1 passed" in out
    assert properties["meter.repeated"] == "True"
    assert told(session) == 1


def test_workers_of_xdist_share_one_answer(session: Session) -> None:
    code = written(session, 0, 0)
    twice = code + code.replace("test_hidden", "test_again").replace("import pytest", "")
    out, properties = run(session.folder, twice, "--meter", "-p", "xdist", "-n", "2")
    assert "2 passed" in out
    assert told(session) == 1
    assert properties["meter.answer"] == "1"


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ("max_band=9", "invalid: fail-above: 9 given, the number of a band, at most 3"),
        ("9", "invalid: fail-above: 9 given, the number of a band, at most 3"),
        ("most_loss=float('nan')", "invalid: most-loss: nan given"),
        ("max_bands=2", "invalid: meter marker: 'max_bands=2' given, numbers max_band or most_"),
        ("2, max_band=2", "'2, max_band=2' given"),
        ("2, 0.5, 3", "'2, 0.5, 3' given"),
        ("'2'", "given, numbers max_band"),
    ],
)
def test_a_limit_that_no_answer_can_pass_is_refused_first(
    session: Session, limits: str, words: str
) -> None:
    out, _ = run(session.folder, written(session, 0, 0, limits), "--meter")
    assert words in out
    assert told(session) == 0


def test_refusals_are_one_line(session: Session) -> None:
    code = written(session, 0, 0)
    out, _ = run(session.folder, code, "--meter", "--meter-folder", "nowhere")
    assert "not-found: " in out or "invalid: " in out
    assert "Traceback" not in out
    out, _ = run(session.folder, code, "--meter", "--meter-folder=a", "--meter-server=b")
    assert "meter: 'a folder and a server' given, give --meter-folder" in out


def test_a_run_that_asks_nothing_imports_nothing_but_pytest(tmp_path: Path) -> None:
    """It is loaded in every run of anybody who has the package."""
    code = """
import sys

def test_modules():
    ours = {name for name in sys.modules if name.startswith("easeml_meter")}
    package = "easeml_meter"
    plugin = package + ".integrations"
    assert ours == {package, package + ".version", plugin, plugin + ".pytest_plugin"}
    assert not {"numpy", "pyarrow", "sqlalchemy", "click", "httpx"} & set(sys.modules)
"""
    assert "1 passed" in run(tmp_path, code, fresh=True)[0]


@pytest.mark.parametrize(("errors", "answer"), [(0, "pass"), (30, "fail")])
def test_a_condition_is_a_gate_without_limits(tmp_path: Path, errors: int, answer: str) -> None:
    session = make_session(tmp_path, condition_spec())
    out, properties = run(tmp_path, written(session, errors, 0, limits=""), "--meter")
    assert ("n > 0.5 +/- 0.2 was not passed" in out) is (answer == "fail")
    assert properties["meter.answer"] == answer


def test_a_limit_is_held_against_the_question(tmp_path: Path) -> None:
    """One that the question cannot have was found after the answer was charged, by a traceback."""
    session = make_session(tmp_path, condition_spec())
    out, _ = run(tmp_path, written(session, 0, 0), "--meter")
    assert "invalid: fail-above: 2 given, --most-loss, or nothing: this meter has no bands" in out
    assert "Traceback" not in out
    assert "submit(" not in out
    assert told(session) == 0
