"""The tails: never below the truth, never above the next weaker bound, right to the last digits."""

from __future__ import annotations

import itertools
import math
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp
from tests.promise import oracle
from tests.promise.oracle import Floats

from easeml_meter.promise.numbers.bounds import Bound
from easeml_meter.promise.numbers.tails import (
    errors_below,
    log_tail,
    log_tail_from,
    worst_upper_tail,
)

BOUNDS = list(Bound)
CEILINGS = [None, 0.05, 0.1, 0.3, 0.5, 0.8]

tolerances = st.floats(0.003, 0.9)
ceilings = st.none() | st.floats(0.01, 0.99)


def is_log_concave(labels: int, tolerance: float) -> bool:
    """The condition in the docstring of `worst_upper_tail`."""
    return (labels + 1) * tolerance - 1 >= math.sqrt(labels + 1)


# --- Each bound bounds the truth ---


def true_failure(
    law: Floats, losses: list[Fraction], mean: Fraction, tolerance: float, ceiling: float | None
) -> float:
    """Sum P(test loss = l) over the losses l that break the promise, compared without rounding."""
    eps = Fraction(tolerance)
    most = Fraction(1) if ceiling is None else Fraction(str(ceiling))
    bad = [abs(loss - mean) > eps and loss <= most for loss in losses]
    return float(law[bad].sum())


def binomial_law(labels: int, p: Fraction) -> Floats:
    weights = [
        math.comb(labels, j) * float(p) ** j * float(1 - p) ** (labels - j)
        for j in range(labels + 1)
    ]
    return np.array(weights)


def worst_places(labels: int, tolerance: float) -> list[Fraction]:
    """True losses where one more value of the test loss turns bad: just below and just above."""
    eps, tiny = Fraction(tolerance), Fraction(1, 10**12)
    edges = [Fraction(j, labels) + side for j in range(labels + 1) for side in (eps, -eps)]
    return [p for edge in edges for p in (edge - tiny, edge, edge + tiny) if 0 <= p <= 1]


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("ceiling", CEILINGS)
@pytest.mark.parametrize(("labels", "tolerance"), [(1, 0.3), (7, 0.2), (20, 0.1), (40, 0.25)])
def test_no_true_loss_fails_more_often_than_the_bound_says(
    bound: Bound, labels: int, tolerance: float, ceiling: float | None
) -> None:
    bounded = math.exp(log_tail(bound, labels, tolerance, ceiling))
    losses = [Fraction(j, labels) for j in range(labels + 1)]
    grid = [Fraction(i, 53) for i in range(54)]
    for p in [*grid, *worst_places(labels, tolerance)]:
        truth = true_failure(binomial_law(labels, p), losses, p, tolerance, ceiling)
        assert truth <= bounded * (1 + 1e-12), p


@pytest.mark.parametrize("bound", [Bound.KL, Bound.HOEFFDING])
@pytest.mark.parametrize("ceiling", CEILINGS)
@pytest.mark.parametrize(("labels", "tolerance"), [(12, 0.15), (30, 0.1)])
def test_losses_between_0_and_1_fail_no_more_often_either(
    bound: Bound, labels: int, tolerance: float, ceiling: float | None
) -> None:
    """A loss of 0, 1/2 or 1 for each example, in all mixtures of tenths."""
    bounded = math.exp(log_tail(bound, labels, tolerance, ceiling))
    losses = [Fraction(j, 2 * labels) for j in range(2 * labels + 1)]
    for half in range(11):
        for one in range(11 - half):
            each = np.array([10 - half - one, half, one]) / 10
            law = np.array([1.0])
            for _ in range(labels):
                law = np.convolve(law, each)
            mean = Fraction(half, 20) + Fraction(one, 10)
            truth = true_failure(law, losses, mean, tolerance, ceiling)
            assert truth <= bounded * (1 + 1e-12), (half, one)


@pytest.mark.parametrize("ceiling", CEILINGS)
@pytest.mark.parametrize(("labels", "tolerance"), [(1, 0.3), (7, 0.2), (20, 0.1), (40, 0.25)])
def test_the_exact_bound_is_reached(labels: int, tolerance: float, ceiling: float | None) -> None:
    """It is the sum of the two one-sided suprema; the larger of them really occurs."""
    losses = [Fraction(j, labels) for j in range(labels + 1)]
    worst = max(
        true_failure(binomial_law(labels, p), losses, p, tolerance, ceiling)
        for p in worst_places(labels, tolerance)
    )
    exact = math.exp(log_tail(Bound.EXACT, labels, tolerance, ceiling))
    assert exact / 2 * (1 - 1e-9) <= worst <= exact


