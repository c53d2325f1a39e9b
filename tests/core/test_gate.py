"""A gate goes by the newest answer to a model, and never lets a model without a reading pass."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.service.helpers import condition_spec, small_spec

from easeml_meter.core.gate import Gate, last_told
from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.signals import ABOVE_CEILING, BASELINE, NO_READING
from easeml_meter.core.views import Read, SessionView, Signal
from easeml_meter.errors import InvalidInput, WrongPhase
from easeml_meter.spec import MeterSpec

SPEC = small_spec()


def told(answer: int, **options: Any) -> Signal:
    return replace(
        Signal(
            spec=SPEC,
            answer=answer,
            step=1,
            generation=1,
            model="m",
            tenant=1,
            told_at=datetime(2026, 1, 1, tzinfo=UTC),
            battery=0.5,
            steps_left=2,
        ),
        **options,
    )


def session(number: int, *signals: Signal) -> SessionView:
    return SessionView(
        meter="x",
        spec=SPEC,
        generation=number,
        phase=Phase.ACTIVE,
        rows=1,
        labels_needed=1,
        signals=signals,
        battery=1,
        steps_left=1,
        promise="",
        assumptions=(),
    )


@pytest.mark.parametrize(("highest", "passed"), [(1, False), (2, True), (3, True)])
def test_a_band_that_reaches_over_others_near_the_ceiling_passes_by_the_highest(
    highest: int, passed: bool
) -> None:
    edges = (0.02, 0.05, 0.1, 0.2)
    spec = MeterSpec.uniform(tolerance=0.01, edges=edges, ceiling=0.1)
    # With a validation loss of 0.07 the edge 0.02 is left out: the gap may lie in band 2.
    wider = told(1, spec=spec, read=Read(gap=(0.0, 0.05)))
    verdict = Gate(highest).judge(wider)
    assert verdict.passed is passed
    said = "bands 1-2 of 5" if passed else "band 2 is possible, above band 1"
    assert said in verdict.sentence
    assert Gate(1).judge(told(1, spec=spec, read=Read(gap=(0.0, 0.02)))).passed


@pytest.mark.parametrize(("band", "passed"), [(1, True), (2, True), (3, False)])
def test_bands_up_to_the_one_asked_for_pass(band: int, passed: bool) -> None:
    assert Gate(2).judge(told(band)).passed is passed


@pytest.mark.parametrize("answer", [NO_READING, ABOVE_CEILING])
def test_what_has_no_band_never_passes(answer: int) -> None:
    assert not Gate(3).judge(told(answer)).passed
    assert not Gate(most_loss=1.0).judge(told(answer)).passed


@pytest.mark.parametrize(("promised", "passed"), [(0.2, True), (0.21, False), (None, False)])
def test_a_promised_loss_is_compared(promised: float | None, passed: bool) -> None:
    verdict = Gate(most_loss=0.2).judge(told(1, read=Read(true_loss_at_most=promised)))
    assert verdict.passed is passed
    assert bool(verdict.reasons) is not passed


def test_the_model_that_others_are_compared_with_never_passes() -> None:
    """No row was looked at for it."""
    baseline = told(BASELINE, spec=condition_spec(question="n - o > 0 +/- 0.3"))
    for gate in (Gate(), Gate(most_loss=1.0)):
        assert not gate.judge(baseline).passed
        assert "submit the candidate, under another name" in gate.judge(baseline).sentence


@pytest.mark.parametrize("asked", [{}, {"fail_above": 0}, {"most_loss": float("nan")}])
def test_a_gate_without_sense_is_refused(asked: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        Gate(**asked).check(SPEC)


def test_a_band_that_the_meter_does_not_have_is_refused() -> None:
    with pytest.raises(InvalidInput, match="at most 3"):
        Gate(4).check(SPEC)
    with pytest.raises(InvalidInput, match="draws the edges"):
        Gate(1).check(small_spec(drawn=0.5, edges=None, signals=1))


def test_the_newest_answer_counts() -> None:
    first, second = told(1), told(2, step=2)
    later = told(3, generation=2)
    assert last_told([session(1, first, second)], "m") == second
    assert last_told([session(1, first, second), session(2, later)], "m") == later
    assert last_told([session(1, first), session(2)], "m") == first
    with pytest.raises(WrongPhase, match="nothing was told of it yet"):
        last_told([session(1, first)], "another")


def test_an_incremental_meter_says_whose_band_it_may_be() -> None:
    spec = small_spec(protocol="incremental")
    note = Gate(1).judge(told(2, spec=spec)).note
    assert "an earlier model's: only a fresh test set judges this one alone." in note
    assert Gate(1).judge(told(2)).note == ""
