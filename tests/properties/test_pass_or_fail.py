"""A meter that asks a condition, from its file to its release."""

from __future__ import annotations

import io
import json
import os
import subprocess
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from rich.console import Console
from tests import forking
from tests.client.people import People
from tests.live import live
from tests.service.helpers import Session, condition_spec, make_session

from easeml_meter.errors import InvalidInput, Spent
from easeml_meter.meter import Meter
from easeml_meter.report.page import html_page
from easeml_meter.report.terminal import history_terminal, session_terminal, terminal
from easeml_meter.spec import MeterSpec

TOML = """
[question]
ask = "n > 0.5 +/- 0.2"

[budget]
steps = 4
passes = 2

[sample]
classes = [0, 1]

[meter]
delta = 0.2
"""


def test_a_meter_is_read_from_its_file_and_written_back(tmp_path: Path) -> None:
    (tmp_path / "meter.toml").write_text(TOML)
    spec = MeterSpec.read(tmp_path / "meter.toml")
    assert spec == condition_spec(passes=1)
    spec.write(tmp_path / "again.toml")
    assert MeterSpec.read(tmp_path / "again.toml") == spec
    assert MeterSpec.from_mapping(json.loads(json.dumps(spec.to_mapping()))) == spec


@pytest.mark.parametrize(
    "options",
    [
        {"protocol": "incremental"},
        {"gap": "signed"},
        {"drawn": 0.2},
        {"ceiling": 0.1},
        {"memory": 2},
        {"reverts": (1,)},
        {"loss": "brier"},
        {"count": "all"},
        {"published": True},
        {"tenants": (2, 2), "passes": 1},
        {"question": "n - o > 0.02 +/- 0.01", "models": True},
        {"question": "n - o > 0.02 +/- 0.01", "disagreement": 0.02},
        {"disagreement": 0.1},
        {"question": "better"},
        {"tolerance": 0.1},
        {"question": "n > 0.8"},
        {"question": 7},
        {"question": "gap"},
    ],
)
def test_what_no_theorem_covers_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        condition_spec(**options)


def test_bands_and_a_condition_exclude_each_other() -> None:
    tables = tomllib.loads(TOML)
    with pytest.raises(InvalidInput, match="'edges' is no setting: not in this question"):
        MeterSpec.from_mapping(tables | {"question": tables["question"] | {"edges": [0.1]}})
    with pytest.raises(InvalidInput, match="passes"):
        MeterSpec.uniform(tolerance=0.1, steps=4, delta=0.1, passes=3)


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return make_session(tmp_path, condition_spec(steps=3))


def test_a_submission_passes_or_fails_and_no_value_is_told(session: Session) -> None:
    rows = len(session.test_labels)
    passed = session.submit(0, 0, model="good")
    failed = session.submit(rows, 0, model="bad")
    assert (passed.name, passed.passed, failed.name, failed.passed) == ("pass", True, "fail", False)
    assert "this model has a true accuracy above 0.5." in passed.promise
    assert failed.promise == "Nothing is promised about a model that fails."
    assert (passed.true_loss_at_most, failed.true_loss_at_most) == (0.5, None)
    told = failed.to_dict()
    assert told["question"] == "n > 0.5 +/- 0.2"
    assert all(told[name] is None for name in ("band", "gap", "tolerance", "true_gap"))


