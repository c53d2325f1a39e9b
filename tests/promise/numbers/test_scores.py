"""Scores of a whole test set: golden sizes, every score and law, the best of all developers."""

from __future__ import annotations

import functools
import itertools
import json
import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp, mpf
from scipy.stats import binom, norm
from tests.promise import oracle, sums
from tests.promise.sums import log_geometric

from easeml_meter.promise.numbers import scores
from easeml_meter.promise.samples import Strata
from easeml_meter.promise.solve import smallest
from easeml_meter.spec import MeterSpec

GOLDEN = {
    row["name"]: row
    for row in json.loads((Path(__file__).parents[2] / "data/golden-2.json").read_text("utf-8"))
}
NATS = log_geometric(2, 10) - math.log(0.01)


def needed(tail: Callable[[int], float]) -> int:
    return smallest(lambda n: NATS + tail(n), 120_000)


@pytest.mark.parametrize(("floor", "merged"), [(None, 60_728), (0.8, 22_682), (0.9, 10_888)])
def test_f1_needs_the_golden_number(floor: float | None, merged: int) -> None:
    row = GOLDEN[f"D F1, T=10 b=2, floor {floor or 0.0}: examples that are not true negatives"]
    assert needed(lambda n: scores.log_f1_tail_from(n, 0.01, floor)) == merged
    if floor is not None:  # the row is without the promise of "below the floor"
        assert f"{merged:,}" in row["note"]
    assert abs(row["n"] - merged) <= 1


@pytest.mark.parametrize(
    ("tail", "golden"),
    [
        (lambda n: scores.log_share_tail_from(n, 0.01), 48_986),
        (lambda n: scores.log_share_tail_from(n, 0.01, 0.9), 17_943),
        (lambda n: scores.log_average_tail(n, 0.01, [Fraction(1, 2)] * 2), 30_572),
        (lambda n: scores.log_average_tail(n, 0.01, [Fraction(1, 10)] * 10), 6_115),
        (lambda n: scores.log_curve_tail(n, 0.01), 64_610),
    ],
)
def test_other_scores_need_the_golden_number(tail: Callable[[int], float], golden: int) -> None:
    assert needed(tail) == golden


def f1(share: oracle.Floats) -> oracle.Floats:
    return 2 * share / (1 + share)


@pytest.mark.parametrize("floor", [None, 0.5, 0.8])
@pytest.mark.parametrize(("size", "tolerance"), [(40, 0.1), (75, 0.07), (20, 0.3)])
def test_no_law_of_f1_is_misread_more_often(
    size: int, tolerance: float, floor: float | None
) -> None:
    """At the laws where a score is exactly eps away, approached from outside, and many others."""
    hits = np.arange(size + 1)
    told = f1(hits / size)
    near = [told + side * (tolerance + 1e-9) for side in (-1, 1)]
    targets = np.concatenate([*near, np.linspace(0.001, 0.999, 500)])
    worst = 0.0
    for score in targets[(targets > 0) & (targets < 1)]:
        law = binom.pmf(hits, size, score / (2 - score))
        wrong = np.abs(told - score) > tolerance
        if floor is not None:
            below = told < floor
            wrong = np.where(below, score > floor + tolerance, wrong)
        worst = max(worst, float(law[wrong].sum()))
    bound = math.exp(scores.log_f1_tail(size, tolerance, floor))
    assert 0.4 * bound < worst <= bound


@pytest.mark.parametrize("floor", [0.5, 0.8, 0.83, 0.9])
def test_f1_with_a_floor_ripples_below_what_is_planned(floor: float) -> None:
    for size in (300, 301, 305, 1_000):
        found = scores.log_f1_tail_from(size, 0.05, floor)
        worst = max(scores.log_f1_tail(size + more, 0.05, floor) for more in range(150))
        assert worst <= found <= worst + 0.01


@pytest.mark.parametrize("size", [50, 400, 3_000])
def test_the_search_finds_the_worst_number_of_hits(size: int) -> None:
    hits = np.arange(size + 1, dtype=np.float64)
    for side in (scores._f1_above, scores._f1_below):
        every = side(size, hits, 0.03)
        assert scores._largest(lambda j, s=side: s(size, j, 0.03), 0, size) == every.max()  # type: ignore[misc]


@pytest.mark.parametrize("floor", [0.7, 0.9, 0.95])
def test_a_share_with_a_floor_is_the_mirror_image_of_a_loss_with_a_ceiling(floor: float) -> None:
    """With one more error on the side that "below the floor" promises."""
    size, tolerance = 400, 0.04
    most = math.floor(size * (1 - Fraction(str(floor))))
    truth = math.exp(oracle.worst_upper_tail(size, tolerance, 0, most + 1))
    truth += math.exp(oracle.worst_upper_tail(size, tolerance, size - most, size))
    assert math.exp(scores.log_share_tail(size, tolerance, floor)) == pytest.approx(truth)
    onwards = scores.log_share_tail_from(size, tolerance, floor)
    assert onwards >= max(
        scores.log_share_tail(size + more, tolerance, floor) for more in range(60)
    )


