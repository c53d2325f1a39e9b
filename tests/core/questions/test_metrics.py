"""Scores of a whole test set as questions."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
from tests.promise import sums

from easeml_meter.core.questions.bands import Bands
from easeml_meter.core.questions.metrics import KINDS, Metric
from easeml_meter.core.questions.planning import Budget, most_steps, required_size
from easeml_meter.corpus import WHY_NOT
from easeml_meter.errors import InvalidInput
from easeml_meter.promise.assumptions import BLIND_VALIDATION, DRAWN_EDGES, FIXED_SIZE


def metric(name: str, tolerance: float = 0.01, **options: Any) -> Metric:
    if name in KINDS and KINDS[name].classes:
        options.setdefault("classes", 2)
    if name == "weighted":
        options.setdefault("weights", (0.5, 0.3, 0.2))
    return Metric(name, Bands(tolerance), **options)


@pytest.mark.parametrize(
    ("name", "options", "size"),
    [
        ("accuracy", {}, (48_986, 10_356, 1_669)),
        ("recall", {}, (48_986, 10_356, 1_669)),
        ("precision", {}, (65_137,)),
        ("f1", {}, (60_728, 12_844, 2_073)),
        ("f1", {"floor": 0.8}, (22_682, 4_841, 823)),
        ("f1", {"floor": 0.9}, (10_888, 2_390, 448)),
        ("balanced-accuracy", {}, (30_572, 6_637, 1_062)),
        ("macro-recall", {"classes": 10}, (6_115, 1_328, 213)),
        ("macro-f1", {"classes": 10, "floor": 0.8}, (35_389, 8_074, 1_391)),
        ("roc", {}, (64_610, 14_141, 2_263)),
        ("auc", {}, (53_628,)),
    ],
)
def test_ten_steps_need_what_the_table_says(
    name: str, options: dict[str, Any], size: tuple[int, ...]
) -> None:
    """Of a floor's rows, a ripple or the promise of "below the floor" may add a label or two."""
    settings = ((0.01, 0.01), (0.02, 0.05), (0.05, 0.05))
    for (tolerance, delta), expected in zip(settings, size, strict=False):
        found = required_size(metric(name, tolerance, **options), Budget(10, delta))
        assert found.size == expected


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("tolerance", [0.002, 0.1, 0.45])
def test_every_metric_is_planned_at_any_tolerance(name: str, tolerance: float) -> None:
    for options in [{}, {"floor": 0.7}] if KINDS[name].floor else [{}]:
        asked = metric(name, tolerance, **options)
        plan = required_size(asked, Budget(10, 0.05))
        assert plan.failure_probability <= 0.05
        assert sums.log_failed(asked, 10, plan.size - 1) > math.log(0.05)
        assert most_steps(asked, plan.size, Budget(1, 0.05)).budget.steps >= 10


@pytest.mark.parametrize("name", WHY_NOT)
def test_what_has_no_tail_is_refused_with_the_reason(name: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        metric(name)
    assert WHY_NOT[name] in str(refused.value)


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("f3", {}, "one of accuracy"),
        ("roc", {"floor": 0.9}, "saves no label"),
        ("f1", {"floor": 1.5}, "between 0 and 1"),
        ("f1", {"classes": 3}, "only averages"),
        ("macro-f1", {"classes": 1}, "2 or more"),
        ("macro-f1", {"classes": 10**6}, "at most"),
        ("weighted", {"weights": (0.5, 0.6)}, "sum to 1"),
        ("weighted", {"weights": (1.5, -0.5)}, "above 0"),
        ("f1", {"weights": (1.0,)}, "no other metric"),
    ],
)
def test_what_does_not_fit_is_refused(name: str, options: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        metric(name, **options)


def test_a_floor_with_drawn_edges_is_refused() -> None:
    with pytest.raises(InvalidInput, match="drawn"):
        Metric("f1", Bands(0.01, drawn=0.2), floor=0.8)


def test_the_promise_names_the_floor_and_the_denominator() -> None:
    plan = required_size(metric("f1", 0.05, floor=0.8), Budget(10, 0.05))
    assert plan.question.unit == "positives"
    assert "each model's f1 on the test set is within 0.05 of its true one" in plan.promise
    assert '(or is reported as "below the floor", 0.8)' in plan.promise
    assert any("sealed as drawn" in line for line in plan.assumptions)
    assert "below the floor" in plan.question.answers
    assert "too few predicted positives" in metric("precision").answers
    assert "at every threshold" in metric("roc").promised


@pytest.mark.parametrize("name", KINDS)
def test_every_metric_says_all_that_it_rests_on(name: str) -> None:
    fixed = metric(name)
    assert BLIND_VALIDATION in fixed.assumptions
    assert DRAWN_EDGES not in fixed.assumptions
    assert (FIXED_SIZE in fixed.assumptions) is (name != "accuracy")
    drawn = dataclasses.replace(fixed, bands=Bands(0.01, drawn=0.2))
    assert DRAWN_EDGES in drawn.assumptions


def test_a_precision_may_be_counted_of_too_few() -> None:
    excused = '(or is reported as "too few predicted positives", which promises nothing).'
    assert metric("precision").promised.endswith(excused)
    assert '"below the floor", 0.8) (or is' in metric("precision", floor=0.8).promised
    assert "too few" not in metric("recall").promised