def test_the_edge_of_the_condition_decides(session: Session) -> None:
    """More than 70 % correct passes; 70 % itself does not."""
    rows = len(session.test_labels)
    most = -(-rows * 3 // 10) - 1
    assert session.submit(most, 0, model="just").passed
    assert session.submit(most + 1, 0, model="not quite").passed is False


def test_repeats_are_free_and_a_spent_set_refuses(session: Session) -> None:
    for number in range(3):
        session.submit(number, 0, model=f"m{number}")
    assert session.submit(0, 0, model="m0").repeated
    with pytest.raises(Spent):
        session.submit(4, 0, model="m4")


def test_the_pass_after_the_last_closes_the_set(tmp_path: Path) -> None:
    session = make_session(tmp_path, condition_spec(passes=0))
    assert session.submit(0, 0, model="good").steps_left == 0
    assert session.meter.generations[-1].phase == "requested"


def test_everything_that_shows_a_session_can_show_it(session: Session) -> None:
    signals = [session.submit(0, 0, model="good"), session.submit(30, 0, model="bad")]
    view = session.meter.status()
    console = Console(width=100, record=True, file=io.StringIO())
    for shown in (terminal(signals[0]), session_terminal(view), history_terminal(view)):
        console.print(shown)
    words = console.export_text()
    assert "Step 1: pass, model good" in words
    assert "✗ fail" in words
    assert "gap" not in words
    page = html_page(view)
    assert "n &gt; 0.5 +/- 0.2" in page
    assert ">gap<" not in page
    assert "every model that passes has a true accuracy above 50 %" in page
    assert "pass" in str(signals[0])
    assert "fail" in str(signals[1]._repr_html_())
    assert "n > 0.5 +/- 0.2" in str(session.meter.plan)


def test_release_says_which_answers_were_right(session: Session) -> None:
    for errors in (0, 5, len(session.test_labels)):
        session.submit(errors, 0, model=f"m{errors}")
    folder = session.meter.release()
    found = json.loads((folder / "retrospective.json").read_text())
    assert [each["truth"]["passed"] for each in found] == [True, True, False]
    assert (
        "In all 3 steps with losses, the answer was right." in (folder / "report.html").read_text()
    )
    assert session.meter.audit().sound


def test_passes_that_an_older_database_has_forgotten_still_count(tmp_path: Path) -> None:
    """The books are completed from the journal: the pass that closes the set comes no later."""
    session = make_session(tmp_path, condition_spec(passes=1))
    session.meter.close()
    database = tmp_path / "meter" / ".meter" / "meter.db"
    before = database.read_bytes()
    for model in ("first", "second"):
        with Meter.open(tmp_path / "meter") as meter:
            replace(session, meter=meter).submit(0, 0, model=model)
    database.write_bytes(before)
    with Meter.open(tmp_path / "meter") as meter, pytest.raises(Spent):
        replace(session, meter=meter).submit(0, 0, model="third")


def run(session: Session, *arguments: str) -> subprocess.CompletedProcess[str]:
    words = ("-C", str(session.folder / "meter"), *arguments)
    return forking.run(words, os.environ | {"COLUMNS": "80"}, folder=session.folder)


def test_the_exit_code_is_the_answer(session: Session) -> None:
    for errors, model, code, word in ((0, "good", 0, "passed"), (30, "bad", 6, "failed")):
        test, validation = session.files(errors, 0, salt=model)
        files = ("--test", str(test), "--validation", str(validation), "--model", model)
        done = run(session, "submit", *files)
        assert (done.returncode, done.stderr) == (code, "")
        assert f"{word}: model {model}" in done.stdout
        done = run(session, "status", "--model", model)
        assert done.returncode == code
    assert run(session, "status", "--model", "good", "--most-loss", "0.5").returncode == 0
    assert run(session, "status", "--model", "good", "--most-loss", "0.4").returncode == 6
    assert run(session, "status", "--model", "good", "--fail-above", "1").returncode == 2
    assert run(session, "status").returncode == 0


def test_a_meter_is_planned_and_made_from_its_file(tmp_path: Path) -> None:
    (tmp_path / "meter.toml").write_text(TOML)
    session = Session(tmp_path, None, None, None)  # type: ignore[arg-type]
    plan = run(session, "plan", "--spec", "meter.toml", "--json")
    size = json.loads(plan.stdout)["labels"]
    more = run(session, "plan", "--spec", "meter.toml", "--labels", str(size), "--json")
    assert json.loads(more.stdout)["steps"] == 4
    other = run(session, "plan", "--spec", "meter.toml", "--tolerance", "0.3")
    assert (other.returncode, other.stdout) == (2, "")
    made = run(session, "init", "--spec", "meter.toml", "--yes")
    assert (made.returncode, made.stderr) == (0, "")
    assert f"it needs {size:,} labels" in made.stdout


@pytest.mark.slow
def test_a_server_answers_pass_or_fail(tmp_path: Path) -> None:
    """The same answers over HTTP, on pages and in pictures."""
    with live(tmp_path / "site") as site:
        meter = site.served.add_meter(condition_spec(inputs="public"), prefix="c-")
        with (
            site.meter("c-labeler", meter) as labeler,
            site.meter("c-developer", "c-meter") as developer,
        ):
            people = People(tmp_path, labeler, developer)
            labels = people.begin()
            assert people.submit(labels, 0, model="good").passed
            failed = people.submit(labels, len(labels), model="bad")
            assert (failed.name, failed.passed) == ("fail", False)
            assert "true accuracy above 0.5" in developer.plan.promise
            assert [each.passed for each in developer.status().signals] == [True, False]
            with httpx.Client(
                base_url=site.address,
                headers={"Authorization": f"Bearer {site.served.tokens['c-developer']}"},
                timeout=120,
            ) as browser:
                place = f"/api/v1/meters/{meter}"
                for name in ("status", "history", "signals", "report.html", "report.svg"):
                    shown = browser.get(f"{place}/{name}")
                    assert shown.status_code == 200
                    assert "fail" in shown.text


@pytest.mark.slow
def test_a_server_compares_and_promotes(tmp_path: Path) -> None:
    """The first model is the old one; a model that passed is promoted; every page shows it."""
    spec = condition_spec(question="n - o > 0.1 +/- 0.2", inputs="public")
    with live(tmp_path / "site") as site:
        meter = site.served.add_meter(spec, prefix="o-")
        with (
            site.meter("o-labeler", meter) as labeler,
            site.meter("o-developer", "o-meter") as developer,
        ):
            people = People(tmp_path, labeler, developer)
            labels = people.begin()
            rows = len(labels)
            assert people.submit(labels, rows, model="deployed", baseline=True).name == "baseline"
            report = developer.status()
            assert report.steps_left == 4
            passed = people.submit(labels, rows // 2, model="better")
            assert (passed.name, passed.old) == ("pass", 1)
            assert developer.promote("better") == 2
            failed = people.submit(labels, rows // 2 - 1, model="next")
            assert (failed.name, failed.old) == ("fail", 2)
            with pytest.raises(InvalidInput, match="has passed"):
                developer.promote("next")
            with httpx.Client(
                base_url=site.address,
                headers={"Authorization": f"Bearer {site.served.tokens['o-developer']}"},
                timeout=120,
            ) as browser:
                for name in ("status", "report.html", "report.svg", "badge.svg"):
                    assert browser.get(f"/api/v1/meters/{meter}/{name}").status_code == 200
