"""Differences of two models: never below the truth, and as sharp as the search can be."""

from __future__ import annotations

import functools
import itertools
import json
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom, multinomial
from tests.promise.sums import log_geometric

from easeml_meter.promise.numbers import differences, passing
from easeml_meter.promise.solve import smallest

GOLDEN = {
    row["name"]: row["n"]
    for row in json.loads((Path(__file__).parents[2] / "data/golden-2.json").read_text("utf-8"))
}


def pass_probability(labels: int, needed: int, allowed: int, law: tuple[float, float]) -> float:
    """P(K <= allowed, X+ - X- >= needed), term by term."""
    outcomes = [
        (plus, minus)
        for plus in range(allowed + 1)
        for minus in range(allowed + 1 - plus)
        if plus - minus >= needed
    ]
    counts = np.array([(plus, minus, labels - plus - minus) for plus, minus in outcomes])
    if not len(counts):
        return 0.0
    return float(multinomial(labels, [*law, max(0.0, 1 - sum(law))]).pmf(counts).sum())


def test_the_sum_over_rows_is_the_probability() -> None:
    for seed in range(150):
        rng = np.random.default_rng(seed)
        labels = int(rng.integers(2, 300))
        allowed = int(rng.integers(1, labels + 1))
        needed = int(rng.integers(-allowed - 1, allowed + 2))
        mu = float(rng.choice([0, 0.02, -0.02, 0.1, -0.1]))
        q = float(rng.uniform(abs(mu), 1))
        k = np.arange(allowed + 1)
        right = binom.sf(np.ceil((k + needed) / 2) - 1, k, 0.5 + mu / (2 * q))
        truth = float((binom.pmf(k, labels, q) * right).sum())
        found = differences._log_sum_over_rows(labels, needed, allowed, mu, q)
        assert math.exp(found) == pytest.approx(truth, rel=1e-8, abs=1e-250)


@pytest.mark.parametrize(
    ("change", "tolerance", "most"),
    [("0.1", "0.1", "0.4"), ("0", "0.2", "0.5"), ("-0.1", "0.2", "1"), ("-0.2", "0.1", "0.5")],
)
@pytest.mark.parametrize("labels", [5, 12, 25])
def test_no_law_passes_wrongly_more_often(
    labels: int, change: str, tolerance: str, most: str
) -> None:
    """All laws with p+ - p- <= C on a grid, also those below C that a proof excludes."""
    c, eps, d = Fraction(change), Fraction(tolerance), Fraction(most)
    bound = math.exp(differences.log_pass_tail(labels, c, eps, d))
    needed, allowed = math.floor(labels * (c + eps)) + 1, math.floor(labels * d)
    grid = np.linspace(0, 1, 21)
    for plus, minus in itertools.product(grid, grid):
        if plus + minus <= 1 and plus - minus <= float(c) + 1e-12:
            assert pass_probability(labels, needed, allowed, (plus, minus)) <= bound


@pytest.mark.filterwarnings("error")  # where all rows distinguish the models, nothing is a number
@pytest.mark.parametrize(
    ("tolerance", "most"), [(0.2, "0.5"), (0.3, "1"), (0.15, "0.2"), (0.4, "0.9")]
)
@pytest.mark.parametrize("labels", [20, 40])
def test_no_law_is_misread_more_often(labels: int, tolerance: float, most: str) -> None:
    bound = math.exp(differences.log_reading_tail(labels, tolerance, Fraction(most)))
    allowed = math.floor(labels * Fraction(most))
    grid = np.linspace(0, 1, 26)
    for plus, minus in itertools.product(grid, grid):
        if plus + minus <= 1:
            mean = labels * (plus - minus)
            above = math.floor(mean + labels * tolerance + 1e-9) + 1
            below = math.floor(-mean + labels * tolerance + 1e-9) + 1
            found = pass_probability(labels, above, allowed, (plus, minus))
            found += pass_probability(labels, below, allowed, (minus, plus))
            assert found <= bound


@pytest.mark.parametrize(
    ("labels", "change", "tolerance", "most"),
    [(17_135, "0.02", "0.01", "0.1"), (54_639, "0.02", "0.01", "0.1"), (9_000, "0", "0.02", "1")],
)
def test_a_dense_scan_finds_nothing_worse(
    labels: int, change: str, tolerance: str, most: str
) -> None:
    c, eps, d = Fraction(change), Fraction(tolerance), Fraction(most)
    needed, allowed = math.floor(labels * (c + eps)) + 1, math.floor(labels * d)
    shares = np.linspace(float(c) + 1e-3, min(1.0, 1.2 * float(d)), 400)
    worst = max(
        differences._log_sum_over_rows(labels, needed, allowed, float(c), q) for q in shares
    )
    found = differences.log_pass_tail(labels, c, eps, d)
    assert worst <= found <= worst + 2 * differences.SEARCH_MARGIN


