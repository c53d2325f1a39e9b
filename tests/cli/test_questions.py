"""`meter plan` for questions other than the gap."""

from __future__ import annotations

import pytest
from tests.cli.running import plan_json, run

CONDITION = ["--question", "n > 0.95 +/- 0.01"]


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
        ([*CONDITION, "--steps", "3", "--labels", "5"], "not both"),
        ([*CONDITION, "--steps", "3", "--ceiling", "0.1"], "ceiling"),
        ([*CONDITION, "--steps", "3", "--elastic"], "elastic"),
        ([*CONDITION, "--steps", "3", "--delta", "0.1", "--confidence", "0.9"], "not both"),
        (["--steps", "3", "--tolerance", "0.1", "--passes", "2"], "only with --question"),
        (["--question", "n > 0.8", "--steps", "3"], "such as"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    code, _, err = run(capsys, "plan", *arguments)
    assert code == 2
    assert said in err
    assert err.count("\n") == 1