# --- The exact tail: against 50 digits, over all j ---


def precise_log_exact(labels: int, tolerance: float, ceiling: float | None) -> mp.mpf:
    most = labels if ceiling is None else math.floor(Fraction(str(ceiling)) * labels)
    with mp.workdps(oracle.DIGITS):
        upper, lower = (
            max(oracle.precise_log_upper_tail(labels, j, tolerance) for j in errors)
            for errors in (range(most + 1), range(labels - most, labels + 1))
        )
        return min(mp.mpf(0), mp.log(mp.exp(upper) + mp.exp(lower)))


@pytest.mark.parametrize("ceiling", CEILINGS)
@pytest.mark.parametrize(
    ("labels", "tolerance"),
    [(1, 0.5), (2, 0.01), (9, 0.999), (50, 0.02), (60, 0.07), (100, 0.29), (150, 0.3), (250, 0.01)],
)
def test_exact_is_the_maximum_over_all_error_counts(
    labels: int, tolerance: float, ceiling: float | None
) -> None:
    truth = precise_log_exact(labels, tolerance, ceiling)
    found = log_tail(Bound.EXACT, labels, tolerance, ceiling)
    with mp.workdps(oracle.DIGITS):
        above = float(mp.mpf(found) - truth)
    assert 0 <= above <= 1e-11 * (1 + abs(found))


def test_the_search_finds_the_worst_error_count() -> None:
    """Against a scan of every j of a random range, with and without the concavity condition."""
    for seed, concave in itertools.product(range(30), (True, False)):
        rng = np.random.default_rng([seed, concave])
        while True:
            labels = int(10 ** rng.uniform(0, 4))
            tolerance = float(10 ** rng.uniform(-4, 0))
            if tolerance < 1 and is_log_concave(labels, tolerance) == concave:
                break
        lowest, highest = sorted(int(j) for j in rng.integers(0, labels + 1, 2))
        for first, last in ((0, labels), (lowest, highest), (0, highest), (lowest, labels)):
            found = worst_upper_tail(labels, tolerance, first, last)
            truth = oracle.worst_upper_tail(labels, tolerance, first, last)
            assert found == pytest.approx(truth, rel=1e-9, abs=1e-9), (
                labels,
                tolerance,
                first,
                last,
            )


