"""The examples run from beginning to end, by themselves."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from tests.forking import SCRIPT, run

from easeml_meter.meter import Meter

ROOT = Path(__file__).parents[1]
HURRIED = f"from tests.hurry import hurry; hurry()\n{SCRIPT}"


@pytest.mark.parametrize(
    "name", ["onnx_from_scikit_learn", "plain_command", "numpy_network", "regression_range"]
)
def test_models_of_every_kind_are_measured(name: str, tmp_path: Path) -> None:
    told = example(f"models/{name}", tmp_path, program=HURRIED)
    assert re.search(r"^Step 1: band 1 of 3", told, re.MULTILINE), told


def test_the_digits_climb_to_the_end_of_the_meter(tmp_path: Path) -> None:
    told = example("digits", tmp_path)
    bands = [int(band) for band in re.findall(r"^Step \d+: band (\d)", told, re.MULTILINE)]
    assert len(bands) >= 12
    assert (bands[0], max(bands)) == (2, 5)
    assert "refused: test set 1 is spent" in told
    assert "problems found by the audit: 0" in told
    assert (tmp_path / "meter" / ".meter" / "released" / "1" / "report.html").exists()


def example(name: str, folder: Path, *more: str, program: str = SCRIPT) -> str:
    """Run an example in a process of its own; return what it prints."""
    words = [str(ROOT / "examples" / f"{name}.py"), str(folder), *more]
    done = run(words, program=program)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_month_of_nightly_builds_deploys_only_better_models(tmp_path: Path) -> None:
    told = example("nightly", tmp_path)
    steps = re.findall(r"pass, deployed; truly (0\.\d+) -> (0\.\d+)$", told, re.MULTILINE)
    assert steps
    assert all(before < after for before, after in steps)
    assert told.count(": fail") == 30 - len(steps)
    assert "problems found by the audit: 0" in told


def test_a_fraud_model_is_read_by_its_f1(tmp_path: Path) -> None:
    told = example("fraud", tmp_path)
    assert "1,016 frauds needed, so 37,194 payments are drawn" in told
    assert "promises kept: 8 of 8" in told
    assert told.count("below-floor") == 3
    assert "step 7: gap 0.125 to 1; F1 claimed 0.992" in told
    assert "problems found by the audit: 0" in told


def test_a_year_of_drift_on_a_rolling_test_set(tmp_path: Path) -> None:
    told = example("rolling_year", tmp_path, "52")
    assert "3,003 labels to begin with, then 231 a week" in told
    assert "52 of 52 answers were right; battery 100%" in told
    assert "batches released: 51" in told
    assert "problems found by the audit: 0" in told
    bands = [int(band) for band in re.findall(r"^week \d+: band (\d)", told, re.MULTILINE)]
    assert (min(bands), max(bands)) == (1, 2)
    assert 1 <= told.count("both released") == bands.count(2), "a fresh start closes the gap"


def test_a_judge_and_a_thousand_labels_read_the_error(tmp_path: Path) -> None:
    told = example("judge", tmp_path)
    assert "judge error 0.07: 849 labels; without the judge, 1,669 labels are needed" in told
    assert "judge error 0.2: 1,773 labels; the judge does not pay" in told
    assert "promises kept: 10 of 10" in told
    assert "step 6: gap 0.125 to 0.25" in told
    assert "problems found by the audit: 0" in told


@pytest.mark.slow
def test_an_agent_climbs_a_ladder(tmp_path: Path) -> None:
    told = example("agent_ladder", tmp_path)
    found = re.search(r"^kept (\d+) of the tries; true accuracy (.*)$", told, re.MULTILINE)
    assert found is not None
    climbed = found[2].split(" -> ")
    assert len(climbed) == int(found[1]) + 1 > 1
    assert climbed == sorted(climbed), "a ladder only climbs"
    assert f"fails: {200 - int(found[1])}" in told


@pytest.mark.slow
def test_the_notebook_runs_and_draws(tmp_path: Path) -> None:
    """Run every cell with Jupyter's own machinery."""
    import nbformat
    from nbclient import NotebookClient

    path = ROOT / "examples" / "notebook.ipynb"
    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    where = {"metadata": {"path": str(tmp_path)}}
    for _ in range(2):  # "Run all" once more: the same, and no answer more
        NotebookClient(notebook, resources=where, timeout=300).execute()
    with Meter.open(tmp_path / "digits-meter") as meter:
        assert [each.step for each in meter.status().signals] == [1, 2, 3]
    drawn = [
        output["data"]["text/html"]
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if "text/html" in output.get("data", {})
    ]
    assert len([each for each in drawn if "<svg" in each]) >= 4
    assert "a tree that saw the validation rows" in drawn[-1]
    assert sum(cell.cell_type == "code" for cell in notebook.cells) <= 10


def test_labels_are_bought_step_by_step_and_only_better_models_pass(tmp_path: Path) -> None:
    told = example("on_demand", tmp_path)
    steps = re.findall(
        r"^step \d+: (pass|fail), truly ([+-]0\.\d+), (.*) labels so far", told, re.M
    )
    assert [name for name, *_ in steps] == [
        "pass" if step % 3 == 0 else "fail" for step in range(1, 11)
    ]
    assert [int(bought.replace(",", "")) for *_, bought in steps] == list(range(367, 3_671, 367))
    assert "promises kept: 10 of 10" in told
    assert "problems found by the audit: 0" in told


def test_a_leaderboard_goes_through_the_gate_in_the_order_of_its_dates(tmp_path: Path) -> None:
    """Two records by luck, one in truth; a clone has the dates of its files, and other names."""
    luck = [0, 1, -3, 3, 150, 149]
    rows = [[1.4 + 0.001 * gain + (gain > 100) * 0.2] * 300 for gain in luck]
    flat, clone = tmp_path / "flat", tmp_path / "clone"
    git(tmp_path, "init", "--quiet", "clone")
    flat.mkdir()
    for number, values in enumerate(rows):
        cases = [{"question": str(n), "preference": str(v)} for n, v in enumerate(values)]
        folder = clone / "results" / "fbdace"[number]
        folder.mkdir(parents=True)
        (flat / f"2024010{number + 1}_{folder.name}.json").write_text(json.dumps(cases))
        (folder / "notes.json").write_text(json.dumps(cases))
        git(clone, "add", "-A")
        git(clone, "commit", "--quiet", "-m", "one", date=f"2024-01-0{number + 1}T00:00:00Z")
    columns = ("--id", "question", "--score", "preference", "--range", "1,2")
    said = "5 entries asked: 3 records by the score, 1 kept, 90 % sure of all\n"
    told = example("leaderboard", flat, *columns)
    assert told == f"20240105  20240105_c is better than 20240101_f\n{said}"
    told = example("leaderboard", clone / "results", "--file", "notes.json", *columns)
    assert told == f"2024-01-05  c is better than f\n{said}"


def git(folder: Path, *arguments: str, date: str = "2024-01-01T00:00:00Z") -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    given = {**os.environ, "GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, env=given)
