"""`meter plan` for questions other than the gap."""

from __future__ import annotations

from pathlib import Path

import pytest
from scipy.stats import binom
from tests.cli.running import plan_json, run

from easeml_meter.spec import MeterSpec

SURE = ["--delta", "0.01"]
SIZED = ["--steps", "10", "--tolerance", "0.01", *SURE]
CONDITION = ["--ask", "n > 0.95 +/- 0.01"]


@pytest.mark.parametrize("metric", ["auc", "roc", "balanced-accuracy"])
def test_rows_are_drawn_for_the_smallest_class(
    capsys: pytest.CaptureFixture[str], metric: str
) -> None:
    """With 80 % positives, the rows for as many positives held too few of the others."""
    asked = ["plan", "--metric", metric, "--tolerance", "0.15", "--steps", "3", "--prevalence"]
    code, _, err = run(capsys, *asked, "0.8")
    assert code == 2
    assert "the share of the smallest class, at most 0.5" in err
    assert run(capsys, *asked, "0.2")[0] == 0


@pytest.mark.parametrize(("metric", "classes"), [("macro-recall", 10), ("roc", 2), ("recall", 1)])
def test_every_class_has_enough_in_999_of_1000_test_sets(
    capsys: pytest.CaptureFixture[str], metric: str, classes: int
) -> None:
    """Of ten classes, some one had too few in 10 of 1,000."""
    share = 1 / max(2, classes)
    averaged = ["--classes", "10"] if classes == 10 else []
    asked = ["--metric", metric, *averaged, "--tolerance", "0.1", "--steps", "3"]
    plan = plan_json(capsys, *asked, "--prevalence", str(share))
    most = [classes * binom.cdf(plan["size"] - 1, plan["rows"] - less, share) for less in (0, 1)]
    assert most[0] <= 0.001 < most[1]


def test_a_condition_is_planned(capsys: pytest.CaptureFixture[str]) -> None:
    answer = plan_json(capsys, *CONDITION, "--steps", "32", "--delta", "0.0001")
    assert (answer["size"], answer["unit"], answer["steps"]) == (24_752, "labels", 32)
    assert answer["answers"] == ["pass", "fail"]
    sure = plan_json(capsys, *CONDITION, "--steps", "32", "--confidence", "0.9999")
    assert sure == answer


def test_labels_give_steps(capsys: pytest.CaptureFixture[str]) -> None:
    answer = plan_json(capsys, *CONDITION, "--labels", "24752", "--delta", "0.0001")
    assert answer["steps"] == 32
    few = plan_json(capsys, *CONDITION, "--labels", "24752", "--delta", "0.0001", "--passes", "1")
    assert few["steps"] > 32


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([*CONDITION], "steps"),
        ([*CONDITION, "--steps", "3", "--labels", "5"], "not all"),
        ([*CONDITION, "--steps", "3", "--ceiling", "0.1"], "ceiling"),
        ([*CONDITION, "--steps", "3", "--delta", "0.1", "--confidence", "0.9"], "not both"),
        (["--steps", "3", "--tolerance", "0.1", "--passes", "2"], "only with ask"),
        (["--ask", "n > 0.8", "--steps", "3"], "such as"),
        ([*CONDITION, "--steps", "3", "--metric", "f1"], "not with ask"),
        (["--metric", "f1", "--steps", "3"], "tolerance"),
        (["--metric", "f1", "--steps", "3", "--tolerance", "0.1,0.2"], "one number"),
        (
            ["--metric", "weighted", "--weights", "a", "--steps", "3", "--tolerance", "0.1"],
            "weights",
        ),
        (["--metric", "ece", "--steps", "3", "--tolerance", "0.1"], "no valid tail"),
        (["--floor", "0.8", "--steps", "3", "--tolerance", "0.1"], "only with metric"),
        (["--tries", "2", "--steps", "3", "--tolerance", "0.1"], "only with"),
        (["--rolling", "--steps", "3", "--tolerance", "0.1"], "window"),
        (["--rolling", "--window", "3", "--labels", "9"], "of a batch"),
        (["--judge-error", "0.1", "--steps", "3", "--tolerance", "0.1"], "pool"),
        (["--metric", "f1", "--labels", "500"], "give the steps or a tolerance"),
        ([*CONDITION, "--on-demand", "--steps", "3"], "every label"),
        ([*CONDITION, "--ask", "gap", "--on-demand", "--tolerance", "0.1"], "only with ask"),
        ([*CONDITION, "--tolerance", "0.1", "--steps", "3"], "tolerance"),
        ([*CONDITION, "--disagreement", "0.1", "--steps", "3"], 'only with "n - o"'),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    code, _, err = run(capsys, "plan", *arguments)
    assert code == 2
    assert said in err
    assert err.count("\n") == 1


