"""Printed figures are rounded outward: never more is promised than holds."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from easeml_meter.core.questions.gap import GapQuestion
from easeml_meter.core.questions.planning import Budget, Plan, required_labels
from easeml_meter.core.views import Signal
from easeml_meter.promise.numbers.rounding import as_written, at_least, at_most
from easeml_meter.spec import MeterSpec

NUMBER = r"\d+(?:\.\d+)?(?:e-\d+)?"
shares = st.floats(0, 1) | st.decimals(0, 1, places=4).map(float)
deltas = (
    st.floats(1e-12, 1, exclude_max=True)
    | st.floats(1e-12, 1e-5)
    | st.integers(1, 12).map(lambda k: 10.0**-k)
)


def spec_of(**options: Any) -> MeterSpec:
    settings: dict[str, Any] = {"signals": 3, "tolerance": 0.1, "steps": 2, "delta": 0.05}
    return MeterSpec.uniform(**(settings | options))


@given(shares)
def test_edges_are_rounded_away_from_what_lies_between(value: float) -> None:
    exact = as_written(value)
    assert Fraction(at_least(value)) <= exact <= Fraction(at_most(value))
    assert Fraction(at_most(value)) - exact <= exact / 10**5
    assert exact - Fraction(at_least(value)) <= exact / 10**5


@given(deltas)
def test_a_probability_is_rounded_down(delta: float) -> None:
    spec = spec_of(delta=delta)
    exact = 1 - as_written(delta)
    printed = Fraction(spec.meter.confidence())
    assert 0 <= printed <= exact
    assert printed < 1
    assert exact - printed <= (1 - exact) / 10**5 + Fraction(1, 10**12)


@pytest.mark.parametrize(
    ("delta", "printed"),
    [
        (0.05, "0.95"),
        (0.01, "0.99"),
        (0.03333334, "0.9666666"),
        (1e-7, "0.9999999"),
        (1.23e-5, "0.9999877"),
        (1e-12, "0.999999999999"),
    ],
)
def test_probabilities_as_printed(delta: float, printed: str) -> None:
    spec = spec_of(delta=delta)
    assert spec.meter.confidence() == printed
    plan = Plan(GapQuestion(spec), Budget.of_meter(spec), 100, delta, spec)
    assert plan.promise.startswith(f"With probability at least {printed}, in all 2 steps")


def signal(spec: MeterSpec, answer: int) -> Signal:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    return Signal(spec, answer, 1, 1, "model", 1, moment, 1.0, 1)


@given(
    st.floats(0.001, 0.999),
    st.floats(1e-6, 0.5),
    deltas.filter(lambda delta: delta >= 1e-12),
    st.sampled_from(["regular", "incremental"]),
)
def test_an_answer_promises_no_more_than_holds(
    edge: float, tolerance: float, delta: float, protocol: str
) -> None:
    spec = spec_of(signals=2, edges=[edge], tolerance=tolerance, delta=delta, protocol=protocol)
    for answer in (1, 2):
        band, told = spec.bands[answer - 1], signal(spec, answer)
        below = as_written(band.lower) - as_written(tolerance)
        above = as_written(band.upper) + as_written(tolerance)
        numbers = [Fraction(text) for text in re.findall(NUMBER, told.promise)]
        sure, *edges = numbers
        assert sure <= 1 - as_written(delta)
        assert edges[-1] >= min(above, Fraction(1))
        assert told.true_gap is not None
        assert as_written(told.true_gap[1]) >= min(above, Fraction(1))
        assert as_written(told.confidence) == sure
        if protocol == "regular":
            assert edges[0] <= max(below, Fraction(0))
            assert as_written(told.true_gap[0]) <= max(below, Fraction(0))


@given(st.floats(1e-3, 0.9))
def test_a_plan_names_a_tolerance_that_holds(tolerance: float) -> None:
    spec = spec_of(tolerance=tolerance)
    plan = Plan(GapQuestion(spec), Budget.of_meter(spec), 100, 0.01)
    found = re.search(r"within (\S+) of", plan.promise)
    assert found is not None
    assert Fraction(found[1]) >= as_written(tolerance)


def test_decimal_figures_stay_as_they_are_written() -> None:
    assert (at_least(0.1), at_most(0.1), at_most(1), at_least(0)) == ("0.1", "0.1", "1", "0")
    assert "at least 0.95" in required_labels(spec_of()).promise
