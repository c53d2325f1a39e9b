"""Pass or fail: the tail at the threshold, and the models that can pass wrongly."""

from __future__ import annotations

import functools
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from easeml_meter.errors import InvalidInput
from easeml_meter.promise.numbers import passing
from easeml_meter.promise.numbers.plain import rate

shares = st.fractions(Fraction(1, 20), Fraction(9, 10), max_denominator=30)
tolerances = st.fractions(Fraction(1, 100), Fraction(9, 100), max_denominator=100)


def tail(labels: int, threshold: Fraction, tolerance: Fraction) -> float:
    """The definition, term by term."""
    needed = next(s for s in range(labels + 2) if s > labels * (threshold + tolerance))
    law = binom(labels, float(threshold))
    return float(math.fsum(law.pmf(range(needed, labels + 1))))


@given(st.integers(1, 200), shares, tolerances)
def test_the_tail_is_the_probability_to_pass_at_the_threshold(
    labels: int, threshold: Fraction, tolerance: Fraction
) -> None:
    found = math.exp(passing.log_tail(labels, threshold, tolerance))
    assert found == pytest.approx(tail(labels, threshold, tolerance), rel=1e-9, abs=1e-300)


@given(st.integers(1, 150), shares, tolerances, st.integers(0, 20))
def test_a_less_accurate_model_passes_less_often(
    labels: int, threshold: Fraction, tolerance: Fraction, worse: int
) -> None:
    needed = math.floor(labels * (threshold + tolerance))
    truth = binom.sf(needed, labels, float(threshold) * (1 - worse / 20))
    assert truth <= math.exp(passing.log_tail(labels, threshold, tolerance)) * (1 + 1e-9)


@pytest.mark.parametrize(
    ("threshold", "tolerance"),
    [("0.8", "0.05"), ("0.5", "0.03"), ("0.95", "0.03"), ("0.07", "0.041"), ("1/3", "1/7")],
)
def test_the_largest_tail_of_all_larger_sizes(threshold: str, tolerance: str) -> None:
    """Against every size up to one whose tail is far smaller than that of any size asked for."""
    p, eps = Fraction(threshold), Fraction(tolerance)
    sizes = np.arange(1, 8_000)
    needed = np.array([math.floor(int(n) * (p + eps)) for n in sizes])
    truth = binom.logsf(needed, sizes, float(p))
    onwards = np.maximum.accumulate(truth[::-1])[::-1]
    begun = math.ceil(0.5 / rate(p, eps)) + 20
    for n in [*range(begun, begun + 60), 500, 501, 999, 2000]:
        assert passing.log_tail_from(n, p, eps) == pytest.approx(onwards[n - 1], rel=1e-9)
    for n in range(1, begun):  # here a bound in closed form may stand in
        assert passing.log_tail_from(n, p, eps) >= onwards[n - 1] - 1e-9


@given(st.integers(1, 10**9), st.integers(1, 10**6))
def test_the_largest_tail_falls(labels: int, more: int) -> None:
    p, eps = Fraction(3, 5), Fraction(1, 1000)
    assert passing.log_tail_from(labels + more, p, eps) <= passing.log_tail_from(labels, p, eps)


def largest_tree(steps: int, passes: int) -> int:
    """At each step: one model that must fail, or one that may do either."""
    if not steps or passes < 0:
        return 0
    stay = largest_tree(steps - 1, passes)
    return max(1 + stay, stay + largest_tree(steps - 1, passes - 1))


@pytest.mark.parametrize("steps", range(1, 12))
def test_the_models_that_can_pass_wrongly_are_counted(steps: int) -> None:
    for passes in range(steps + 2):
        found = math.exp(passing.log_models(steps, passes))
        assert found == pytest.approx(largest_tree(steps, passes), rel=1e-12)
    assert math.exp(passing.log_models(steps)) == pytest.approx(2 ** (steps - 1))
    assert math.exp(passing.log_models(steps, 0)) == pytest.approx(steps)


def test_a_count_that_takes_long_is_refused() -> None:
    with pytest.raises(InvalidInput, match="passes"):
        passing.log_models(10**9, 10**8)
    assert passing.log_models(10**9) == pytest.approx(10**9 * math.log(2))


def worst_adversary(
    kinds: int, labels: int, share: Fraction, eps: Fraction, steps: int
) -> Fraction:
    """The best that any developer can do, in tails of one model, over all data sets.

    Examples are of `kinds` equally likely kinds, and a model is right on some of the kinds. A state
    is the set of data sets that fit all answers so far, as the bits of a whole number.
    """
    data = list(itertools.product(range(kinds), repeat=labels))
    models = set()
    for right in range(2**kinds):
        passed = sum(
            1 << index
            for index, rows in enumerate(data)
            if sum(right >> row & 1 for row in rows) > labels * (share + eps)
        )
        models.add((Fraction(right.bit_count(), kinds) <= share, passed))

    @functools.cache
    def broken(state: int, left: int) -> int:
        if not left or not state:
            return 0
        return max(
            ((state & passed).bit_count() if wrong else broken(state & passed, left - 1))
            + broken(state & ~passed, left - 1)
            for wrong, passed in models
        )

    one = max(passed.bit_count() for wrong, passed in models if wrong)
    assert Fraction(one, len(data)) <= Fraction(
        math.exp(passing.log_tail(labels, share, eps)) * (1 + 1e-9)
    )
    return Fraction(broken((1 << len(data)) - 1, steps), one)


@pytest.mark.parametrize("steps", [1, 2, 3])
@pytest.mark.parametrize(
    ("kinds", "labels", "share", "eps"),
    [(4, 3, "1/4", "1/3"), (4, 4, "1/4", "1/4"), (4, 4, "1/2", "1/4"), (4, 5, "1/2", "1/5")],
)
def test_no_developer_beats_the_count(
    kinds: int, labels: int, share: str, eps: str, steps: int
) -> None:
    found = worst_adversary(kinds, labels, Fraction(share), Fraction(eps), steps)
    bound = round(math.exp(passing.log_models(steps)))
    assert found <= bound
    if share == "1/4":  # and some developer reaches it, so that no smaller count is right
        assert found == bound
