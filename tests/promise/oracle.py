"""The slow and plain way to compute what `tails` computes fast; it shares no code with it."""

from __future__ import annotations

import functools
from fractions import Fraction

import numpy as np
from mpmath import mp
from numpy.typing import NDArray
from scipy.special import betainc, gammaln

Floats = NDArray[np.float64]

DIGITS = 50


def log_upper_tail(labels: int, errors: int, tolerance: float) -> float:
    """Give log P(Bin(n, j/n - eps) >= j) with 50 digits, term by term."""
    return float(precise_log_upper_tail(labels, errors, tolerance))


def precise_log_upper_tail(labels: int, errors: int, tolerance: float) -> mp.mpf:
    with mp.workdps(DIGITS):
        p = mp.mpf(errors) / labels - mp.mpf(tolerance)
        if p <= 0:
            return mp.ninf
        log_first = (
            mp.loggamma(labels + 1)
            - mp.loggamma(errors + 1)
            - mp.loggamma(labels - errors + 1)
            + errors * mp.log(p)
            + (labels - errors) * mp.log1p(-p)
        )
        odds = p / (1 - p)
        term = total = mp.mpf(1)
        for more in range(labels - errors):
            term *= odds * (labels - errors - more) / (errors + more + 1)
            total += term
            if term < total * mp.mpf(10) ** -DIGITS:
                break
        return log_first + mp.log(total)


def scan(labels: int, errors: Floats, tolerance: float) -> Floats:
    """Give log P(Bin(n, j/n - eps) >= j) for all j at once, in doubles: log pmf plus series."""
    mean = errors - labels * tolerance
    found = np.full(len(errors), -np.inf)
    possible = mean > 0
    j, mean = errors[possible], mean[possible]
    rest = labels - j
    p = mean / labels
    log_pmf = (
        gammaln(labels + 1)
        - gammaln(j + 1)
        - gammaln(rest + 1)
        + j * np.log(p)
        + rest * np.log1p(-p)
    )
    odds = p / (1 - p)
    term, total = np.ones_like(j), np.ones_like(j)
    more = 0
    while len(j) and bool(np.any(term > 1e-17 * total)):
        term = term * odds * np.maximum(rest - more, 0) / (j + more + 1)
        total += term
        more += 1
    found[possible] = log_pmf + np.log(total)
    return found


def worst_upper_tail(labels: int, tolerance: float, lowest: int, highest: int) -> float:
    """Give log max over all j from lowest to highest, one by one."""
    worst = -np.inf
    for first in range(lowest, highest + 1, 10_000):
        some = np.arange(first, min(first + 10_000, highest + 1), dtype=np.float64)
        worst = max(worst, float(scan(labels, some, tolerance).max()))
    return worst


def worst_errors(labels: int, tolerance: float, lowest: int, highest: int) -> int:
    """Give the j where the tail is largest (within a few): ever finer grids around the best one."""
    while True:
        grid = np.unique(np.linspace(lowest, highest, 50).round())
        best = int(scan(labels, grid, tolerance).argmax())
        if highest - lowest < 50:
            return int(grid[best])
        lowest, highest = int(grid[max(best - 1, 0)]), int(grid[min(best + 1, len(grid) - 1)])


def log_exact(
    labels: int, tolerance: float, ceiling: float | None = None, *, every: bool = True
) -> float:
    """Give the exact two-sided tail: over every j, or over ever finer grids of them."""
    most = labels if ceiling is None else int(Fraction(str(ceiling)) * labels)
    upper, lower = (0, most), (labels - most, labels)
    if not every:
        upper, lower = (2 * (worst_errors(labels, tolerance, *side),) for side in (upper, lower))
    return float(
        np.logaddexp(
            worst_upper_tail(labels, tolerance, *upper), worst_upper_tail(labels, tolerance, *lower)
        )
    )


@functools.cache
def exact(labels: int, tolerance: float, ceiling: float | None = None) -> float:
    """Give the exact two-sided tail by scipy, over all j; for tails that a double can hold."""
    most = labels if ceiling is None else int(Fraction(str(ceiling)) * labels)
    j = np.arange(0, most + 1.0)
    p_upper, p_lower = j / labels - tolerance, j / labels + tolerance
    rise, fall = p_upper > 0, p_lower < 1
    upper = betainc(j[rise], labels - j[rise] + 1, p_upper[rise])
    lower = betainc(labels - j[fall], j[fall] + 1, 1 - p_lower[fall])
    return float(upper.max(initial=0.0) + lower.max(initial=0.0))


def precise_log_kl(labels: int, tolerance: float, ceiling: float | None = None) -> mp.mpf:
    """Give Chernoff's bound at the worst true loss, both sides, with 50 digits.

    kl(p + eps, p) is convex in p: its minimum is found by halving a bracket of its derivative.
    """
    with mp.workdps(DIGITS):
        eps = mp.mpf(tolerance)
        most = mp.mpf(1) if ceiling is None else mp.mpf(str(ceiling))

        def slope(p: mp.mpf) -> mp.mpf:
            q = p + eps
            return mp.log(q * (1 - p) / (p * (1 - q))) - eps / (p * (1 - p))

        low, high = mp.mpf(0), 1 - eps
        for _ in range(4 * DIGITS):
            middle = (low + high) / 2
            low, high = (middle, high) if slope(middle) < 0 else (low, middle)

        def log_bound(p: mp.mpf) -> mp.mpf:
            if p <= 0:
                return mp.ninf
            q = p + eps
            rest = (1 - q) * mp.log((1 - q) / (1 - p)) if q < 1 else 0
            return -labels * (q * mp.log(q / p) + rest)

        sides = [log_bound(min(low, most - eps)), log_bound(max(low, 1 - most - eps))]
        return min(mp.mpf(0), mp.log(sum(mp.exp(side) for side in sides)))
