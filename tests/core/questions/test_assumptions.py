"""What a promise rests on is said in full, and only where it is so."""

from __future__ import annotations

import pytest
from tests.service.helpers import condition_spec, small_spec

from easeml_meter.core.questions import planning
from easeml_meter.core.questions.assumptions import (
    BLIND_VALIDATION,
    COMMON_ASSUMPTIONS,
    DRAWN_EDGES,
    PUBLIC_INPUTS,
    delta_words,
    gap_assumptions,
)
from easeml_meter.spec import MeterSpec


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (small_spec(inputs="public"), PUBLIC_INPUTS),
        (small_spec(), BLIND_VALIDATION),
        (small_spec(drawn=0.3), DRAWN_EDGES),
    ],
)
def test_each_setting_says_what_it_takes(spec: MeterSpec, said: str) -> None:
    assert said in gap_assumptions(spec)
    assert said not in gap_assumptions(small_spec(count="all", inputs="hidden"))


@pytest.mark.parametrize("spec", [small_spec(inputs="public"), condition_spec(inputs="public")])
def test_a_plan_says_each_line_once(spec: MeterSpec) -> None:
    """The gap says itself what the meter around a question adds."""
    found = planning.assumptions_of(spec)
    assert found == planning.plan_of(spec).assumptions
    assert len(set(found)) == len(found)
    assert {*COMMON_ASSUMPTIONS, PUBLIC_INPUTS, delta_words(spec)} <= set(found)
