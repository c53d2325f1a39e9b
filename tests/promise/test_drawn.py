"""Drawn edges: against formulas in big integers, enumeration, and the best adversary."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.promise import oracle, sums

from easeml_meter.core.questions.assumptions import gap_assumptions
from easeml_meter.core.questions.planning import (
    reachable_tolerance,
    required_labels,
    supported_steps,
)
from easeml_meter.promise.bands import DRAWS
from easeml_meter.promise.gap import Gap
from easeml_meter.promise.numbers.plain import log_sum
from easeml_meter.promise.shapes import Flat
from easeml_meter.spec import MeterSpec

GOLDEN = {
    row["name"]: row["n"]
    for row in json.loads((Path(__file__).parents[1] / "data" / "golden-2.json").read_text("utf-8"))
}


def meter(drawn: float, **options: Any) -> MeterSpec:
    usual: dict[str, Any] = {"signals": 1, "tolerance": 0.01, "steps": 10, "delta": 0.01}
    return MeterSpec.uniform(**usual | {"drawn": drawn} | options)


def models(spec: MeterSpec) -> float:
    return math.exp(log_sum(sums.log_models(spec)))


def _expected(spec: MeterSpec) -> Fraction:
    """Return how many drawn edges are consistent, on average."""
    question = spec.meter.question
    assert isinstance(question, Gap)
    shape = question.shape(spec.meter.sample.measured)
    assert isinstance(shape, Flat)
    return shape.b - 1


# --- Figures that were computed elsewhere ---


@pytest.mark.parametrize("steps", [10, 32, 100])
@pytest.mark.parametrize(("drawn", "name"), [(0.05, "5eps"), (0.2, "0.2")])
def test_golden_rows(steps: int, drawn: float, name: str) -> None:
    """At every size with the product's tail; a hundredth fewer labels do not keep the promise."""
    spec = meter(drawn, steps=steps)
    labels = GOLDEN[f"F regular T={steps} dither w={name} eps=delta=.01"]
    assert required_labels(spec).labels == labels
    ratio = 1 + Fraction("0.02") / Fraction(str(drawn))
    count = sum(ratio**t for t in range(steps))
    for size, kept in ((labels, True), (99 * labels // 100, False)):
        tail = oracle.log_exact(size, 0.01, None, every=False)
        assert (math.log(count) + tail <= math.log(0.01) + 1e-6) is kept


@pytest.mark.parametrize(
    ("drawn", "options", "labels"),
    [
        (0.025, {"steps": 10}, 45_019),
        (0.025, {"steps": 100}, 304_951),
        (0.1, {"steps": 32}, 51_426),
        (0.05, {"steps": 1000}, 1_692_601),
        (0.2, {"steps": 1000}, 496_796),
    ],
)
def test_rows_beyond_the_file(drawn: float, options: dict[str, Any], labels: int) -> None:
    assert required_labels(meter(drawn, **options)).labels == labels


@pytest.mark.parametrize(("drawn", "steps"), [(0.05, 40), (0.2, 130)])
def test_what_86542_labels_carry(drawn: float, steps: int) -> None:
    assert supported_steps(meter(drawn), 86_542).spec.steps == steps


@pytest.mark.parametrize(("drawn", "tolerance"), [(0.2, 0.079), (0.5, 0.057)])
def test_tolerances_of_a_small_set(drawn: float, tolerance: float) -> None:
    asked = meter(drawn, tolerance=0.1, steps=20, delta=0.1)
    plan = reachable_tolerance(asked, 1_000)
    (found,) = plan.spec.tolerances
    assert round(found, 3) == tolerance
    assert required_labels(plan.spec).labels <= 1_000
    assert required_labels(plan.spec.with_tolerances([found - 1e-5])).labels > 1_000


# --- The count ---


def test_teams_share_no_tree() -> None:
    apart = meter(0.05, tenants=(4, 6))
    alone = models(meter(0.05, steps=4)) + models(meter(0.05, steps=6))
    assert models(apart) == pytest.approx(alone)
    assert models(apart.replace(handover=True)) == pytest.approx(models(meter(0.05)))


def test_a_model_that_may_fail_has_one_answer_more() -> None:
    count = sum(Fraction(12, 5) ** t for t in range(10))
    assert models(meter(0.05, models=True)) == pytest.approx(float(count))


@pytest.mark.parametrize("gap", ["absolute", "signed"])
@pytest.mark.parametrize(("drawn", "tolerance"), [(0.3, 0.1), (0.7, 0.1), (0.15, 0.1), (1, 0.3)])
def test_answers_within_reach_are_no_more_than_expected(
    drawn: float, tolerance: float, gap: str
) -> None:
    """Wherever the truth lies: the average number of answers, over a coarse grid of draws."""
    width, eps, places = Fraction(str(drawn)), Fraction(str(tolerance)), 60
    most = Fraction(0)
    for true in range(0, 121, 6):
        near = [test for test in range(121) if abs(Fraction(test - true, 120)) <= eps]
        for validation in (0, 1, 25, 59, 60, 120):
            above = [Fraction(test - validation, 120) for test in near]
            gaps = [max(Fraction(0), each) if gap == "signed" else abs(each) for each in above]
            offsets = [width * place / places for place in range(places)]
            told = sum(len({(each - offset) // width for each in gaps}) for offset in offsets)
            most = max(most, Fraction(told, places))
    assert 1 < most <= 1 + Fraction(math.ceil(2 * eps / width * places), places)
    found = _expected(meter(drawn, tolerance=tolerance))
    assert 0 <= found - 2 * eps / width <= Fraction(1, DRAWS)


def test_a_plan_says_what_drawn_edges_rest_on() -> None:
    spec = meter(0.05)
    said = " ".join(gap_assumptions(spec))
    assert "the band edges are drawn by the meter, secretly and independently of" in said
    assert "validation sets are drawn and replaced without looking at the test set" in said
    assert required_labels(spec).to_dict()["counting"] == "consistent models"


def test_rounding_of_the_grid_is_counted() -> None:
    spec = meter(0.07)
    assert _expected(spec) == Fraction(285_715, DRAWS) > Fraction(2, 7)
    assert _expected(meter(0.05)) == Fraction(2, 5)  # an even number of places
    assert _expected(meter(0.05, loss="absolute")) == Fraction(2, 5)


# --- The best adversary of a small world: all data sets, all strategies, all draws ---

EXAMPLES = 6
WORLDS = range(2**EXAMPLES)
"""Each example is right or wrong for the first model; all true losses are one half."""
Cells = tuple[frozenset[int], ...]
"""Numbers of errors that are told apart."""


class Adversary:
    """Plays every strategy against fair coins; knows the edges drawn before, not the next ones.

    A model is a set of flipped predictions; its test loss is the share of wrong ones. `spared` is
    the set of data sets still possible, a bit for each.
    """

    def __init__(
        self,
        tolerance: Fraction,
        drawn: Fraction,
        *,
        aimed: bool = False,
    ) -> None:
        half = Fraction(1, 2)
        self.errors = [
            [
                sum(1 << w for w in WORLDS if (model ^ w).bit_count() == k)
                for k in range(EXAMPLES + 1)
            ]
            for model in WORLDS
        ]
        away = [abs(Fraction(k, EXAMPLES) - half) for k in range(EXAMPLES + 1)]
        bad = [k for k, each in enumerate(away) if each > tolerance]
        self.broken = [sum(masks[k] for k in bad) for masks in self.errors]
        self.questions = list(self._questions(drawn))
        if aimed:  # an edge that is known before, wherever the developer wants it
            every = {cells for question in self.questions for cells in question}
            self.questions = [{cells: Fraction(1)} for cells in every]

    def _questions(self, drawn: Fraction) -> Iterator[dict[Cells, Fraction]]:
        """Yield, for each validation loss, what the draws tell apart and how often."""
        places = 96
        for validation in range(2 * EXAMPLES + 1):
            gaps = [
                abs(Fraction(validation, 2 * EXAMPLES) - Fraction(k, EXAMPLES))
                for k in range(EXAMPLES + 1)
            ]
            found: Counter[Cells] = Counter()
            for place in range(places):
                offset = drawn * place / places
                told: dict[int, set[int]] = {}
                for k, gap in enumerate(gaps):
                    told.setdefault((gap - offset) // drawn, set()).add(k)
                found[tuple(sorted(map(frozenset, told.values()), key=min))] += 1
            yield {cells: Fraction(times, places) for cells, times in found.items()}

    def best(self, steps: int) -> Fraction:
        """Count the data sets on which the best strategy breaks a promise, on average."""

        @cache
        def most(left: int, spared: int) -> Fraction:
            if left == 1:
                return Fraction(max((spared & broken).bit_count() for broken in self.broken))
            found = Fraction(0)
            for model in WORLDS if left < steps else (0,):  # the first model is any
                now = (spared & self.broken[model]).bit_count()
                kept = spared & ~self.broken[model]

                @cache
                def after(cells: Cells, model: int = model, kept: int = kept) -> Fraction:
                    masks = (kept & sum(self.errors[model][k] for k in cell) for cell in cells)
                    return sum((most(left - 1, mask) for mask in masks if mask), Fraction(0))

                later = (
                    sum((share * after(cells) for cells, share in question.items()), Fraction(0))
                    for question in self.questions
                )
                found = max(found, now + max(later))
            return found

        return most(steps, (1 << len(WORLDS)) - 1)


@pytest.mark.parametrize(
    ("tolerance", "drawn"),
    [
        (Fraction(2, 5), Fraction(1)),
        (Fraction(1, 3), Fraction(1)),
        (Fraction(1, 6), Fraction(2, 3)),
        (Fraction(1, 6), Fraction(1, 3)),
    ],
    ids=str,
)
def test_the_best_adversary_of_a_small_world(tolerance: Fraction, drawn: Fraction) -> None:
    """The bound holds with draws of 96 places; the adversary reaches a good part of it."""
    adversary = Adversary(tolerance, drawn)
    tail = adversary.broken[0].bit_count()
    ratio = 1 + Fraction(math.ceil(2 * tolerance / drawn * 96), 96)
    reached = {steps: adversary.best(steps) / tail for steps in (2, 3)}
    assert 1 < reached[2] <= 1 + ratio
    assert reached[2] < reached[3] <= 1 + ratio + ratio**2


def test_an_edge_that_can_be_aimed_breaks_the_bound() -> None:
    """Why nothing may show an edge before its answer: the tree is then the one of fixed edges."""
    tolerance, drawn = Fraction(1, 3), Fraction(1)
    adversary = Adversary(tolerance, drawn, aimed=True)
    tail = adversary.broken[0].bit_count()
    ratio = 1 + 2 * tolerance / drawn
    bound = 1 + ratio + ratio**2
    assert Adversary(tolerance, drawn).best(3) / tail < bound < adversary.best(3) / tail