@pytest.mark.parametrize("weights", [(0.5, 0.5), (0.7, 0.2, 0.1)])
def test_averages_of_classes_stay_below_their_bound(weights: tuple[float, ...]) -> None:
    """By simulation at the worst variances, and never above Hoeffding's bound."""
    rng = np.random.default_rng(1)
    size, tolerance = 200, 0.06
    found = rng.binomial(size, 0.5, (400_000, len(weights))) / size @ np.array(weights)
    seen = float((np.abs(found - 0.5) > tolerance).mean())
    exact = [Fraction(str(weight)) for weight in weights]
    bound = math.exp(scores.log_average_tail(size, tolerance, exact))
    assert (
        seen <= bound <= 2 * math.exp(-2 * tolerance**2 * size / float(sum(w * w for w in exact)))
    )


def test_whole_curves_stay_below_their_bound() -> None:
    rng = np.random.default_rng(2)
    size, tolerance = 150, 0.1
    grid = np.arange(1, size + 1) / size
    far = 0
    for _ in range(4_000):
        distances = []
        for _ in range(2):
            uniform = norm.cdf(np.sort(rng.standard_normal(size)))
            distances += [np.max(grid - uniform), np.max(uniform - grid + 1 / size)]
        far += max(distances) > tolerance
    assert 0.5 < far / 4_000 / math.exp(scores.log_curve_tail(size, tolerance)) < 1


@pytest.mark.parametrize("steps", [1, 2])
def test_no_developer_beats_the_count_of_f1(steps: int) -> None:
    """Bands of two tolerances; a developer chooses the model and its score on the validation set.

    Examples are of four kinds, two of them positive. Broken promises count in data sets with at
    least three positives, as at sealing; the bound is that of three.
    """
    rows, least, tolerance, width = 5, 3, Fraction(3, 10), Fraction(3, 5)
    data = list(itertools.product(range(4), repeat=rows))
    questions = set()
    for predicted in range(16):
        pairs = [(kind < 2, bool(predicted >> kind & 1)) for kind in range(4)]
        hits, others = sum(a and b for a, b in pairs), sum(a or b for a, b in pairs)
        truth = Fraction(2 * hits, others + hits)
        told = []
        for sample in data:
            hit = sum(pairs[kind] == (True, True) for kind in sample)
            other = sum(any(pairs[kind]) for kind in sample)
            told.append(Fraction(2 * hit, other + hit) if other else Fraction(0))
        wrong = sum(
            1 << i
            for i, (score, sample) in enumerate(zip(told, data, strict=True))
            if abs(score - truth) > tolerance and sum(kind < 2 for kind in sample) >= least
        )
        for claimed in (Fraction(k, 10) for k in range(11)):
            bands = [abs(claimed - score) // width for score in told]
            answers = tuple(
                sum(1 << i for i, band in enumerate(bands) if band == number)
                for number in set(bands)
            )
            questions.add((wrong, answers))

    @functools.cache
    def broken(state: int, left: int) -> int:
        if not left or not state:
            return 0
        return max(
            (state & wrong).bit_count()
            + sum(broken(state & ~wrong & answer, left - 1) for answer in answers)
            for wrong, answers in questions
        )

    tail = max(math.exp(scores.log_f1_tail(k, float(tolerance))) for k in range(least, rows + 1))
    found = broken((1 << len(data)) - 1, steps) / len(data)
    assert 0 < found <= (2**steps - 1) * tail


@given(st.integers(1, 60), st.integers(1, 10**6), st.floats(1e-4, 0.5))
def test_equal_weights_are_summed_at_once(classes: int, size: int, tolerance: float) -> None:
    one_by_one = scores.log_average_tail(size, tolerance, [Fraction(1, classes)] * classes)
    at_once = scores.log_class_average_tail(size, tolerance, classes)
    assert at_once == pytest.approx(one_by_one, rel=1e-12)  # the order of sums is another


@pytest.mark.parametrize("h", [0.5, 40.0, 699.0, 701.0, 709.7, 710.0, 1e4, 1e9, 1e15])
def test_the_largest_moment_is_found_however_steep(h: float) -> None:
    with mp.workdps(60):
        grown = mp.expm1(mpf(h))
        p = 1 / mpf(h) - 1 / grown
        exact = mp.log1p(p * grown) - mpf(h) * p
        # By less than the margin with which every tail is raised.
        assert abs(scores._log_moment(h) - exact) <= scores._MARGIN / 10 * exact


def test_a_stratum_with_next_to_no_rows_has_a_tail() -> None:
    """Its weight is a thousand times its share of the rows: e to the slope was no number."""
    strata = {"stratum": "r", "strata": ("a", "b"), "weights": (1e-6, 1 - 1e-6)}
    spec = MeterSpec.uniform(
        tolerance=0.2,
        steps=4,
        delta=0.05,
        **strata,  # type: ignore[arg-type]
        sizes=(1, 10**9),
    )
    sample = spec.meter.sample
    assert isinstance(sample, Strata)
    tails = [sums.log_strata_tail(spec, labels, 0.2) for labels in (1, 10**3, 10**9 + 1)]
    assert tails == sorted(tails, reverse=True)
    hoeffding = math.log(2) - 2 * 0.2**2 / (sample.cost / (10**9 + 1))
    assert tails[-1] <= hoeffding * (1 - 1e-6)