@pytest.mark.verify
@pytest.mark.parametrize("seed", range(40))
def test_the_search_finds_the_worst_error_count_in_many_ranges(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(50):
        labels = int(10 ** rng.uniform(0, 4.5))
        tolerance = float(10 ** rng.uniform(-4, -0.01))
        first, last = sorted(int(j) for j in rng.integers(0, labels + 1, 2))
        found = worst_upper_tail(labels, tolerance, first, last)
        truth = oracle.worst_upper_tail(labels, tolerance, first, last)
        assert found == pytest.approx(truth, rel=1e-9, abs=1e-9), (labels, tolerance, first, last)


def test_no_error_count_is_possible_below_the_tolerance() -> None:
    assert worst_upper_tail(100, 0.29, 0, 28) == -math.inf
    assert worst_upper_tail(100, 0.25, 0, 25) == -math.inf
    assert worst_upper_tail(100, 0.25, 7, 6) == -math.inf


def assert_log_concave(labels: int, tolerance: float) -> None:
    lowest = math.floor(labels * tolerance) + 1
    with mp.workdps(oracle.DIGITS):
        values = [
            oracle.precise_log_upper_tail(labels, j, tolerance) for j in range(lowest, labels + 1)
        ]
        for left, middle, right in zip(values, values[1:], values[2:], strict=False):
            assert left + right <= 2 * middle


def smallest_concave_tolerance(labels: int) -> float:
    tolerance = (1 + math.sqrt(labels + 1)) / (labels + 1)
    return tolerance if is_log_concave(labels, tolerance) else math.nextafter(tolerance, 1)


@pytest.mark.parametrize("labels", [5, 8, 13, 30, 77, 160])
def test_the_lemma_on_concavity_where_it_barely_holds(labels: int) -> None:
    """The lemma of `worst_upper_tail`: second differences in j, with 50 digits."""
    assert_log_concave(labels, smallest_concave_tolerance(labels))


@pytest.mark.parametrize("seed", range(12))
def test_the_lemma_on_concavity_at_random(seed: int) -> None:
    rng = np.random.default_rng(seed)
    labels = int(rng.integers(5, 150))
    assert_log_concave(labels, float(rng.uniform(smallest_concave_tolerance(labels), 1)))


@pytest.mark.verify
@pytest.mark.parametrize("labels", [*range(5, 120), 200, 400, 800, 1600])
def test_the_lemma_on_concavity_for_many_sizes(labels: int) -> None:
    assert_log_concave(labels, smallest_concave_tolerance(labels))


# --- kl: against 50 digits ---


@pytest.mark.parametrize("tolerance", [0.5, 0.1, 0.01, 1e-3, 1e-4, 1e-5])
@pytest.mark.parametrize("ceiling", [None, 0.8, 0.02, 0.1, 0.3])
def test_kl_is_taken_at_the_worst_true_loss(tolerance: float, ceiling: float | None) -> None:
    for exponent in (10, 300, 16_000):
        labels = math.ceil(exponent / (2 * tolerance**2))
        truth = oracle.precise_log_kl(labels, tolerance, ceiling)
        with mp.workdps(oracle.DIGITS):
            above = mp.mpf(log_tail(Bound.KL, labels, tolerance, ceiling)) - truth
            assert 0 <= above <= 1e-10 * abs(truth)


# --- Order and monotony ---


@given(st.integers(1, 10**7), tolerances)
def test_exact_is_tighter_than_kl(labels: int, tolerance: float) -> None:
    exact, kl = (log_tail(bound, labels, tolerance) for bound in (Bound.EXACT, Bound.KL))
    assert exact <= kl + 1e-11 * (1 + abs(kl))  # each is raised by more than its rounding error


@given(st.integers(1, 10**7), tolerances)
def test_all_are_tighter_than_hoeffding(labels: int, tolerance: float) -> None:
    *others, hoeffding = (log_tail(bound, labels, tolerance) for bound in BOUNDS)
    assert max(others) <= hoeffding + 1e-11 * (1 + abs(hoeffding))


@pytest.mark.parametrize("bound", Bound)
@given(labels=st.integers(1, 10**6), tolerance=tolerances, ceiling=ceilings)
def test_a_ceiling_never_costs(
    bound: Bound, labels: int, tolerance: float, ceiling: float | None
) -> None:
    plain = log_tail(bound, labels, tolerance)
    assert log_tail(bound, labels, tolerance, ceiling) <= plain + 1e-11 * (1 + abs(plain))


@given(st.sampled_from(BOUNDS), st.integers(1, 10**6), tolerances, st.floats(1.001, 2), ceilings)
def test_a_larger_tolerance_is_easier(
    bound: Bound, labels: int, tolerance: float, factor: float, ceiling: float | None
) -> None:
    easier = log_tail(bound, labels, tolerance * factor, ceiling)
    assert easier <= log_tail(bound, labels, tolerance, ceiling)


@given(st.sampled_from(BOUNDS), st.integers(1, 10**7), tolerances, st.integers(1, 1000))
def test_more_labels_are_easier_at_any_size(
    bound: Bound, labels: int, tolerance: float, more: int
) -> None:
    assert log_tail(bound, labels + more, tolerance) <= log_tail(bound, labels, tolerance)


@pytest.mark.parametrize("bound", [Bound.KL, Bound.HOEFFDING])
@pytest.mark.parametrize("ceiling", [0.03, 0.1, 0.37])
def test_only_the_exact_tail_jumps_at_a_ceiling(bound: Bound, ceiling: float) -> None:
    values = [log_tail(bound, labels, 0.02, ceiling) for labels in range(1, 500)]
    assert values == sorted(values, reverse=True)
    exact = [log_tail(Bound.EXACT, labels, 0.02, ceiling) for labels in range(1, 500)]
    assert exact != sorted(exact, reverse=True)


def assert_covers_all_larger_sizes(
    tolerance: float, ceiling: float, sizes: range, beyond: int
) -> None:
    """`log_tail_from` at each size is at least the tail at every later one."""
    last = sizes.stop + beyond
    here = [log_tail(Bound.EXACT, n, tolerance, ceiling) for n in range(sizes.start, last)]
    later = np.maximum.accumulate(here[::-1])[::-1]
    for n, most in zip(sizes, later, strict=False):
        found = log_tail_from(Bound.EXACT, n, tolerance, ceiling)
        assert found >= most - 1e-11 * (1 + abs(most)), n
        assert found <= most + 1e-11 * (1 + abs(most)), n


@pytest.mark.parametrize("ceiling", [0.03, 0.07, 0.1, 0.29, 0.3, 0.37, 0.45, 0.6, 0.93])
@pytest.mark.parametrize("tolerance", [0.005, 0.04, 0.25])
def test_a_size_is_checked_with_all_larger_ones(tolerance: float, ceiling: float) -> None:
    assert_covers_all_larger_sizes(tolerance, ceiling, range(1, 150), beyond=math.ceil(3 / ceiling))


@pytest.mark.parametrize("ceiling", [0.1, 0.137, 0.41])
def test_a_large_size_is_checked_with_all_larger_ones(ceiling: float) -> None:
    start = 34_900
    sizes = range(start, start + 40)
    assert_covers_all_larger_sizes(0.01, ceiling, sizes, beyond=math.ceil(3 / ceiling))


@pytest.mark.verify
@pytest.mark.parametrize("seed", range(60))
def test_any_size_is_checked_with_all_larger_ones(seed: int) -> None:
    rng = np.random.default_rng(seed)
    tolerance = float(10 ** rng.uniform(-3, -0.3))
    ceiling = round(float(rng.uniform(0.01, 0.99)), int(rng.integers(2, 6)))
    start = int(10 ** rng.uniform(0, 4))
    sizes = range(start, start + 300)
    assert_covers_all_larger_sizes(tolerance, ceiling, sizes, beyond=math.ceil(5 / ceiling))


@pytest.mark.parametrize("bound", BOUNDS)
def test_without_a_ceiling_a_size_speaks_for_all_larger_ones(bound: Bound) -> None:
    assert log_tail_from(bound, 500, 0.05) == log_tail(bound, 500, 0.05)


# --- Edges ---


@pytest.mark.parametrize("bound", BOUNDS)
def test_no_labels_promise_nothing(bound: Bound) -> None:
    assert log_tail(bound, 0, 0.1) == 0.0
    assert log_tail(bound, 0, 0.1, 0.5) == 0.0


@pytest.mark.parametrize("bound", BOUNDS)
def test_two_losses_never_differ_by_more_than_one(bound: Bound) -> None:
    assert log_tail(bound, 1, 1.0) == -math.inf
    assert log_tail(bound, 1, 7.0) == -math.inf


def test_hoeffding_is_as_published() -> None:
    value = log_tail(Bound.HOEFFDING, 38_005, 0.01)
    assert value == pytest.approx(math.log(2) - 2 * 38_005 * 0.01**2, rel=1e-11)


@given(st.integers(1, 10**15), tolerances)
def test_hoeffding_is_never_rounded_down(labels: int, tolerance: float) -> None:
    with mp.workdps(60):
        exact = mp.log(2) - 2 * labels * mp.mpf(repr(tolerance)) ** 2
        found = mp.mpf(log_tail(Bound.HOEFFDING, labels, tolerance))
        assert found >= min(exact, mp.mpf(0))
        assert found <= exact + mp.mpf("1e-11") * (1 + abs(exact))


@pytest.mark.parametrize(
    ("ceiling", "labels", "errors"),
    [(0.1, 10, 1), (0.07, 100, 7), (0.29, 100, 29), (0.1, 9, 0), (0.3, 10, 3), (1e-05, 10**5, 1)],
)
def test_a_ceiling_means_the_decimal_number_as_written(
    ceiling: float, labels: int, errors: int
) -> None:
    assert errors_below(ceiling, labels) == errors


@pytest.mark.parametrize("labels", [80_500_000, 80_500_001])
def test_tails_far_below_the_smallest_double(labels: int) -> None:
    """10,000 steps of a regular meter ask for a tail near exp(-16,000)."""
    found = log_tail(Bound.EXACT, labels, 0.01)
    worst = oracle.worst_errors(labels, 0.01, 0, labels)
    with mp.workdps(oracle.DIGITS):
        truth = mp.log(2) + oracle.precise_log_upper_tail(labels, worst, 0.01)
        assert 0 <= mp.mpf(found) - truth <= 1e-6
    assert found < -16_000


@pytest.mark.parametrize("ceiling", [None, 0.1])
@pytest.mark.parametrize("tolerance", [0.01, 5e-4, 1e-4])
def test_no_array_of_the_size_of_the_test_set(tolerance: float, ceiling: float | None) -> None:
    """Eight million labels in doubles would be 64 MB; the last tolerance is not log-concave."""
    tracemalloc.start()
    try:
        log_tail(Bound.EXACT, 8_041_885, tolerance, ceiling)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3_000_000
