"""`meter status --model` and `meter submit --fail-above` exit by what was told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests import forking
from tests.client.people import people_at
from tests.live import live
from tests.service.helpers import Session, condition_spec, make_session


@pytest.fixture
def session(tmp_path: Path) -> Session:
    found = make_session(tmp_path)
    found.submit(0, 0, model="good")
    found.submit(25, 0, model="bad")
    return found


def run(session: Session, *arguments: str) -> subprocess.CompletedProcess[str]:
    words = ("-C", str(session.folder / "meter"), *arguments)
    return forking.run(words, os.environ | {"COLUMNS": "80"}, folder=session.folder)


@pytest.mark.parametrize(
    ("model", "code", "said"),
    [
        ("good", 0, "passed: model good: step 1 of test set 1, band 1 of 3"),
        ("bad", 6, "failed: model bad: step 2 of test set 1: band 3 is above band 2"),
    ],
)
def test_the_exit_code_follows_the_answer(
    session: Session, model: str, code: int, said: str
) -> None:
    for _ in range(2):  # free, and repeatable
        done = run(session, "status", "--model", model, "--fail-above", "2")
        assert (done.returncode, done.stdout.strip()) == (code, said)
    assert len(session.meter.status().signals) == 2


def test_a_model_that_nothing_was_told_of(session: Session) -> None:
    done = run(session, "status", "--model", "new", "--fail-above", "2", "--json")
    assert done.returncode == 4
    assert json.loads(done.stderr)["error"] == "wrong-time"


def test_files_for_continuous_integration(session: Session) -> None:
    summary, report = session.folder / "summary.md", session.folder / "junit.xml"
    summary.write_text("before\n")
    files = ("--summary", str(summary), "--junit", str(report))
    done = run(session, "status", "--model", "bad", "--fail-above", "1", "--json", *files)
    assert done.returncode == 6
    assert json.loads(done.stdout)["passed"] is False
    assert summary.read_text().startswith("before\n### Overfitting meter: ")
    assert "<failure" in report.read_text()


def test_submit_is_gated_too(session: Session) -> None:
    test, validation = session.files(20, 0, salt="x")
    files = ("--test", str(test), "--validation", str(validation), "--model", "x")
    refused = run(session, "submit", *files, "--fail-above", "9")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert len(session.meter.status().signals) == 2
    done = run(session, "submit", *files, "--fail-above", "1")
    assert done.returncode == 6
    assert "Step 3: band" in done.stdout
    assert len(session.meter.status().signals) == 3


def test_a_first_model_opens_no_gate(tmp_path: Path) -> None:
    session = make_session(tmp_path, condition_spec(question="better", tolerance=0.2))
    test, validation = session.files(30, 0)
    files = ("--test", str(test), "--validation", str(validation), "--model")
    refused = run(session, "submit", *files, "nightly")
    assert (refused.returncode, refused.stdout) == (4, "")
    assert "--baseline" in refused.stderr
    assert run(session, "submit", *files, "deployed", "--baseline").returncode == 0
    for same in ("submit", *files, "deployed"), ("status", "--model", "deployed"):
        done = run(session, *same)
        assert (done.returncode, "submit the candidate" in done.stdout) == (6, True)


@pytest.mark.slow
def test_an_answer_that_is_not_told_passes_no_gate(tmp_path: Path) -> None:
    """It exited with 0, as if the model had passed; now it is refused before it is sent."""
    with live(tmp_path / "site") as site:
        for people in people_at(site, tmp_path, "gate-"):
            test, validation = people.predictions(people.begin(), 25)
            done = subprocess.run(
                [
                    *(sys.executable, "-m", "easeml_meter", "--server", site.address),
                    *("submit", "--test", str(test), "--validation", str(validation)),
                    *("--model", "bad", "--fail-above", "1"),
                ],
                cwd=tmp_path,
                capture_output=True,
                text=True,
                check=False,
                env={**os.environ, "METER_TOKEN": site.served.tokens["gate-runner"]},
            )
            assert done.returncode == 5
            assert "a developer's token" in done.stderr
            assert not people.developer.status().signals
