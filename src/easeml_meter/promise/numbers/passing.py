"""Pass or fail: how many models can pass wrongly, and how likely one of them is to pass.

A model passes `n > A +/- eps` if more than n (A + eps) of n labels are predicted correctly. Only a
model with an accuracy of at most A can pass wrongly, and its chance grows with the accuracy. So the
tail is that of one binomial distribution, at A, and no worst case has to be searched for.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np

from easeml_meter.errors import invalid
from easeml_meter.promise.numbers.binomial import Floats, tail_and_ratio, tail_ratio
from easeml_meter.promise.numbers.plain import rate

_MARGIN = 1e-12
"""Rounding must never loosen a guarantee: results are raised by more than their error."""
_MOST_SCANNED = 500
"""Sizes at which the tail jumps that are looked at; further ones are covered by the envelope."""
_MOST_PASSES = 10_000


def log_models(steps: int, passes: int | None = None) -> float:
    """Return the logarithm of how many models can be the first to pass wrongly.

    Before a model has passed wrongly, a model that does not deserve to pass has failed. So at each
    step the developer either spends one such model, after which only "fail" goes on, or a deserving
    one, after which both answers do: f(T) = max(1 + f(T-1), 2 f(T-1)) = 2^(T-1). If the test set
    closes at pass number B + 1, then f(T, B) = max(1 + f(T-1, B), f(T-1, B) + f(T-1, B-1)), which
    is the sum of the binomial coefficients C(T-1, j) over j <= B + 1.
    """
    if passes is None or passes >= steps - 2:
        return (steps - 1) * math.log(2)
    if passes > _MOST_PASSES:
        raise invalid("passes", passes, f"at most {_MOST_PASSES:,}, or leave it out")
    term = total = 1
    for j in range(passes + 1):
        term = term * (steps - 1 - j) // (j + 1)
        total += term
    return math.log(total)


def log_tail(labels: int, threshold: Fraction, tolerance: Fraction) -> float:
    """Return log P(Bin(n, A) > n (A + eps))."""
    needed = math.floor(labels * (threshold + tolerance)) + 1
    return _raised(float(_tails([labels], [needed], threshold)[0]))


def log_tail_from(labels: int, threshold: Fraction, tolerance: Fraction) -> float:
    """Return the largest `log_tail` over all test sets of `labels` labels or more.

    With r = A + eps, a model needs s = floor(n r) + 1 correct predictions. While s stays the same
    the tail grows with n, so it is largest at the sizes ceil(s/r) - 1. These values lie below the
    *envelope*, the tail at the real size s/r, which falls:

    F(n) = P(Bin(n, A) >= n r), for real n the integral of h(t)^n / t over t < A divided by that
    over t < 1, h(t) = t^r (1-t)^(1-r). Its derivative in n is the covariance of [t < A] and
    log h(t), which is negative if log h(A) < E log h(t), a difference of digamma functions; their
    expansions give E log h >= log h(r) - 1/(2n) - 1/(12 n^2 r (1-r)). Since log h(r) - log h(A) is
    kl(r, A), F falls where n kl(r, A) >= 1/2 + 1/(12 n r (1-r)). For smaller n Chernoff's bound,
    which falls everywhere, stands in.
    """
    share = threshold + tolerance
    spread = float(share * (1 - share))
    chernoff = -labels * rate(threshold, tolerance)
    if labels < 1 or -chernoff < 0.5 + 1 / (12 * labels * spread):
        return _raised(chernoff)
    best, scanned, chunk = -math.inf, 0, 64
    needed = math.floor(labels * share) + 1
    while scanned < _MOST_SCANNED:
        successes = range(needed, needed + chunk)
        sizes = [-(-s * share.denominator // share.numerator) - 1 for s in successes]
        best = max(best, float(_tails(sizes, successes, threshold).max()))
        needed, scanned, chunk = needed + chunk, scanned + chunk, 2 * chunk
        if _log_envelope(needed, threshold, share) <= best:
            return _raised(best)
    return _raised(max(best, _log_envelope(needed, threshold, share)))


def _tails(sizes: list[int], successes: range | list[int], threshold: Fraction) -> Floats:
    """Return log P(Bin(n, A) >= s) for each n and s; s is above n A."""
    n = np.array(sizes, dtype=np.float64)
    s = np.array(list(successes), dtype=np.float64)
    possible = s <= n
    found = np.full(len(n), -np.inf)
    n, s = n[possible], s[possible]
    above, below = threshold.numerator, threshold.denominator
    mean = np.array([size * above / below for size in itertools.compress(sizes, possible)])
    log_pmf, ratio = tail_and_ratio(n, s, mean)
    found[possible] = log_pmf + np.log(ratio)
    return found


def _log_envelope(needed: int, threshold: Fraction, share: Fraction) -> float:
    """Return a little more than log P(Bin(n, A) >= s) at the real number n = s/r.

    Stirling's formula without its correction is above the true density.
    """
    size = float(needed / share)
    s, rest = float(needed), float(needed / share - needed)
    mean = float(needed / share * threshold)
    deviance = s * math.log1p((mean - s) / s) + rest * math.log1p((s - mean) / rest)
    scale = 0.5 * math.log(size / (2 * math.pi * s * rest))
    ratio = tail_ratio(np.array([size]), np.array([s]), np.array([mean]))
    return deviance + scale + math.log(float(ratio[0]))


def _raised(value: float) -> float:
    return min(0.0, value + _MARGIN * (1 + abs(value))) if value > -math.inf else value
