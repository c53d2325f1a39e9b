"""Bounds on P(|test loss - true loss| > tolerance) for one fixed model, in log space.

Every function returns the natural logarithm of an upper bound on the two-sided probability, for
the worst true loss. A ceiling c restricts the bad event to test losses of at most c.

| bound | for | value |
| --- | --- | --- |
| hoeffding | losses in [0,1] | 2 exp(-2 n eps^2) (the paper, appendix A) |
| kl | losses in [0,1] | exp(-n kl(p + eps, p)) at the worst p, both sides |
| exact | losses of 0 or 1 | the binomial tail at the worst p, both sides |
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from easeml_meter.spec import Bound
from easeml_meter.stats.counting import log_sum

Floats = NDArray[np.float64]

# Rounding must never loosen a guarantee: all results are raised by more than their error.
_RELATIVE_MARGIN = 1e-12
_SMALLEST_SEARCHED, _MOST_SEARCHED = 5e-4, 100_000
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(48)
_NODES, _WEIGHTS = (_NODES + 1) / 2, _WEIGHTS / 2


def log_tail(bound: Bound, labels: int, tolerance: float, ceiling: float | None = None) -> float:
    """Return the logarithm of the chosen bound for a test set of `labels` examples."""
    if labels <= 0:
        return 0.0
    if tolerance >= 1:  # two losses in [0,1] cannot differ by more
        return -math.inf
    value = math.log(2) - 2 * labels * tolerance**2
    # The others are never above Hoeffding's bound, but for the rounding that all are raised by.
    value = min(0.0, value + _RELATIVE_MARGIN * (1 + abs(value)))
    if bound is Bound.KL:
        value = min(value, _log_kl(labels, tolerance, ceiling))
    elif bound is Bound.EXACT:
        value = min(value, _log_exact(labels, tolerance, ceiling))
    return value


def log_tail_from(
    bound: Bound, labels: int, tolerance: float, ceiling: float | None = None
) -> float:
    """Return the largest `log_tail` over all test sets of `labels` examples or more.

    Only the exact tail with a ceiling c is not monotone: it jumps up where one more error fits
    below the ceiling, at the sizes ceil(k / c), and falls between them and from jump to jump.
    """
    here = log_tail(bound, labels, tolerance, ceiling)
    if bound is not Bound.EXACT or ceiling is None:
        return here
    errors = errors_below(ceiling, labels) + 1
    next_jump = math.ceil(errors / Fraction(repr(ceiling)))
    return max(here, log_tail(bound, next_jump, tolerance, ceiling))


def errors_below(ceiling: float, labels: int) -> int:
    """Return the most errors whose share of `labels` does not exceed the ceiling, as written."""
    return math.floor(Fraction(repr(ceiling)) * labels)


def _log_kl(labels: int, tolerance: float, ceiling: float | None) -> float:
    """Chernoff's bound, exp(-n kl(p + eps, p)) at the worst p, on both sides.

    kl is jointly convex, so it is convex in p along q = p + eps: the worst p is its minimum, or
    the end of the range that a ceiling leaves. The lower side is the mirror image of the upper one
    (losses become 1 - loss), with the same minimum.
    """
    worst = _worst_true_loss(tolerance)
    upper = lower = worst
    if ceiling is not None:
        upper = min(worst, ceiling - tolerance)
        lower = max(worst, 1 - ceiling - tolerance)
    return log_sum([_log_chernoff(labels, p, tolerance) for p in (upper, lower)])


def _worst_true_loss(tolerance: float) -> float:
    """Return the p at which kl(p + eps, p) is smallest, by bisection on its derivative."""
    low, high = 0.0, 1 - tolerance
    while True:
        p = (low + high) / 2
        if not low < p < high:
            return p
        rest = 1 - p - tolerance
        slope = math.log1p(tolerance / p) + math.log1p(tolerance / rest) if rest > 0 else math.inf
        if slope < tolerance / (p * (1 - p)):
            low = p
        else:
            high = p


def _log_chernoff(labels: int, p: float, tolerance: float) -> float:
    """Return -n kl(p + eps, p), raised by more than its rounding error."""
    if p <= 0:  # a model that never errs is never seen to err
        return -math.inf
    q = min(p + tolerance, 1.0)
    rest = (1 - q) * math.log1p(-tolerance / (1 - p)) if q < 1 else 0.0
    value = -labels * (q * math.log1p(tolerance / p) + rest)
    # The two terms are near n eps each and cancel.
    return value + _RELATIVE_MARGIN * (1 + abs(value)) + 1e-15 * labels * tolerance


def _log_exact(labels: int, tolerance: float, ceiling: float | None) -> float:
    """Sum of the worst upper and the worst lower binomial tail.

    The upper side, X/n > p + eps, is at its worst at p = j/n - eps for some integer j:
    max over j of P(Bin(n, j/n - eps) >= j). The lower side is its mirror image (j becomes n - j).
    """
    if ceiling is None:
        return math.log(2) + worst_upper_tail(labels, tolerance, 0, labels)
    most = errors_below(ceiling, labels)
    return log_sum(
        (
            worst_upper_tail(labels, tolerance, 0, most),
            worst_upper_tail(labels, tolerance, labels - most, labels),
        )
    )


# All meters with a tolerance ask for the same sizes, when they are compared or planned again.
@lru_cache(maxsize=10_000)
def worst_upper_tail(labels: int, tolerance: float, lowest: int, highest: int) -> float:
    """Return log max over lowest <= j <= highest of P(Bin(n, j/n - eps) >= j), never too small.

    The range is cut into blocks of j, and the blocks that may hold the maximum are cut again,
    down to single values. Which blocks may, follows from concavity:

    1. If (n+1) eps - 1 >= sqrt(n+1), the function is log-concave in real j, so its maximum lies
       next to the largest value seen. Proof: it is the integral over t <= j/n - eps of the beta
       density with parameters (j, n-j+1). The log density in (t, j) has a Hessian that is negative
       semidefinite where ((j-1)(1-t)^2 + (n-j) t^2) * (trigamma(j) + trigamma(n-j+1)) >= 1; with
       trigamma(x) >= 1/x + 1/(2x^2) that holds where (n+1) (j/(n+1) - t)^2 >= 1, hence everywhere
       on that region, which is convex; the marginal of a log-concave function is log-concave
       (Prekopa 1973).
    2. Else, with G(j, p) = log P(Bin(n, p) >= j), which is concave in p (a beta distribution
       function is log-concave) and concave in j (so is a binomial tail), all j of a block have

           G(j, j/n - eps) <= G(first, p) + (j - first) * max(0, up + down),   p = first/n - eps,

       where `up`, dG/dp / n at (last, p), is the most G can rise with p, and `down`, G(first, p) -
       G(first - 1, p), the least it must fall with j. Blocks that cannot beat the best are dropped.
       About 2/eps of them stay at every cut; for a very small eps (where this case means a tail
       above 0.04) Chernoff's bound stands in.
    """
    shift = labels * tolerance
    lowest = max(lowest, math.floor(shift) + 1)  # below, no true loss is that small
    if lowest > highest:
        return -math.inf
    concave = (labels + 1) * tolerance - 1 >= math.sqrt(labels + 1)
    if not concave and tolerance < _SMALLEST_SEARCHED and highest - lowest > _MOST_SEARCHED:
        return _log_chernoff(labels, min(_worst_true_loss(tolerance), 1.0), tolerance)
    split = 32 if concave else 8
    width = max(1, (highest - lowest + 1) // 64)
    first = np.arange(lowest, highest + 1, width, dtype=np.float64)
    best, best_j = -math.inf, lowest
    while True:
        mean = first - shift
        log_pmf, ratio = _binomial_tail(labels, first, mean)
        value = log_pmf + np.log(ratio)
        at = int(value.argmax())
        if value[at] > best:
            best, best_j = float(value[at]), int(first[at])
        if width == 1:
            break
        if concave:
            kept = first[max(at - 1, 0) : at + 1]
        else:
            last = np.minimum(first + (width - 1), highest)
            up = last / (mean * _tail_ratio(labels, last, mean))
            odds = first * (labels - mean) / ((labels - first + 1) * mean)
            bound = value + (last - first) * np.maximum(0.0, up - np.log1p(odds / ratio))
            kept = first[bound >= best]
        finer = max(1, width // split)
        first = (kept[:, None] + np.arange(0, width, finer, dtype=np.float64)).ravel()
        first = first[first <= highest]
        width = finer
    # The mean j - n eps is known to a rounding of n eps, which the tail magnifies by j / mean.
    rounding = 1e-15 * shift * best_j / (best_j - shift)
    return best + _RELATIVE_MARGIN * (1 + abs(best)) + rounding


def _binomial_tail(labels: int, j: Floats, mean: Floats) -> tuple[Floats, Floats]:
    """Return log P(X = j) and P(X >= j) / P(X = j) for X ~ Bin(n, mean/n), where j > mean."""
    rest = labels - j
    distance = j - mean
    with np.errstate(divide="ignore", invalid="ignore"):
        deviance = j * np.log1p(-distance / j) + np.where(
            rest > 0, rest * np.log1p(distance / rest), 0.0
        )
        scale = np.where(rest > 0, 0.5 * np.log(labels / (2 * math.pi * j * rest)), 0.0)
    correction = _stirling(np.array([float(labels)])) - _stirling(j) - _stirling(rest)
    correction = np.where(rest > 0, correction, 0.0)
    log_pmf = deviance + scale + correction
    return log_pmf, _tail_ratio(labels, j, mean)


_STIRLING_SMALL = np.array(
    [0.0]
    + [
        math.lgamma(k + 1) - (k + 0.5) * math.log(k) + k - 0.5 * math.log(2 * math.pi)
        for k in range(1, 16)
    ]
)


def _stirling(k: Floats) -> Floats:
    """Return log k! minus Stirling's formula (Loader 2000), for whole k; zero for k = 0."""
    large = np.maximum(k, 16.0)
    square = large * large
    series = (1 / 12 - (1 / 360 - (1 / 1260 - (1 / 1680) / square) / square) / square) / large
    small = _STIRLING_SMALL[np.minimum(k, 15.0).astype(np.intp)]
    return np.where(k < 16, small, series)


def _tail_ratio(labels: int, j: Floats, mean: Floats) -> Floats:
    """Return P(X >= j) / P(X = j), by quadrature of the incomplete beta integral.

    With t = p exp(-u) the integral becomes j times the integral over u > 0 of exp(e(u)), where
    e(u) = -j u + (n - j) log((1 - p exp(-u)) / (1 - p)) is concave and falls from e(0) = 0. On
    [0, reach] with e(reach) about -40, 48 Gauss-Legendre nodes give full double precision
    whatever n is; a continued fraction or the series need ever more terms as eps falls.
    """
    p = mean / labels
    odds = p / (1 - p)
    rest = labels - j
    slope = (j - mean) / (1 - p)
    curvature = rest * odds / (1 - p)
    reach = 80 / (slope + np.sqrt(slope * slope + 80 * curvature))
    depth = j * reach - rest * np.log1p(-odds * np.expm1(-reach))
    reach *= np.maximum(1.0, 40 / depth)
    u = reach[:, None] * _NODES
    exponent = rest[:, None] * np.log1p(-odds[:, None] * np.expm1(-u)) - j[:, None] * u
    return j * reach * (np.exp(exponent) @ _WEIGHTS)
