"""Labels on demand: fresh inputs for every step, and labels only where two models differ."""

from __future__ import annotations

import pytest

from easeml_meter.core.questions.ondemand import OnDemand
from easeml_meter.core.questions.passing import PassFail
from easeml_meter.core.questions.planning import Budget, required_size
from easeml_meter.errors import InvalidInput


def on_demand(disagreement: float) -> OnDemand:
    return OnDemand(PassFail.parse("n - o > 0.02 +/- 0.01", disagreement=disagreement))


@pytest.mark.parametrize(
    ("disagreement", "steps", "delta", "labels"),
    [(0.05, 10, 0.01, 199), (0.1, 10, 0.01, 877), (0.1, 32, 1e-4, 1_921), (0.2, 32, 0.01, 4_521)],
)
def test_labels_of_each_step(disagreement: float, steps: int, delta: float, labels: int) -> None:
    """`labels` are for the first size that holds; the plan holds from there on."""
    asked = on_demand(disagreement)
    plan = required_size(asked, Budget(steps, delta))
    assert labels <= asked.quota(plan.size) <= 1.04 * labels


def test_for_few_differences_fresh_inputs_beat_reuse() -> None:
    asked = on_demand(0.05)
    budget = Budget(10, 0.01)
    fresh = required_size(asked, budget)
    reused = required_size(asked.condition, budget)
    assert 10 * asked.quota(fresh.size) < min(10 * asked.quota(reused.size), reused.size)
    assert fresh.notes == ("202 labels a step, 2,020 in all",)
    assert any("the bill tells nothing" in line for line in fresh.assumptions)


@pytest.mark.parametrize(
    ("text", "disagreement"),
    [("n > 0.8 +/- 0.01", None), ("n - o > 0.02 +/- 0.01", None)],
)
def test_what_needs_all_labels_is_refused(text: str, disagreement: float | None) -> None:
    with pytest.raises(InvalidInput, match="question"):
        OnDemand(PassFail.parse(text, disagreement=disagreement))


def test_a_clause_about_accuracy_needs_all_labels() -> None:
    both = PassFail.parse("n - o > 0.02 +/- 0.01 /\\ n > 0.8 +/- 0.01", disagreement=0.1)
    with pytest.raises(InvalidInput, match="every label"):
        OnDemand(both)