@pytest.mark.parametrize("more", [0, 1])
def test_a_scan_of_all_differences_finds_nothing_worse(more: int) -> None:
    """A parabola once told the search to stop at a slope, 0.2 nats below the top."""
    labels, tolerance = 2_033, 0.05
    allowed = math.floor(0.2 * labels) + more
    worst = -math.inf
    for difference in range(-allowed, allowed, 34):
        mu = difference / labels - tolerance
        for q in np.linspace(abs(mu), max(0.24, 1.1 * abs(mu)), 20):
            found = differences._log_sum_over_rows(labels, difference, allowed, mu, q)
            worst = max(worst, found + math.log(2))
    told = differences.log_reading_tail(labels, tolerance, Fraction("0.2"), onwards=bool(more))
    assert worst <= told <= worst + 0.05  # the scan is no finer than that


@pytest.mark.parametrize("labels", [3_000, 3_021, 7_777])
def test_the_tail_of_all_larger_sizes(labels: int) -> None:
    """Against every one of the next few hundred, which reach over several jumps."""
    asked = Fraction("0.02"), Fraction("0.03"), Fraction("0.1")
    found = differences.log_pass_tail_from(labels, *asked)
    worst = max(differences.log_pass_tail(labels + more, *asked) for more in range(200))
    assert worst <= found <= worst + 0.1


@pytest.mark.parametrize(
    ("name", "answers", "most", "chernoff"),
    [
        ("A difference only T=10, 6 answers, d=0.1", 6, "0.1", 43_609),
        ("A difference only T=10, b=3, d=0.1", 3, "0.1", 31_469),
        ("A difference only T=10, b=3, d=0.05", 3, "0.05", 16_642),
    ],
)
def test_bands_of_a_difference_need_the_golden_number_of_labels(
    name: str, answers: int, most: str, chernoff: int
) -> None:
    """To the margin of the search, 0.01 nats; and to the label by the bound in closed form."""
    nats = log_geometric(answers, 10) - math.log(0.01)
    closed = math.ceil((nats + math.log(2)) / differences.rate(0.01, float(most)))
    assert closed == chernoff
    found = smallest(lambda n: nats + differences.log_reading_tail(n, 0.01, Fraction(most)), closed)
    assert GOLDEN[name] <= found <= 1.002 * GOLDEN[name]


@pytest.mark.parametrize("labels", [3_999_990, 4_000_010, 21_686_953])
def test_where_the_closed_form_takes_over_larger_sizes_are_still_covered(labels: int) -> None:
    """The planner once met a size that held "from here on", but not itself."""
    asked = Fraction("0.02"), Fraction("0.001"), Fraction(1)
    own = differences.log_pass_tail(labels, *asked)
    assert own <= differences.log_pass_tail_from(labels, *asked) + 1e-9


def test_large_test_sets_fall_back_on_the_closed_form() -> None:
    asked = Fraction("0.02"), Fraction("0.0001"), Fraction("0.1")
    found = differences.log_pass_tail(10**9, *asked)
    assert found == -(10**9) * differences.rate(0.0001, 0.1)


def worst_adversary(old: str, labels: int, change: Fraction, eps: Fraction, steps: int) -> float:
    """The best that any developer can do against "n - o > C +/- eps", over all data sets.

    Examples are of equally likely kinds, on which the old model is right ("r") or wrong ("w"); a
    new model is right on some of the kinds.
    """
    data = list(itertools.product(range(len(old)), repeat=labels))
    models = set()
    for right in range(2 ** len(old)):
        gains = [(right >> kind & 1) - (was == "r") for kind, was in enumerate(old)]
        passed = sum(
            1 << index
            for index, rows in enumerate(data)
            if sum(gains[row] for row in rows) > labels * (change + eps)
        )
        models.add((Fraction(sum(gains), len(old)) <= change, passed))

    @functools.cache
    def broken(state: int, left: int) -> int:
        if not left or not state:
            return 0
        return max(
            ((state & passed).bit_count() if wrong else broken(state & passed, left - 1))
            + broken(state & ~passed, left - 1)
            for wrong, passed in models
        )

    return broken((1 << len(data)) - 1, steps) / len(data)


@pytest.mark.parametrize("steps", [1, 2, 3])
@pytest.mark.parametrize(
    ("old", "labels", "change", "eps"),
    [("rrww", 4, "0", "1/4"), ("rwww", 4, "1/4", "1/4"), ("rrrw", 5, "-1/4", "1/5")],
)
def test_no_developer_beats_the_count(
    old: str, labels: int, change: str, eps: str, steps: int
) -> None:
    asked = Fraction(change), Fraction(eps), Fraction(1)
    found = worst_adversary(old, labels, *asked[:2], steps)
    bound = passing.log_models(steps) + differences.log_pass_tail(labels, *asked)
    assert 0 < found <= math.exp(bound)


@pytest.mark.parametrize(
    ("change", "most"), [("0.02", "0.2"), ("0.1", "0.3"), ("0.05", "0.1"), ("0.2", "0.5")]
)
@pytest.mark.parametrize("labels", [60, 97, 233, 701])
def test_where_one_row_is_always_enough_no_part_of_another_is_counted(
    change: str, most: str, labels: int
) -> None:
    """n - o > -C +/- C: X+ - X- has to be above 0, whatever the size is."""
    asked = -Fraction(change), Fraction(change), Fraction(most)
    onwards = differences.log_pass_tail_from(labels, *asked)
    own = [differences.log_pass_tail(size, *asked) for size in range(labels, labels + 60)]
    assert max(own) <= onwards <= own[0] + 0.5
