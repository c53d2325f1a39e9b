"""The gap of a meter is one question among others: the planner of all gives the same plans."""

from __future__ import annotations

from typing import Any

import pytest

from easeml_meter.core.questions.gap import GapQuestion
from easeml_meter.core.questions.planning import Budget, required_size, supported_steps
from easeml_meter.spec import MeterSpec
from easeml_meter.stats import planning


def spec_of(**options: Any) -> MeterSpec:
    given = {"signals": 5, "tolerance": 0.02, "steps": 10, "delta": 0.01} | options
    return MeterSpec.uniform(**given)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"count": "all"},
        {"count": "consistent"},
        {"count": "consistent", "drawn": 0.2},
        {"ceiling": 0.1, "count": "all"},
        {"protocol": "incremental", "tolerance": [0.02, 0.04, 0.06, 0.08, 0.1]},
        {"tenants": (4, 6)},
        {"published": True, "count": "all"},
        {"masked_reverts": 2, "mask_above": 2},
        {"loss": "brier"},
    ],
)
def test_plans_are_those_of_the_meter(options: dict[str, Any]) -> None:
    spec = spec_of(**options)
    plan = required_size(GapQuestion(spec), Budget(10, 0.01))
    own = planning.required_labels(spec)
    assert plan.size == own.labels
    assert plan.failure_probability == pytest.approx(own.failure_probability)
    assert plan.promise == own.promise
    assert plan.assumptions == own.assumptions


def test_steps_are_those_of_the_meter() -> None:
    spec = spec_of(count="consistent")
    found = supported_steps(GapQuestion(spec), 30_000, Budget(1, 0.01))
    assert found.budget.steps == planning.supported_steps(spec, 30_000).spec.steps


def test_only_plain_meters_are_mixed_with_other_questions() -> None:
    assert GapQuestion(spec_of(count="consistent")).consistent == 2
    assert GapQuestion(spec_of(count="all", ceiling=0.1)).consistent == 6
    assert GapQuestion(spec_of(protocol="incremental")).consistent is None
    assert GapQuestion(spec_of(tenants=(5, 5))).consistent is None


def test_answers_are_named() -> None:
    assert GapQuestion(spec_of(ceiling=0.1, models=True)).answers[-2:] == (
        "above the ceiling",
        "no reading",
    )
    assert len(GapQuestion(spec_of(drawn=0.2, count="consistent")).answers) == 1
    assert "reverted" in GapQuestion(spec_of(masked_reverts=2, mask_above=2)).answers
