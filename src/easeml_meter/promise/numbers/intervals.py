"""Exact intervals of a share that was counted, without scipy: a plan is to start at once."""

from __future__ import annotations

import math
from collections.abc import Callable

_TERMS = 10_000
"""Of the continued fraction: it takes about the square root of the trials."""


def clopper_pearson(successes: int, trials: int, error: float) -> tuple[float, float]:
    """Return the exact interval of a probability; each side misses with probability `error`."""
    rest = trials - successes
    lower = _solved(lambda p: _beta(successes, rest + 1, p), error) if successes else 0.0
    upper = _solved(lambda p: _beta(successes + 1, rest, p), 1 - error) if rest else 1.0
    return lower, upper


def _solved(rising: Callable[[float], float], value: float) -> float:
    low, high = 0.0, 1.0
    while low < (middle := (low + high) / 2) < high:
        low, high = (low, middle) if rising(middle) >= value else (middle, high)
    return high


def _beta(a: float, b: float, x: float) -> float:
    """Return the regularized incomplete beta function by Lentz's continued fraction."""
    if x > (a + 1) / (a + b + 2):
        return 1 - _beta(b, a, 1 - x)
    if x <= 0:
        return 0.0
    log = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    front = math.exp(log + a * math.log(x) + b * math.log1p(-x)) / a
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1))
    found = d
    for m in range(1, _TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        before = found
        for term in (even, odd):
            d, c = 1 / (1 + term * d), 1 + term / c
            found *= c * d
        if abs(found - before) < 1e-15 * found:
            break
    return front * found
