"""The examples of integrations run from beginning to end."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.forking import shims
from tests.integrations.test_reading import LOGS, bench_of

from easeml_meter import Meter, MeterSpec
from easeml_meter.demo.story import write_tutorial

EXAMPLES = Path(__file__).parents[2] / "examples" / "integrations"


@pytest.fixture
def mails(tmp_path: Path) -> Path:
    """Make a folder with the files of the tutorial, and its meter in `mail`."""
    folder = tmp_path / "tutorial"
    write_tutorial(folder)
    with contextlib.closing(
        Meter.create(folder / "mail", MeterSpec.read(folder / "meter.toml"))
    ) as meter:
        meter.seal(folder / "labelled.csv", folder / "t.sealed", label="label", id_column="id")
        meter.add_test_set(folder / "t.sealed")
        meter.set_validation(folder / "validation.csv", label="label", id_column="id")
    return folder


def run(folder: Path, *command: str | Path, **environment: str) -> tuple[int, str]:
    """Run a program in an environment where this Python, and `meter`, come first."""
    path = f"{shims()}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        [*command],
        cwd=folder,
        env={**os.environ, "PATH": path, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def test_tests_that_ask_a_meter(mails: Path) -> None:
    plugin = ("-p", "easeml_meter.integrations.pytest_plugin", "-p", "no:cacheprovider")
    asked = ("python", "-m", "pytest", *plugin, EXAMPLES / "test_mail_filter.py")
    alone = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    assert "2 skipped" in run(mails, *asked, **alone)[1]
    code, out = run(mails, *asked, "--meter", "--meter-folder", "mail", **alone)
    assert code == 1
    assert "1 failed, 1 passed" in out
    assert "model v3: step 2 of test set 1: band 3 is above band 2" in out


def test_an_answer_is_reported(mails: Path) -> None:
    code, out = run(mails, "sh", EXAMPLES / "report.sh")
    assert code == 0, out
    assert "### Overfitting meter: band 1\n" in out
    assert "| model | `v1` |" in out


def test_the_private_rows_of_a_solution_are_sealed(mails: Path) -> None:
    code, out = run(mails, "sh", EXAMPLES / "seal_solution.sh")
    assert code == 0, out
    assert "sealed 300 rows as test set 1" in out
    assert "test set 1 is active" in out


def test_a_model_is_submitted_as_it_is(tmp_path: Path) -> None:
    code, out = run(tmp_path, "python", EXAMPLES / "model_object.py", tmp_path)
    assert code == 0, out
    assert "Step 1: band 1 of 3, model LogisticRegression-" in out


@pytest.mark.slow
def test_an_agent_overfits_is_told_so_and_stops_at_the_gate(tmp_path: Path) -> None:
    code, out = run(tmp_path, "python", EXAMPLES / "agent_loop.py", tmp_path / "loop")
    assert code == 0, out
    with_meter, without = out.split("Without one")
    assert re.findall(r"(\d+) hints.*(passed|failed):", with_meter) == [
        *(("3", "passed"), ("6", "passed"), ("12", "failed")),
    ]
    assert "The agent stops here" in with_meter
    claims = re.findall(r"(\d+) hints, (\d+)% wrong claimed, (\d+)% wrong in truth", without)
    (_, kept, kept_true), (_, claimed, true) = ((int(each) for each in row) for row in claims)
    assert kept_true - kept < 15  # what the gate let through holds
    assert claimed < 5
    assert true > 40


@pytest.mark.parametrize("tool", LOGS)
def test_an_evaluation_is_submitted_and_gated(tool: str, tmp_path: Path) -> None:
    metric, hidden, visible, *counts = LOGS[tool]
    bench_of(tmp_path, metric, *counts)
    (tmp_path / "meter").rename(tmp_path / "quiz")
    script = ("sh", EXAMPLES / "evaluation.sh", tool, str(hidden), str(visible), "3f2c1d0")
    for _ in range(2):  # with --once, a job that is run again costs nothing
        code, out = run(tmp_path, *script)
        assert code == 0, out
        assert "passed: model 3f2c1d0: step 1 of test set 1" in out


def test_a_job_lets_a_model_through_or_not(mails: Path) -> None:
    for version, code in (("v1", 0), ("v3", 6), ("v3", 6)):
        assert run(mails, "sh", EXAMPLES / "gate.sh", version)[0] == code
    assert (mails / "summary.md").read_text(encoding="utf-8").count("### Overfitting meter") == 3
    with contextlib.closing(Meter.open(mails / "mail")) as meter:
        assert len(meter.status().signals) == 2


def test_a_coding_agent_keeps_what_the_gate_keeps(tmp_path: Path) -> None:
    """Each try sets how many of 100 cases are right; the suite of the checkout scores them."""
    checkout, private = tmp_path / "checkout", tmp_path / "private"
    for folder in (checkout, private):
        folder.mkdir()
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@b")
    (checkout / "right").write_text("50\n")
    for command in (("init", "--quiet"), ("add", "-A"), ("commit", "--quiet", "-m", "start")):
        assert run(checkout, *git, *command)[0] == 0
    (private / "score.sh").write_text(
        'echo id,score; for n in $(seq 100); do echo "$n,$((n <= $(cat right)))"; done\n'
    )
    (tmp_path / "tries").write_text("52\n50\n70\n69\n100\n90\n")
    agent = "head -n 1 ../tries > right; sed -i 1d ../tries"
    names = ("AUTHOR_NAME", "AUTHOR_EMAIL", "COMMITTER_NAME", "COMMITTER_EMAIL")
    identity = {f"GIT_{name}": "a@b" for name in names}
    given = {"AGENT": agent, "SCORE": "sh ../private/score.sh", **identity}
    code, out = run(checkout, "sh", EXAMPLES / "agent_gate.sh", "5", **given)
    assert code == 0, out
    answers = [line.split()[0] for line in out.splitlines() if line[:4] in ("keep", "disc")]
    assert answers == ["discard", "keep", "discard", "keep"]
    assert (checkout / "right").read_text() == "100\n"
    log = run(checkout, "git", "log", "--format=%s")[1].split("\n")
    assert log[:-1] == ["try 5", "try 3", "start"]
