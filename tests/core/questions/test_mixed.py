"""Several questions on one budget: what the dearest costs, against every choice of questions."""

from __future__ import annotations

import functools
import itertools
import math
from fractions import Fraction

import pytest

from easeml_meter.core.questions.bands import Bands
from easeml_meter.core.questions.gap import GapQuestion
from easeml_meter.core.questions.metrics import Metric
from easeml_meter.core.questions.mixed import Mixed
from easeml_meter.core.questions.passing import PassFail
from easeml_meter.core.questions.planning import Budget, required_size
from easeml_meter.core.questions.rolling import Rolling
from easeml_meter.errors import InvalidInput

GAP = GapQuestion(Bands(0.01).spec())
LEVEL = PassFail.parse("n > 0.8 +/- 0.01")
CHANGE = PassFail.parse("n - o > 0.02 +/- 0.01", disagreement=0.1)


def test_readings_pay_for_conditions() -> None:
    budget = Budget(10, 0.01)
    mixed = required_size(Mixed((GAP, LEVEL, CHANGE)), budget)
    assert mixed.size == required_size(GAP, budget).size == 48_986
    conditions = required_size(Mixed((LEVEL, CHANGE)), budget)
    assert conditions.size == required_size(LEVEL, budget).size == 26_838


def test_drawn_edges_are_counted_as_two_answers_beside_conditions() -> None:
    drawn = GapQuestion(Bands(0.01, drawn=0.2).spec())
    assert Mixed((drawn, LEVEL)).consistent == 2
    assert drawn.consistent == Fraction(11, 10)


def test_words_of_all_are_joined_once() -> None:
    mixed = Mixed((GAP, LEVEL, CHANGE))
    assert mixed.answers[-2:] == ("pass", "fail")
    assert len(mixed.assumptions) == len(set(mixed.assumptions))
    plan = required_size(mixed, Budget(10, 0.01))
    assert plan.promise.count("With probability") == 1
    assert 'to "n > 0.8 +/- 0.01": every model that passes has a true accuracy' in plan.promise


@pytest.mark.parametrize(
    "questions",
    [
        (GAP,),
        (GAP, Rolling(Bands(0.01), 5)),
        (GAP, Metric("recall", Bands(0.01))),
        (GAP, PassFail.parse("n > 0.8 +/- 0.01", passes=3)),
        (LEVEL,) * 21,
    ],
)
def test_what_cannot_be_mixed_is_refused(questions: tuple[GapQuestion, ...]) -> None:
    with pytest.raises(InvalidInput, match="question"):
        Mixed(questions)


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_no_choice_of_questions_beats_the_count(steps: int) -> None:
    """At every step a reading, with any validation loss, or a condition, about any model.

    Examples are of four kinds; a model is right on some of them. Bands are two tolerances wide.
    """
    labels, eps = 4, Fraction(1, 4)
    share = Fraction(1, 2)
    data = list(itertools.product(range(4), repeat=labels))
    asked: set[tuple[int, tuple[int, ...]]] = set()
    for right in range(16):
        truth = Fraction(right.bit_count(), 4)
        seen = [Fraction(sum(right >> row & 1 for row in rows), labels) for rows in data]
        passed = sum(1 << i for i, found in enumerate(seen) if found > share + eps)
        wrong = passed if truth <= share else 0
        asked.add((wrong, (passed, (1 << len(data)) - 1 - passed)))
        off = sum(1 << i for i, found in enumerate(seen) if abs(found - truth) > eps)
        for claimed in (Fraction(k, 8) for k in range(9)):
            bands = [abs(claimed - found) // (2 * eps) for found in seen]
            told = tuple(
                sum(1 << i for i, band in enumerate(bands) if band == number)
                for number in set(bands)
            )
            asked.add((off, told))

    @functools.cache
    def broken(state: int, left: int) -> int:
        if not left or not state:
            return 0
        return max(
            (state & wrong).bit_count()
            + sum(broken(state & ~wrong & answer, left - 1) for answer in answers)
            for wrong, answers in asked
        )

    mixed = Mixed((GapQuestion(Bands(0.25, 2, (0.5,)).spec()), PassFail.parse("n > 0.5 +/- 0.25")))
    found = broken((1 << len(data)) - 1, steps) / len(data)
    assert 0 < found <= math.exp(mixed.log_models(steps) + mixed.log_tail(labels))