def test_a_metric_is_planned_in_its_own_unit(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--metric", "f1", "--floor", "0.8", "--steps", "10", "--tolerance", "0.01"]
    answer = plan_json(capsys, *asked, *SURE)
    assert (answer["size"], answer["unit"]) == (22_682, "positives")
    tried = plan_json(capsys, *asked, "--tries", "3", "--delta", "0.03")
    assert (tried["size"], tried["tries"]) == (22_682, 3)
    averaged = plan_json(capsys, "--metric", "weighted", "--weights", "0.5,0.5", *SIZED)
    balanced = plan_json(
        capsys, "--metric", "balanced-accuracy", "--steps", "10", "--tolerance", "1%", *SURE
    )
    assert averaged["size"] == balanced["size"] == 30_572
    assert plan_json(capsys, "--metric", "recall", "--drawn", "0.2", *SIZED)["size"] == 29_332


def test_a_rolling_test_set_is_planned_by_batches(capsys: pytest.CaptureFixture[str]) -> None:
    rolling = ["--rolling", "--window", "52", *SURE]
    needed = plan_json(capsys, *rolling, "--steps", "52", "--tolerance", "0.05")
    assert (needed["size"], needed["unit"]) == (160, "labels a batch")
    reached = plan_json(capsys, *rolling, "--batch", "160")
    assert reached["steps"] == 52
    assert 0.0499 < reached["tolerance"] <= 0.05
    assert plan_json(capsys, *rolling, "--batch", "160", "--tolerance", "0.05")["steps"] >= 52


def test_a_rolling_test_set_is_planned_as_a_meter(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    rolling = ["--rolling", "--window", "52", "--batch", "160", "--submissions", "2", *SURE]
    _, text, _ = run(capsys, "plan", *rolling, "--toml")
    (tmp_path / "meter.toml").write_text(text)
    spec = MeterSpec.read(tmp_path / "meter.toml")
    assert (spec.window, spec.submissions, spec.steps, spec.delta) == (52, 2, 52, 0.01)
    plan = plan_json(capsys, *rolling)
    again = plan_json(capsys, "--spec", str(tmp_path / "meter.toml"))
    assert again["size"] <= plan["size"] == 160
    for name in ("promise", "assumptions", "tolerance", "answers"):
        assert again[name] == plan[name]
    for more, said in (
        (["--labels", "9"], "--batch"),
        (["--rolling"], "change it there"),
        (["--batch", "9"], "change it there"),
    ):
        code, _, err = run(capsys, "plan", "--spec", str(tmp_path / "meter.toml"), *more)
        assert code == 2
        assert said in err
    code, _, err = run(capsys, "plan", *rolling, "--tries", "2", "--toml")
    assert code == 2
    assert "tries" in err


@pytest.mark.parametrize(
    "asked",
    [
        ["--tolerance", "0.15"],
        ["--ask", "gap", "--tolerance", "0.05"],
        ["--ask", "n > 0.8 +/- 0.05", "--passes", "3"],
        ["--ask", "n - o > 0.02 +/- 0.05", "--disagreement", "0.2"],
        ["--ask", "n - o at -0.1, 0.1 +/- 0.05", "--disagreement", "0.2"],
        ["--ask", "better", "--tolerance", "0.1"],
        ["--metric", "f1", "--floor", "0.8", "--tolerance", "0.15", "--prevalence", "0.1"],
        ["--metric", "precision", "--tolerance", "0.15", "--signals", "4"],
        ["--metric", "auc", "--tolerance", "0.15", "--tries", "2", "--prevalence", "0.2"],
        ["--metric", "roc", "--tolerance", "0.15", "--tries", "2", "--prevalence", "0.2"],
        ["--rolling", "--window", "5", "--tolerance", "0.15"],
        ["--judge-error", "0.1", "--pool", "9000", "--tolerance", "0.15", "--tries", "2"],
        ["--judge-error", "0.1", "--pool", "9000", "--tolerance", "0.15", "--signals", "5"],
        ["--judge-error", "0.1", "--pool", "9000", "--tolerance", "0.1", "--drawn", "0.4"],
    ],
    ids=" ".join,
)
def test_the_file_of_a_plan_plans_the_same(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, asked: list[str]
) -> None:
    asked = [*asked, "--steps", "5", "--delta", "0.1"]
    positive = ["--positive", "yes"] if "--metric" in asked else []
    code, text, err = run(capsys, "plan", *asked, *positive, "--toml")
    assert (code, err) == (0, "")
    (tmp_path / "meter.toml").write_text(text)
    again = plan_json(capsys, "--spec", str(tmp_path / "meter.toml"))
    plan = plan_json(capsys, *asked)
    assert again["size"] == plan["size"]
    if plan.get("rows") is not None:
        assert again["labels"] == plan["rows"]


def test_a_judge_needs_the_rows_that_its_file_has(capsys: pytest.CaptureFixture[str]) -> None:
    """Five bands of 0.2 are narrower than two tolerances, and need more; the default ones not."""
    asked = ["--judge-error", "0.1", "--pool", "9000", "--tolerance", "0.15", "--steps", "5"]
    plan = plan_json(capsys, *asked)
    assert plan["answers"] == ["band 1", "band 2", "band 3"]
    assert plan["size"] < plan_json(capsys, *asked, "--signals", "5")["size"]
    _, text, _ = run(capsys, "plan", *asked, "--toml")
    assert f"rows = {plan['size']}" in text


def test_a_judge_is_planned_and_said_when_it_does_not_pay(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = ["--pool", "100000", "--steps", "10", "--tolerance", "0.05", "--delta", "0.05"]
    good = plan_json(capsys, "--judge-error", "0.05", *asked)
    assert good["size"] < 710
    assert good["notes"] == ["without the judge, 1,669 labels are needed"]
    code, out, _ = run(capsys, "plan", "--judge-error", "0.2", *asked)
    assert code == 0
    assert "does not pay" in " ".join(out.split())


def test_labels_on_demand_are_planned(capsys: pytest.CaptureFixture[str]) -> None:
    change = ["--ask", "n - o > 0.02 +/- 0.01", "--disagreement", "0.05", "--on-demand"]
    answer = plan_json(capsys, *change, "--steps", "10", *SURE)
    assert (answer["size"], answer["unit"]) == (4_034, "inputs a step")
    assert answer["notes"] == ["202 labels a step, 2,020 in all"]
    assert (
        "write on_demand = true into its meter.toml"
        in run(capsys, "plan", *change, "--steps", "10")[1]
    )
    code, out, err = run(capsys, "plan", *change, "--steps", "10", "--toml")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "leave out --on-demand, and write on_demand = true into its meter.toml" in err


def test_the_gap_by_its_text_is_planned(capsys: pytest.CaptureFixture[str]) -> None:
    alone = plan_json(capsys, "--ask", "gap", "--tolerance", "0.01", "--steps", "10", *SURE)
    assert alone["size"] == 48_986
