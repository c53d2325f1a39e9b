"""The gap of a meter is one question among others, in all variants of the meter."""

from __future__ import annotations

from typing import Any

import pytest

from easeml_meter.core.questions.gap import GapQuestion
from easeml_meter.core.questions.planning import Budget, most_steps, plan_of, required_size
from easeml_meter.spec import MeterSpec


def spec_of(**options: Any) -> MeterSpec:
    given = {"signals": 5, "tolerance": 0.02, "steps": 10, "delta": 0.01} | options
    return MeterSpec.uniform(**given)


@pytest.mark.parametrize(
    ("options", "labels"),
    [
        ({}, 12_271),
        ({"count": "all"}, 21_659),
        ({"drawn": 0.2}, 7_926),
        ({"ceiling": 0.1, "count": "all"}, 9_182),
        ({"protocol": "incremental", "tolerance": [0.02, 0.04, 0.06, 0.08, 0.1]}, 6_817),
        ({"tenants": (4, 6)}, 9_217),
        ({"published": True, "count": "all"}, 27_020),
        ({"loss": "brier"}, 13_407),
        ({"protocol": "resampling"}, 68_170),
        ({"top_up": 5}, 13_100),
    ],
)
def test_every_variant_is_planned_as_any_question_is(options: dict[str, Any], labels: int) -> None:
    """The figures are those of a planner that knew the gap alone."""
    spec = spec_of(**options)
    plan = required_size(GapQuestion(spec), Budget.of_meter(spec))
    assert plan.size == labels == plan_of(spec).labels
    assert plan.promise == plan_of(spec).promise
    assert plan.assumptions == plan_of(spec).assumptions


def test_steps_are_asked_of_a_size() -> None:
    found = most_steps(GapQuestion(spec_of()), 30_000, Budget(1, 0.01))
    assert found.budget.steps == 31
    assert plan_of(spec_of(), 30_000).spec.steps == 31


def test_answers_are_named() -> None:
    assert GapQuestion(spec_of(ceiling=0.1, models=True)).answers[-2:] == (
        "above the ceiling",
        "no reading",
    )
    assert len(GapQuestion(spec_of(drawn=0.2)).answers) == 1


def test_answers_of_scores_are_named() -> None:
    f1 = GapQuestion(spec_of(loss="f1[fraud]", floor=0.8))
    assert "below the floor" in f1.answers
    assert "above the ceiling" not in f1.answers
    precision = GapQuestion(spec_of(loss="precision[fraud]"))
    assert precision.answers[-1] == "too few predicted positives"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "the gap between validation loss and test loss"),
        ({"loss": "f1[fraud]"}, "the gap between validation and test set in F1"),
        ({"loss": "auc[fraud]"}, "the gap between validation and test set in AUC"),
        (
            {"loss": "roc[fraud]"},
            "the distance of a model's ROC curves on validation and test set",
        ),
        (
            {"judge_error": 0.1, "pool": 10**6},
            "the gap between validation loss and test loss, with a judge",
        ),
    ],
)
def test_what_is_asked_is_said_of_each_score(options: dict[str, Any], said: str) -> None:
    assert plan_of(spec_of(**options)).to_dict()["question"] == said


def test_one_step_is_not_several() -> None:
    assert ", in its one step, each model" in plan_of(spec_of(steps=1)).promise
    topped = plan_of(spec_of(steps=1, top_up=5)).promise
    assert ", in its one step and 5 more after the top-up together, each" in topped
