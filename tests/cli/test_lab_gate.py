"""`meter lab noise` and `meter lab gate` as people use them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.running import Captured, run


def write(path: Path, right: list[int]) -> str:
    path.write_text(json.dumps([{"id": n, "score": value} for n, value in enumerate(right)]))
    return str(path)


@pytest.fixture
def two(tmp_path: Path) -> list[str]:
    """100 cases of which 27 flip."""
    first = write(tmp_path / "a.json", [1] * 50 + [0] * 50)
    return [first, write(tmp_path / "b.json", [0] * 27 + [1] * 23 + [0] * 50)]


def test_noise_of_two_runs(capsys: Captured, two: list[str]) -> None:
    code, out, err = run(capsys, "lab", "noise", *two)
    assert (code, err) == (0, "")
    assert out.startswith("Unchanged, 27 of 100 cases flip between two runs (18.6 to 36.9 %")
    assert "system 46 times in 100; the gate at most once in 200." in out
    assert "with 100 cases and 20 answers: 26.1 points" in out
    assert "Run visible cases only" in out
    _, out, _ = run(capsys, "lab", "noise", *two, "--labels", "300", "--json")
    found = json.loads(out)
    assert found["flips"] == 27
    assert found["least_gain"]["1"] == pytest.approx(0.133, abs=0.0006)
    assert found["least_gain_without_flips"] == pytest.approx(0.064, abs=0.0006)


def test_rows_are_joined_by_their_ids(capsys: Captured, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("case,ok\na,1\nb,0\nc,1\nd,0\ne,0\nf,0\ng,1\nh,0\n")
    (tmp_path / "b.csv").write_text("case,ok\nh,0\ng,1\nf,0\ne,0\nd,0\nc,1\nb,0\na,0\n")
    runs = [str(tmp_path / "a.csv"), str(tmp_path / "b.csv"), str(tmp_path / "a.csv")]
    code, out, _ = run(capsys, "lab", "noise", *runs, "--score", "ok", "--steps", "10")
    assert code == 0
    assert out.startswith("Unchanged, 0.7 of 8 cases flip between two runs, on average over the ")


def test_noise_is_refused_in_one_line(capsys: Captured, two: list[str], tmp_path: Path) -> None:
    other = write(tmp_path / "c.json", [1] * 99)
    few = [write(tmp_path / f"{n}.json", [1] * 7) for n in range(2)]
    for arguments, said in (
        (two[:1], "runs: 1 given, two files or more"),
        ([*two, other], "runs 1 and 3: 1 cases are in one of them alone"),
        ([*two, "--score", "points"], "run 1 results: no column points"),
        ([two[0], str(tmp_path / "d.json")], "run 2 results: "),
        (few, "labels: 7 given, too few to show anything in 20 answers: 8 at least"),
        ([*two, "--steps", "0"], "steps: 0 given"),
        ([*two, "--labels", "-3"], "labels: -3 given"),
        ([*two, "--confidence", "50"], "delta: 0.5 given, 0.25 at most for a gate, 75 % sure"),
    ):
        code, out, err = run(capsys, "lab", "noise", *arguments)
        assert (code, out) == (2, "")
        assert said in err
        assert err.count("\n") == 1


def test_noise_needs_no_large_library(two: list[str]) -> None:
    seen = (
        "import sys; from easeml_meter.cli import main\n"
        f"try: main(['lab', 'noise', *{two!r}])\n"
        "except SystemExit: pass\n"
        "print({'numpy', 'pyarrow', 'sqlalchemy', 'rich', 'scipy'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", seen], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "set()"


def test_rules_side_by_side(capsys: Captured, tmp_path: Path) -> None:
    chart = tmp_path / "rules.svg"
    small = ["--labels", "60", "--steps", "5", "--runs", "50"]
    code, out, err = run(capsys, "lab", "gate", *small, "--chart", str(chart))
    assert (code, err) == (0, "")
    assert out.startswith("60 cases, 5 answers, 50 loops, in percent:\n")
    assert "\nmeter gate  " in out
    assert "Loops of 5 edits on 60 cases" in chart.read_text("utf-8")
    _, out, _ = run(capsys, "lab", "gate", *small, "--labels", "50", "--json")
    first, second = json.loads(out)
    assert (first["labels"], second["labels"], second["steps"]) == (60, 50, 5)
    assert [*first["rules"][0]["real"]] == ["0.02", "0.05", "0.1"]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (["--labels", "5"], "labels: 5 given"),
        (["--steps", "1"], "steps: 1 given"),
        (["--steps", "5", "--steps", "6", "--chart", "a.svg"], "with one number of --labels"),
    ],
)
def test_loops_that_cannot_be_played(capsys: Captured, wrong: list[str], said: str) -> None:
    code, out, err = run(capsys, "lab", "gate", *wrong)
    assert (code, out) == (2, "")
    assert said in err
