"""Bounds on P(|test loss - true loss| > tolerance) for one fixed model, in log space.

Every function returns the natural logarithm of an upper bound on the two-sided probability, for
the worst true loss. A ceiling c restricts the bad event to test losses of at most c. Where "above
the ceiling" is `promised` to mean a true loss of at least c - eps, a larger test loss of a smaller
true loss is bad, too: that adds one more number of errors on the upper side.

| bound | for | value |
| --- | --- | --- |
| hoeffding | losses in [0,1] | 2 exp(-2 n eps^2) (the paper, appendix A) |
| kl | losses in [0,1] | exp(-n kl(p + eps, p)) at the worst p, both sides |
| convex | losses in [0,1] | what convex order leaves of kl (`bounded`) |
| exact | losses of 0 or 1 | the binomial tail at the worst p, both sides |
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np

from easeml_meter.promise.numbers.binomial import tail_and_ratio, tail_ratio
from easeml_meter.promise.numbers.bounded import log_convex
from easeml_meter.promise.numbers.bounds import Bound
from easeml_meter.promise.numbers.plain import (
    RELATIVE_MARGIN,
    log_chernoff,
    log_kl,
    log_sum,
    worst_true_loss,
)

_SMALLEST_SEARCHED, _MOST_SEARCHED = 5e-4, 100_000


def log_tail(
    bound: Bound,
    labels: int,
    tolerance: float,
    ceiling: float | None = None,
    *,
    promised: bool = False,
) -> float:
    """Return the logarithm of the chosen bound for a test set of `labels` examples."""
    if labels <= 0:
        return 0.0
    if tolerance >= 1:  # two losses in [0,1] cannot differ by more
        return -math.inf
    value = math.log(2) - 2 * labels * tolerance**2
    # The others are never above Hoeffding's bound, but for the rounding that all are raised by.
    value = min(0.0, value + RELATIVE_MARGIN * (1 + abs(value)))
    if bound is Bound.KL:
        value = min(value, log_kl(labels, tolerance, ceiling))
    elif bound is Bound.CONVEX:
        value = min(value, log_convex(labels, tolerance, ceiling))
    elif bound is Bound.EXACT:
        value = min(value, _log_exact(labels, tolerance, ceiling, promised))
    return value


def log_tail_from(
    bound: Bound,
    labels: int,
    tolerance: float,
    ceiling: float | None = None,
    *,
    promised: bool = False,
) -> float:
    """Return the largest `log_tail` over all test sets of `labels` examples or more.

    Only the exact tail with a ceiling c is not monotone: it jumps up where one more error fits
    below the ceiling, at the sizes ceil(k / c), and falls between them and from jump to jump.
    """
    here = log_tail(bound, labels, tolerance, ceiling, promised=promised)
    if bound is not Bound.EXACT or ceiling is None:
        return here
    errors = errors_below(ceiling, labels) + 1
    next_jump = math.ceil(errors / Fraction(repr(ceiling)))
    return max(here, log_tail(bound, next_jump, tolerance, ceiling, promised=promised))


def errors_below(ceiling: float, labels: int) -> int:
    """Return the most errors whose share of `labels` does not exceed the ceiling, as written."""
    return math.floor(Fraction(repr(ceiling)) * labels)


def _log_exact(labels: int, tolerance: float, ceiling: float | None, promised: bool) -> float:
    """Sum of the worst upper and the worst lower binomial tail.

    The upper side, X/n > p + eps, is at its worst at p = j/n - eps for some integer j:
    max over j of P(Bin(n, j/n - eps) >= j). The lower side is its mirror image (j becomes n - j).
    """
    if ceiling is None:
        return math.log(2) + worst_upper_tail(labels, tolerance, 0, labels)
    most = errors_below(ceiling, labels)
    return log_sum(
        (
            worst_upper_tail(labels, tolerance, 0, min(most + promised, labels)),
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
        return log_chernoff(labels, min(worst_true_loss(tolerance), 1.0), tolerance)
    split = 32 if concave else 8
    width = max(1, (highest - lowest + 1) // 64)
    first = np.arange(lowest, highest + 1, width, dtype=np.float64)
    if concave and width > 1:
        # Below a ceiling the maximum is often an end of the range: the value next to it shows it.
        first = np.concatenate(([lowest], first + 1, [highest - 1, highest]))
        first = first[first <= highest]
    best, best_j = -math.inf, lowest
    while True:
        mean = first - shift
        log_pmf, ratio = tail_and_ratio(labels, first, mean)
        value = log_pmf + np.log(ratio)
        at = int(value.argmax())
        if value[at] > best:
            best, best_j = float(value[at]), int(first[at])
        if width == 1 or (concave and first[at] in (lowest, highest)):
            break
        if concave:
            kept = first[max(at - 1, 0) : at + 1]
        else:
            last = np.minimum(first + (width - 1), highest)
            up = last / (mean * tail_ratio(labels, last, mean))
            odds = first * (labels - mean) / ((labels - first + 1) * mean)
            bound = value + (last - first) * np.maximum(0.0, up - np.log1p(odds / ratio))
            kept = first[bound >= best]
        finer = max(1, width // split)
        first = (kept[:, None] + np.arange(0, width, finer, dtype=np.float64)).ravel()
        first = first[first <= highest]
        width = finer
    # The mean j - n eps is known to a rounding of n eps, which the tail magnifies by j / mean.
    rounding = 1e-15 * shift * best_j / (best_j - shift)
    return best + RELATIVE_MARGIN * (1 + abs(best)) + rounding
