"""The planner of all questions."""

from __future__ import annotations

import dataclasses
import math

import pytest

from easeml_meter.core.questions.bands import Bands
from easeml_meter.core.questions.metrics import Metric
from easeml_meter.core.questions.passing import PassFail
from easeml_meter.core.questions.planning import (
    Budget,
    least_tolerance,
    most_steps,
    required_size,
)
from easeml_meter.errors import InvalidInput

QUESTION = PassFail.parse("n > 0.8 +/- 0.02")


def test_a_plan_is_the_smallest_size_that_holds_from_there_on() -> None:
    budget = Budget(7, 0.05)
    plan = required_size(QUESTION, budget)
    assert plan.failure_probability <= 0.05
    failures = [QUESTION.log_failure(7, plan.size + more) for more in range(-1, 2_000)]
    assert max(failures[1:]) <= math.log(0.05) < failures[0]


def test_labels_carry_the_steps_that_need_them() -> None:
    for steps in (1, 2, 9, 40):
        size = required_size(QUESTION, Budget(steps, 0.01)).size
        assert most_steps(QUESTION, size, Budget(1, 0.01)).budget.steps == steps


def test_tries_divide_delta() -> None:
    """The best of three tries is as good as the luckiest of them, so each gets a third."""
    three = required_size(QUESTION, Budget(10, 0.03, tries=3))
    assert three.size == required_size(QUESTION, Budget(10, 0.01)).size
    assert three.promise.startswith("With probability at least 0.97,")
    assert "sealing is tried at most 3 times" in three.assumptions


@pytest.mark.parametrize(
    "change",
    [
        {"steps": 0},
        {"steps": 10**10},
        {"delta": 0},
        {"delta": 1},
        {"delta": math.nan},
        {"tries": 0},
    ],
)
def test_budgets_are_checked(change: dict[str, float]) -> None:
    with pytest.raises(InvalidInput, match=next(iter(change))):
        dataclasses.replace(Budget(1, 0.01), **change)  # type: ignore[arg-type]


def test_too_few_labels_are_refused_with_the_number_needed() -> None:
    with pytest.raises(InvalidInput, match=r"too few for one step: [\d,]+ needed"):
        most_steps(QUESTION, 10, Budget(1, 0.01))
    with pytest.raises(InvalidInput, match="10\\^15"):
        most_steps(QUESTION, 0, Budget(1, 0.01))
    with pytest.raises(InvalidInput, match="over 10\\^15"):
        required_size(PassFail.parse("n > 0.5 +/- 0.000001"), Budget(10**9, 0.01))


def test_the_tolerance_reached_is_the_one_that_needs_these_labels() -> None:
    budget = Budget(10, 0.05)
    plan = least_tolerance(lambda eps: Metric("f1", Bands(eps)), 2_073, budget)
    assert plan.question.tolerance == pytest.approx(0.05, rel=1e-3)
    assert required_size(plan.question, budget).size <= 2_073
    with pytest.raises(InvalidInput, match="at any tolerance"):
        least_tolerance(lambda eps: Metric("f1", Bands(eps)), 1, budget)
