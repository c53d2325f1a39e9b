"""Tails of losses in [0, 1]: against laws that attain much of them, and a search of every p."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp
from scipy.stats import binom
from tests.promise.sums import log_models

from easeml_meter.core.questions.planning import required_labels
from easeml_meter.promise.numbers import bounded
from easeml_meter.promise.numbers.bounded import (
    SEARCH_MARGIN,
    log_convex,
)
from easeml_meter.promise.numbers.bounds import Bound
from easeml_meter.promise.numbers.plain import log_kl, log_sum
from easeml_meter.promise.numbers.tails import log_tail
from easeml_meter.promise.solve import smallest
from easeml_meter.spec import MeterSpec

GRADES = 4


def law_of_sum(law: np.ndarray[Any, Any], labels: int) -> np.ndarray[Any, Any]:
    """Give the law of a sum of losses in units of 1/GRADES, exactly by convolution."""
    total = np.ones(1)
    for _ in range(labels):
        total = np.convolve(total, law)
    return total


laws = st.lists(st.integers(0, 8), min_size=GRADES + 1, max_size=GRADES + 1).filter(any)


@given(
    weights=laws,
    labels=st.integers(1, 40),
    tolerance=st.sampled_from([0.05, 0.1, 0.15, 0.25, 0.4]),
    ceiling=st.sampled_from([None, 0.2, 0.5, 0.8]),
)
def test_no_law_breaks_the_bound(
    weights: list[int], labels: int, tolerance: float, ceiling: float | None
) -> None:
    """Losses 0, 1/4, .. 1 with any probabilities; above a ceiling nothing is promised."""
    law = np.array(weights) / sum(weights)
    true = float(law @ np.arange(GRADES + 1)) / GRADES
    sums = law_of_sum(law, labels)
    means = np.arange(len(sums)) / (GRADES * labels)
    bad = np.abs(means - true) > tolerance + 1e-12
    if ceiling is not None:
        bad &= means <= ceiling + 1e-12
    assert math.log(max(sums[bad].sum(), 1e-300)) <= log_convex(labels, tolerance, ceiling) + 1e-9


@pytest.mark.parametrize(("labels", "tolerance"), [(30, 0.2), (100, 0.1), (400, 0.05)])
def test_at_most_e_times_the_binomial_tail(labels: int, tolerance: float) -> None:
    """Losses of 0 or 1 come as close as that, so no bound for all losses can be much smaller."""
    convex, exact = (log_tail(each, labels, tolerance) for each in (Bound.CONVEX, Bound.EXACT))
    assert exact <= convex <= exact + 1 + SEARCH_MARGIN
    assert convex < log_tail(Bound.KL, labels, tolerance)


def at_every_a(labels: int, tolerance: float, p: float) -> float:
    """Give the bound of the upper side from the definition: all a, all outcomes, in mpmath."""
    with mp.workdps(40):
        p, x = mp.mpf(p), labels * (mp.mpf(p) + mp.mpf(tolerance))
        pmf = [mp.binomial(labels, k) * p**k * (1 - p) ** (labels - k) for k in range(labels + 1)]
        ratios = [
            sum((k - a) * pmf[k] for k in range(a + 1, labels + 1)) / (x - a)
            for a in range(math.floor(labels * p), labels)
            if a < x - mp.mpf(10) ** -12
        ]
        return float(mp.log(min(ratios)))


@pytest.mark.parametrize(
    ("labels", "tolerance", "p"),
    [(1, 0.5, 0.3), (7, 0.45, 0.42), (30, 0.2, 0.4), (80, 0.1, 0.45), (80, 0.1, 0.02)],
)
def test_the_bound_at_one_true_loss_is_its_definition(
    labels: int, tolerance: float, p: float
) -> None:
    found = bounded._log_convex_at(labels, tolerance, np.array([p]))
    assert found[0] == pytest.approx(at_every_a(labels, tolerance, p), abs=1e-11)


SIZES = [(1, 0.5), (3, 0.3), (7, 0.45), (30, 0.2), (60, 0.4), (300, 0.1), (1000, 0.05)]
LARGER = [(2, 0.8), (40, 0.1), (500, 0.3), (2000, 0.2), (4000, 0.03), (200, 0.02), (53_580, 0.01)]


def assert_no_worse_true_loss(labels: int, tolerance: float, places: int) -> None:
    """A dense scan of all p finds nothing that the margin does not cover, with half to spare."""
    for lowest, highest in ((0, 1), (0, 0.3), (0.7 - tolerance, 1), (0, 0.1), (0.9 - tolerance, 1)):
        low, high = max(0.0, lowest), min(highest, 1.0) - tolerance
        if high <= 0:
            continue
        every = np.linspace(low, high, places)
        every = every[every > 0]
        found = bounded._worst_convex(labels, tolerance, low, high)
        worst = max(
            bounded._log_convex_at(labels, tolerance, some).max()
            for some in np.array_split(every, 1 + places // 500)
        )
        assert worst <= found + SEARCH_MARGIN / 2


@pytest.mark.parametrize(("labels", "tolerance"), SIZES)
def test_the_search_for_the_worst_true_loss(labels: int, tolerance: float) -> None:
    assert_no_worse_true_loss(labels, tolerance, 1500)


@pytest.mark.verify
@pytest.mark.parametrize(("labels", "tolerance"), [*SIZES, *LARGER])
def test_the_search_for_the_worst_true_loss_among_many(labels: int, tolerance: float) -> None:
    assert_no_worse_true_loss(labels, tolerance, 20_001)


@pytest.mark.parametrize("ceiling", [None, 0.3])
@pytest.mark.parametrize("tolerance", [0.05, 0.1, 0.2, 0.3])
def test_more_labels_are_never_worse(tolerance: float, ceiling: float | None) -> None:
    values = [log_tail(Bound.CONVEX, labels, tolerance, ceiling) for labels in range(1, 240, 3)]
    assert all(later <= earlier for earlier, later in itertools.pairwise(values))


def test_never_above_kl() -> None:
    for labels, tolerance in ((1, 0.5), (10, 0.05), (200, 0.02), (1000, 0.1)):
        assert log_convex(labels, tolerance, 0.3) <= log_kl(labels, tolerance, 0.3)


def test_the_upper_side_covers_the_binomial_tail() -> None:
    p = np.array([0.1, 0.3, 0.5])
    tails = binom.sf(np.ceil(200 * (p + 0.06)) - 1, 200, p)
    assert (np.log(tails) <= bounded._log_convex_at(200, 0.06, p)).all()


@pytest.mark.parametrize(
    ("options", "kl", "convex", "with_margin"),
    [
        ({"count": "consistent"}, 61_143, 53_580, 53_628),
        ({"count": "all"}, 100_030, 91_254, 91_302),
        ({"count": "consistent", "steps": 100}, 373_057, 360_981, 361_031),
    ],
    ids=["b = 2", "all five bands", "a hundred steps"],
)
def test_labels_for_any_loss(
    options: dict[str, Any],
    kl: int,
    convex: int,
    with_margin: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Five bands, eps = delta = 0.01; the margin costs 0.01 / (2 eps^2) = 50 labels."""
    usual: dict[str, Any] = {"signals": 5, "steps": 10, "tolerance": 0.01, "delta": 0.01}
    spec = MeterSpec.uniform(**usual | {"loss": "brier"} | options)
    assert spec.tail is Bound.CONVEX

    def by_kl(labels: int) -> float:
        tail = log_tail(Bound.KL, labels, 0.01)
        return log_sum(log_models(spec)) + tail - math.log(0.01)

    assert smallest(by_kl, 10**6) == kl
    assert required_labels(spec).labels == with_margin
    monkeypatch.setattr(bounded, "SEARCH_MARGIN", 0.0)
    assert required_labels(spec).labels == convex
