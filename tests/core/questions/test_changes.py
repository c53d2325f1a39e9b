"""The rule of bands of n - o."""

from __future__ import annotations

from fractions import Fraction

import pytest
from tests.service.helpers import condition_spec

from easeml_meter.conditions import Comparison
from easeml_meter.core.questions.kinds import rules_of
from easeml_meter.core.questions.reading import Changes
from easeml_meter.core.signals import BASELINE, NO_READING, TOO_FAR, State

SPEC = condition_spec(question="n - o at -0.1, 0, 0.1 +/- 0.05", disagreement=0.5)
RULES = rules_of(SPEC)
BASED = State(based=True)


def told(gained: int, lost: int) -> int:
    against = Comparison(100, gained, lost, gained + lost)
    return RULES.answer(BASED, 0, Fraction(1, 2), against=against)


def test_a_difference_is_told_by_its_band_and_edges_belong_to_the_one_above() -> None:
    assert isinstance(RULES, Changes)
    pairs = [((0, 11), 1), ((0, 10), 2), ((0, 1), 2), ((9, 9), 3), ((10, 1), 3), ((10, 0), 4)]
    for (gained, lost), band in pairs:
        assert told(gained, lost) == band
    assert (told(25, 25), told(26, 25)) == (3, TOO_FAR)


def test_the_first_model_is_free_and_nothing_else_is_without_an_answer() -> None:
    assert RULES.answers(State()) == (BASELINE,)
    assert RULES.unread(State(), NO_READING) == BASELINE
    assert RULES.answers(BASED) == (1, 2, 3, 4, TOO_FAR)
    assert RULES.unread(BASED, NO_READING) == TOO_FAR
    assert RULES.after(State(), BASELINE) == BASED


def test_what_is_promised_is_wider_by_the_tolerance() -> None:
    assert RULES.change_of(1) == (-1.0, -0.1)
    assert RULES.true_change_of(1) == pytest.approx((-1.0, -0.05))
    assert RULES.true_change_of(3) == pytest.approx((-0.05, 0.15))
    assert RULES.true_change_of(TOO_FAR) is RULES.change_of(BASELINE) is None
    assert RULES.range_of(3) is None
    assert RULES.true_loss(3, Fraction(1, 2)) == (None, None)
    assert (RULES.tolerance(3), RULES.tolerance(TOO_FAR)) == (0.05, None)
