"""Bands of n - o: golden sizes, and every choice of models in a small world."""

from __future__ import annotations

import functools
import itertools
import math
from fractions import Fraction

import pytest
from tests.promise import sums
from tests.service.helpers import condition_spec

from easeml_meter.conditions import Comparison, Difference
from easeml_meter.core.questions.asking import plan_question
from easeml_meter.core.questions.planning import Budget, required_size
from easeml_meter.core.questions.reading import DifferenceReading
from easeml_meter.core.views import Read, read_of
from easeml_meter.errors import InvalidInput
from easeml_meter.promise import ledger
from easeml_meter.promise.questions import Shown, measured_of


@pytest.mark.parametrize(("disagreement", "size"), [(0.1, 25_552), (0.05, 14_010)])
def test_the_golden_sizes(disagreement: float, size: int) -> None:
    """Two bands can be told of a model, or "too far"; known to half a percent."""
    reading = DifferenceReading(Difference.parse("n - o at -0.02, 0, 0.02 +/- 0.01", disagreement))
    assert sums.log_count(reading, 2) == pytest.approx(math.log(1 + 3))
    found = required_size(reading, Budget(10, 0.01)).size
    assert size <= found <= 1.005 * size


def test_close_edges_cost_more() -> None:
    texts = {"0": 2, "-0.02, 0, 0.02": 2, "-0.01, 0, 0.01": 3, "0, 0.001, 0.002": 4}
    for edges, possible in texts.items():
        assert Difference.parse(f"n - o at {edges} +/- 0.01").possible == possible


def test_it_is_planned_by_its_words() -> None:
    text = "n-o at -.02,0,.02 +/- .01"
    plan = plan_question(ask=text, disagreement=0.1, steps=10, delta=0.01)
    assert plan.question.statistic == "n - o at -0.02, 0, 0.02 +/- 0.01"
    assert plan.question.answers[-1] == "too far"
    assert "within 0.01 of the true difference" in plan.promise
    with pytest.raises(InvalidInput, match="disagreement"):
        plan_question(ask=text, steps=10)


@pytest.mark.parametrize(
    "text",
    [
        "n - o at +/- 0.01",
        "n - o at 0, 0 +/- 0.01",
        "n - o at 0.02, 0 +/- 0.01",
        "n - o at -1 +/- 0.01",
        "n - o at x +/- 0.01",
        "n - o at 0 +/- 0",
        "n - o at nan +/- 0.1",
        "n - o at 0",
        "n - o at " + ", ".join(f"0.{k}" for k in range(10, 40)) + " +/- 0.01",
    ],
)
def test_what_is_no_reading_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"question|tolerance"):
        Difference.parse(text)


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_no_choice_of_models_beats_the_count(steps: int) -> None:
    """A model and its old one, each right on some kinds of examples, at every step anew.

    The tail is that of this world, the smallest that is true.
    """
    kinds, labels = 3, 4
    difference = Difference((-0.5, 0.0, 0.5), 0.25, 0.75)
    data = list(itertools.product(range(kinds), repeat=labels))
    asked: set[tuple[int, tuple[int, ...]]] = set()
    for new, old in itertools.product(range(1 << kinds), repeat=2):
        gains = [(new >> kind & 1) - (old >> kind & 1) for kind in range(kinds)]
        truth = Fraction(sum(gains), kinds)
        told: dict[int, int] = {}
        wrong = 0
        for index, rows in enumerate(data):
            change = Fraction(sum(gains[row] for row in rows), labels)
            apart = Fraction(sum(abs(gains[row]) for row in rows), labels)
            answer = difference.band(change) if apart <= difference.most else 0
            told[answer] = told.get(answer, 0) | 1 << index
            if answer and abs(change - truth) > Fraction(1, 4):
                wrong |= 1 << index
        asked.add((wrong, tuple(told.values())))

    @functools.cache
    def broken(state: int, left: int) -> int:
        if not left or not state:
            return 0
        return max(
            (state & wrong).bit_count()
            + sum(broken(state & ~wrong & answer, left - 1) for answer in answers)
            for wrong, answers in asked
        )

    tail = max(wrong.bit_count() for wrong, _ in asked)
    found = broken((1 << len(data)) - 1, steps)
    bound = tail * math.exp(sums.log_count(DifferenceReading(difference), steps)) * (1 + 1e-12)
    assert tail * (steps > 1) < found <= bound
    assert tail / len(data) <= math.exp(sums.log_tail(DifferenceReading(difference), labels))


SPEC = condition_spec(question="n - o at -0.1, 0, 0.1 +/- 0.05", disagreement=0.5)
METER = SPEC.meter
START = ledger.start(METER)


def told(gained: int, lost: int) -> str:
    against = Comparison(100, gained, lost, gained + lost)
    return ledger.decide(METER, START, measured_of(Shown(100), Fraction(1, 2), against)).answer


def test_a_difference_is_told_by_its_band_and_edges_belong_to_the_one_above() -> None:
    pairs = [((0, 11), "1"), ((0, 10), "2"), ((0, 1), "2"), ((9, 9), "3"), ((10, 1), "3")]
    for (gained, lost), band in [*pairs, ((10, 0), "4")]:
        assert told(gained, lost) == band
    assert (told(25, 25), told(26, 25)) == ("3", "too-far")


def test_what_cannot_be_measured_is_too_far() -> None:
    assert ledger.answers(METER, START) == ("1", "2", "3", "4", "too-far")
    assert ledger.decide(METER, START, measured_of(Shown(100), None)).answer == "too-far"
    assert ledger.step(METER, START, "baseline") == START  # the model to compare with is free


def test_what_is_promised_is_wider_by_the_tolerance() -> None:
    first, third, far = (
        read_of(METER, answer, Shown(100, Fraction(1, 2))) for answer in ("1", "3", "too-far")
    )
    assert (first.change, first.true_change) == ((-1.0, -0.1), (-1.0, -0.05))
    assert third.true_change == (-0.05, 0.15)
    assert (third.tolerance, third.gap, third.true_loss_at_most) == (0.05, None, None)
    assert far == Read()
