"""Labels on demand: only where two models differ, on one test set or on fresh inputs."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from tests.promise import sums

from easeml_meter.conditions import Comparison
from easeml_meter.core.questions.kinds import question_of
from easeml_meter.core.questions.ondemand import OnDemand
from easeml_meter.core.questions.passing import PassFail
from easeml_meter.core.questions.planning import Budget, plan_of, required_size
from easeml_meter.errors import InvalidInput
from easeml_meter.promise import ledger
from easeml_meter.promise.questions import Shown, measured_of
from easeml_meter.spec import MeterSpec


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
    reused = required_size(asked.question, budget)
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


def test_scores_are_not_asked_for_on_demand() -> None:
    """They read no label: people were asked for hundreds, which changed nothing."""
    with pytest.raises(InvalidInput, match=r"a loss with labels: score\[0-1\] reads none"):
        spec_of(0.1, 3, loss="score[0-1]", metric="solved")


# --- One test set for all steps, as meters have it ---


def spec_of(disagreement: float, steps: int, **options: Any) -> MeterSpec:
    given: dict[str, Any] = {"question": "n - o > 0.02 +/- 0.01", "delta": 0.01, "on_demand": True}
    return MeterSpec(bands=(), steps=steps, disagreement=disagreement, **(given | options))


@pytest.mark.parametrize(
    ("disagreement", "steps", "inputs", "labels"),
    [(0.05, 10, 7_800, 390), (0.1, 10, 17_067, 1_706), (0.05, 32, 21_367, 1_068)],
)
def test_reuse_of_one_test_set(disagreement: float, steps: int, inputs: int, labels: int) -> None:
    """The figures of B(i) count 2^T - 1 models; a meter counts 2^(T-1), as all conditions do."""
    spec = spec_of(disagreement, steps)
    plan = plan_of(spec)
    assert 0.93 * inputs < plan.labels < inputs
    assert 0.93 * labels < spec.quota(plan.labels) < labels
    assert plan.labels == plan_of(spec.replace(on_demand=False)).labels
    assert plan.promise == plan_of(spec.replace(on_demand=False)).promise
    each, total = spec.quota(plan.labels), min(plan.labels, steps * spec.quota(plan.labels))
    assert plan.to_dict()["notes"] == [f"{each:,} labels a step, at most {total:,} in all"]
    assert (plan.to_dict()["unit"], plan.to_dict()["labels"]) == ("inputs", None)


def test_the_figures_of_the_documentation() -> None:
    plan = plan_of(spec_of(0.05, 10))
    assert (plan.labels, *plan.to_dict()["notes"]) == (
        7_334,
        "367 labels a step, at most 3,670 in all",
    )


@pytest.mark.parametrize("tenants", [(5, 5), (9, 1), (2, 3, 5)])
def test_teams_are_counted_as_one_that_knows_all_answers(tenants: tuple[int, ...]) -> None:
    """Who waits keeps others waiting, so teams are not isolated: the sum of counts is too small."""
    one = plan_of(spec_of(0.05, 10))
    found = plan_of(spec_of(0.05, 10, tenants=tenants))
    assert (found.labels, found.promise) == (one.labels, one.promise)
    assert found.to_dict()["notes"] == one.to_dict()["notes"]


def answered(spec: MeterSpec, beside: Comparison) -> str:
    """What is told of a model beside the old one."""
    meter = spec.meter
    rows = measured_of(Shown(beside.rows), Fraction(0), beside)
    rows = rows._replace(unlabeled=meter.sample.orders_labels)
    return ledger.decide(meter, ledger.start(meter), rows).answer


def test_a_model_that_differs_too_much_fails_by_what_it_predicts() -> None:
    """It has no labels for these rows; with all labels, only those count that one gets right."""
    far = Comparison(rows=100, gained=9, lost=0, differing=11)
    for spec, passes in ((spec_of(0.1, 1), False), (spec_of(0.1, 1, on_demand=False), True)):
        assert (answered(spec, far) == "pass") == passes


@pytest.mark.parametrize("size", [20, 31])
def test_no_model_passes_wrongly_more_often_than_counted(size: int) -> None:
    """Every world of a grid: where one of two is right, both are wrong but differ, or neither."""
    spec = spec_of(0.4, 1, question="n - o > 0.05 +/- 0.2")
    worst = 0.0
    counts = [
        (gained, lost, other)
        for gained, lost, other in itertools.product(range(size + 1), repeat=3)
        if gained + lost + other <= size
        and answered(spec, Comparison(size, gained, lost, gained + lost + other)) == "pass"
    ]
    assert counts
    ways = np.array([_ways(size, *each) for each in counts])
    powers = np.array(counts)
    for more, less, other in itertools.product(np.arange(0.01, 0.5, 0.04), repeat=3):
        if more - less > 0.05 or more + less + other > 1:
            continue  # a model that is truly better may pass
        kinds = np.array([more, less, other])
        rest = size - powers.sum(axis=1)
        logs = ways + powers @ np.log(kinds) + rest * math.log(1 - kinds.sum() + 1e-300)
        worst = max(worst, float(np.exp(logs).sum()))
    assert 0 < worst <= spec.delta  # at a level, whatever the size is


def test_models_that_may_be_just_as_good_can_be_planned() -> None:
    """The search comes to two models that never differ; it divided by how often they do."""
    spec = spec_of(0.3, 2, question="n - o > 0 +/- 0.15", delta=0.2)
    size = plan_of(spec).labels
    assert 2 * math.exp(sums.log_tail(question_of(spec), size)) <= 0.2


def _ways(size: int, *counts: int) -> float:
    parts = (*counts, size - sum(counts))
    return math.lgamma(size + 1) - sum(math.lgamma(each + 1) for each in parts)
