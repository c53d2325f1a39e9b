"""Where labels go: what would do without adaptivity, and which settings spare some."""

from __future__ import annotations

from typing import Any

import pytest
from tests.service.helpers import condition_spec, small_spec

from easeml_meter.core.questions.comparison import compare_forms
from easeml_meter.core.questions.planning import required_labels
from easeml_meter.core.questions.reasons import reasons, why_unexplained
from easeml_meter.errors import InvalidInput
from easeml_meter.spec import MeterSpec, Protocol

HEADLINE = MeterSpec.uniform(tolerance=0.01, steps=10, delta=0.01)


def test_the_headline_is_taken_apart() -> None:
    found = reasons(HEADLINE)
    assert (found.plan.labels, found.unadapted, found.adaptivity) == (48_986, 27_169, 21_817)


def test_every_knob_is_a_plan_of_its_own_that_needs_fewer() -> None:
    found = reasons(HEADLINE)
    labels = [knob.plan.labels for knob in found.knobs]
    assert labels == sorted(labels)
    assert max(labels) < found.plan.labels
    assert {knob.change.split()[0] for knob in found.knobs} == {
        "ceiling",
        "drawn",
        "incremental",
        "steps",
        "tolerance",
    }
    for knob in found.knobs:
        assert required_labels(knob.plan.spec).labels <= knob.plan.labels


def test_one_knob_halves_the_labels() -> None:
    found = reasons(HEADLINE)
    assert any(knob.plan.labels <= found.plan.labels / 2 for knob in found.knobs)


@pytest.mark.parametrize(
    "options",
    [
        {"protocol": Protocol.INCREMENTAL},
        {"drawn": 0.2},
        {"tenants": (5, 5)},
        {"steps": 1},
        {"loss": "brier", "tolerance": 0.05},
        {"memory": 2},
    ],
    ids=str,
)
def test_other_meters_are_taken_apart_too(options: dict[str, object]) -> None:
    settings: dict[str, object] = {"tolerance": 0.02, "steps": 10, "delta": 0.05} | options
    found = reasons(MeterSpec.uniform(**settings))  # type: ignore[arg-type]
    assert 0 < found.unadapted <= found.plan.labels
    assert all(knob.plan.labels < found.plan.labels for knob in found.knobs)


@pytest.mark.parametrize(
    "spec",
    [
        condition_spec(),
        small_spec(window=4),
        small_spec(loss="f1[1]"),
        small_spec(judge_error=0.1, pool=10**6),
    ],
    ids=["condition", "rolling", "score", "judge"],
)
def test_what_is_not_taken_apart_is_refused_in_one_line(spec: MeterSpec) -> None:
    with pytest.raises(InvalidInput, match=r"^question: .* taken apart[^\n]*$"):
        reasons(spec)
    assert why_unexplained(spec)
    assert why_unexplained(HEADLINE) is None


def test_strata_are_taken_apart_in_whole_ones() -> None:
    strata: dict[str, Any] = {"stratum": "region", "strata": ("a", "b"), "weights": (0.123, 0.877)}
    found = reasons(MeterSpec.uniform(tolerance=0.02, steps=10, delta=0.01, **strata))
    assert (found.plan.labels, found.unadapted) == (13_000, 7_000)
    assert all(knob.plan.labels % 1_000 == 0 for knob in found.knobs)
    few = reasons(MeterSpec.uniform(tolerance=0.15, steps=10, delta=0.01, **strata))
    assert few.plan.labels == few.unadapted == 1_000


def test_a_ceiling_counts_for_models_that_nobody_adapts_too() -> None:
    """Without it, more labels were said to do for less."""
    found = reasons(HEADLINE.replace(ceiling=0.1))
    assert found.plan.labels == 17_943
    assert found.unadapted < 12_000


def test_edges_can_be_drawn_for_a_tolerance_of_many_digits() -> None:
    """Drawn edges have six decimals: five tolerances are rounded up to those."""
    spec = MeterSpec.uniform(tolerance=0.0123456789, steps=10, delta=0.01)
    assert "drawn 0.061729" in [knob.change for knob in reasons(spec).knobs]
    assert "drawn 0.061729" in [form.name for form in compare_forms(spec, 0.1)]


def test_edges_are_drawn_no_closer_than_a_meter_takes_them() -> None:
    spec = MeterSpec.uniform(tolerance=0.00001, steps=10, delta=0.01)
    assert "drawn 0.0001" in [form.name for form in compare_forms(spec, 0.1)]
