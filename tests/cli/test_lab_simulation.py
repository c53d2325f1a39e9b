"""`meter lab coverage`, `limit` and `misuse` as people and programs use them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.running import run

from easeml_meter.core.questions.planning import required_labels
from easeml_meter.promise.meter import Meter
from easeml_meter.spec import MeterSpec

SMALL = ["--steps", "4", "--signals", "3", "--tolerance", "0.1", "--delta", "0.1"]


def test_coverage_for_programs(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "meter.toml"
    MeterSpec.uniform(signals=3, tolerance=0.1, steps=4, delta=0.1, ceiling=0.2).write(path)
    options = ["--spec", str(path), "--developer", "majority", "--runs", "300", "--json"]
    code, out, err = run(capsys, "lab", "coverage", *options)
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert [found[each] for each in ("runs", "developer")] == [300, "majority"]
    assert found["verdict"] == "promise holds"
    assert found["interval"][0] <= found["failure_rate"] <= found["interval"][1]
    assert found["delta"] == 0.1
    assert found["breaks"] is None
    assert found["meter"]["question"]["ceiling"] == 0.2
    assert run(capsys, "lab", "coverage", *options, "--jobs", "2") == (code, out, err)


def test_coverage_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "lab", "coverage", *SMALL, "--runs", "250", "--labels", "60")
    assert (code, err) == (0, "")
    assert "promise broken" in out
    assert "60 (194 planned)" in out
    climber = ["--memory", "1", "--runs", "250", "--developer", "climber"]
    _, out, _ = run(capsys, "lab", "coverage", *SMALL, *climber)
    assert "it remembers more than the last 1 answers" in " ".join(out.split())


def test_the_papers_own_plan_is_attacked_too(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "lab", "coverage", *SMALL, "--published", "--runs", "50", "--json")
    spec = MeterSpec.uniform(signals=3, tolerance=0.1, steps=4, delta=0.1, published=True)
    assert json.loads(out)["labels"] == required_labels(spec).labels


def test_coverage_goes_on_from_a_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    resume = ["--resume", str(tmp_path / "results.json"), "--runs", "300", "--json"]
    first = run(capsys, "lab", "coverage", *SMALL, *resume)
    assert run(capsys, "lab", "coverage", *SMALL, *resume) == first
    assert first[0] == 0


def test_limit(capsys: pytest.CaptureFixture[str]) -> None:
    options = [*SMALL, "--runs", "250", "--developer", "threshold", "--developer", "independent"]
    code, out, err = run(capsys, "lab", "limit", *options, "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["planned"] == 194
    assert found["planned"] / found["limit"] == found["ratio"] > 1
    code, out, _ = run(capsys, "lab", "limit", *options)
    assert code == 0
    assert f"{found['limit']:,}" in out


def test_misuse(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "lab", "misuse", "--runs", "20", "--json")
    assert (code, err) == (0, "")
    assert [found["failure_rate"] for found in json.loads(out)] == [1.0, 1.0]
    assert [found["labels"] for found in json.loads(out)] == [9063, 1798]
    assert all(found["breaks"] for found in json.loads(out))


def test_misuse_draws(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from easeml_meter.lab.simulation import misuse

    def small(steps: int, **options: Any) -> Meter:
        return MeterSpec.uniform(signals=2, tolerance=0.2, steps=steps, delta=0.1, **options).meter

    one = misuse.Misuse("few", small(6, reverts=(1, 2, 3, 4, 5, 6)), "reverter", small(6))
    monkeypatch.setattr(misuse, "MISUSES", (one,))
    file = tmp_path / "chart.svg"
    code, out, _ = run(capsys, "lab", "misuse", "--runs", "20", "--jobs", "1", "--chart", str(file))
    assert code == 0
    assert "few:" in out
    assert file.read_text(encoding="utf-8").startswith("<svg")


@pytest.mark.parametrize(
    ("options", "unit"),
    [
        ({"judge_error": 0.2, "pool": 4_000}, "labels"),
        ({"loss": "f1[1]"}, "positives"),
        ({"window": 4}, "labels a batch"),
    ],
    ids=["judge", "score", "window"],
)
def test_the_question_that_a_meter_asks_is_played(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, options: dict[str, Any], unit: str
) -> None:
    """They once were played as an ordinary meter, and its coverage was reported as theirs."""
    path = tmp_path / "meter.toml"
    MeterSpec.uniform(tolerance=0.1, edges=[0.3], steps=4, delta=0.1, **options).write(path)
    _, planned, _ = run(capsys, "plan", "--spec", str(path), "--json")
    code, out, err = run(capsys, "lab", "coverage", "--spec", str(path), "--runs", "10")
    assert (code, err) == (0, "")
    assert f"{unit} {json.loads(planned)['size']} (as planned)" in " ".join(out.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["coverage", *SMALL, "--developer", "nobody"], "developer: 'nobody' given, one of"),
        (
            ["coverage", *SMALL, "--runs", "0"],
            "runs: 0 given, it must be a whole number, 1 or more",
        ),
        (
            ["coverage", *SMALL, "--seed", "-1"],
            "seed: -1 given, it must be a whole number, 0 or more",
        ),
        (
            ["coverage", *SMALL, "--jobs", "0"],
            "jobs: 0 given, it must be a whole number, 1 or more",
        ),
        (
            ["coverage", *SMALL, "--labels", "0"],
            "labels: 0 given, it must be a whole number, 1 or more",
        ),
        (["coverage", *SMALL, "--world", "moon"], "world: 'moon' given, one of coins,"),
        (["coverage", *SMALL, "--world", "graded"], "world: 'graded' given, needs a loss such"),
        (["coverage", *SMALL, "--true-loss", "2"], "true loss: 2.0 given, a number between"),
        (["coverage", *SMALL, "--share", "0.5"], "share: 0.5 given, only for the correlated"),
        (["coverage", *SMALL, "--resume", "/"], "resume: '/' given, a file, not a folder"),
        (["coverage", *SMALL, "--protocol", "resampling"], "protocol: 'resampling' given, only"),
        (["coverage", "--steps", "4"], "labels: nothing given"),
        (["coverage", "--spec", "missing.toml"], "missing.toml: cannot be read"),
        (
            ["coverage", "--steps", "9", "--tolerance", "1e-9"],
            "tolerance: 1e-09 given, at least 1e-06",
        ),
        (["limit", *SMALL, "--runs", "-1"], "runs: -1 given, it must be a whole number, 1 or more"),
        (["limit", *SMALL, "--developer", "nobody"], "developer: 'nobody' given, one of"),
        (["misuse", "--jobs", "0"], "jobs: 0 given, it must be a whole number, 1 or more"),
        (["misuse", "--chart", "chart.gif"], "chart: 'chart.gif' given, a file name that ends"),
    ],
)
def test_wrong_input_is_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    code, out, err = run(capsys, "lab", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith(f"meter: {message}")
    assert err.count("\n") == 1
