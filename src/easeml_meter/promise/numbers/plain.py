"""Binomial numbers in plain floats, for plans: small, and without importing numpy.

Floats plan and whole numbers decide (`promise.kernel`): no answer depends on what is here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache

_NODES = 48
RELATIVE_MARGIN = 1e-12
"""Rounding must never loosen a guarantee: results are raised by more than their error."""


def log_sum(logs: Sequence[float]) -> float:
    """Return log(sum(exp(x))), safe for any magnitude."""
    top = max(logs, default=-math.inf)
    if top == -math.inf:
        return top
    return top + math.log(math.fsum(math.exp(log - top) for log in logs))


def log_density(n: int, j: int, p: float) -> float:
    """Return ln P(Bin(n, p) = j)."""
    if not 0 <= j <= n:
        return -math.inf
    if p <= 0 or p >= 1:
        return 0.0 if j == (n if p >= 1 else 0) else -math.inf
    ways = math.lgamma(n + 1) - math.lgamma(j + 1) - math.lgamma(n - j + 1)
    return ways + j * math.log(p) + (n - j) * math.log1p(-p)


def log_upper(n: int, j: int, p: float) -> float:
    """Return ln P(Bin(n, p) >= j), where j is above the mean: quadrature, however large n is.

    P(X >= j) / P(X = j) is j times the integral over u > 0 of exp(e(u)), with e(u) = -j u + (n - j)
    log((1 - p exp(-u)) / (1 - p)), which is concave and falls from 0 (`stats.binomial`).
    """
    if j > n:
        return -math.inf
    if j <= 0 or p >= 1:
        return 0.0
    if p <= 0:
        return -math.inf
    odds, rest = p / (1 - p), n - j
    slope, curvature = (j - n * p) / (1 - p), rest * odds / (1 - p)
    reach = 80 / (slope + math.sqrt(slope * slope + 80 * curvature))
    depth = j * reach - rest * math.log1p(-odds * math.expm1(-reach))
    reach *= max(1.0, 40 / depth)
    total = 0.0
    for node, weight in _legendre():
        u = reach * node
        total += weight * math.exp(rest * math.log1p(-odds * math.expm1(-u)) - j * u)
    return min(0.0, log_density(n, j, p) + math.log(j * reach * total))


@lru_cache(maxsize=1)
def _legendre() -> list[tuple[float, float]]:
    """Return nodes and weights of Gauss and Legendre on [0, 1]."""
    found = []
    for number in range(1, _NODES + 1):
        x = math.cos(math.pi * (number - 0.25) / (_NODES + 0.5))
        for _ in range(8):
            before, here = 1.0, x
            for k in range(2, _NODES + 1):
                before, here = here, ((2 * k - 1) * x * here - (k - 1) * before) / k
            slope = _NODES * (x * here - before) / (x * x - 1)
            x -= here / slope
        found.append(((x + 1) / 2, 1 / ((1 - x * x) * slope * slope)))
    return found


def rate(threshold: Fraction, tolerance: Fraction) -> float:
    """Return kl(A + eps, A): by Chernoff's bound, n labels have a tail of at most exp(-n rate)."""
    p, r = float(threshold), float(threshold + tolerance)
    eps = float(tolerance)
    return r * math.log1p(eps / p) + (1 - r) * math.log1p(-eps / (1 - p))


def log_kl(labels: int, tolerance: float, ceiling: float | None) -> float:
    """Chernoff's bound, exp(-n kl(p + eps, p)) at the worst p, on both sides.

    kl is jointly convex, so it is convex in p along q = p + eps: the worst p is its minimum, or
    the end of the range that a ceiling leaves. The lower side is the mirror image of the upper one
    (losses become 1 - loss), with the same minimum.
    """
    worst = worst_true_loss(tolerance)
    upper = lower = worst
    if ceiling is not None:
        upper = min(worst, ceiling - tolerance)
        lower = max(worst, 1 - ceiling - tolerance)
    return log_sum([log_chernoff(labels, p, tolerance) for p in (upper, lower)])


@lru_cache(maxsize=1_000)  # the same for every size and every meter with this tolerance
def worst_true_loss(tolerance: float) -> float:
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


def log_chernoff(labels: int, p: float, tolerance: float) -> float:
    """Return -n kl(p + eps, p), raised by more than its rounding error."""
    if p <= 0:  # a model that never errs is never seen to err
        return -math.inf
    q = min(p + tolerance, 1.0)
    rest = (1 - q) * math.log1p(-tolerance / (1 - p)) if q < 1 else 0.0
    value = -labels * (q * math.log1p(tolerance / p) + rest)
    # The two terms are near n eps each and cancel.
    return value + RELATIVE_MARGIN * (1 + abs(value)) + 1e-15 * labels * tolerance


def at_most(n: int, j: int, p: float) -> float:
    """Return P(Bin(n, p) <= j)."""
    if j >= n:
        return 1.0
    if j < 0:
        return 0.0
    if j + 1 > n * p:
        return 1.0 - math.exp(log_upper(n, j + 1, p))
    return math.exp(log_upper(n, n - j, 1 - p))


def upper_end(n: int, errors: int, level: float, near: float | None = None) -> float:
    """Return Up: the largest p with P(Bin(n, p) <= errors) > level (Clopper-Pearson).

    Newton's method on the logarithm, which is concave in p; `near` is where it starts.
    """
    if errors >= n:
        return 1.0
    goal = math.log(level)
    low, high = errors / n, 1.0
    p = near if near is not None and low < near < high else low
    if p <= low:
        spread = math.sqrt(max(errors, 1) * (1 - low)) / n
        p = min(low + spread * math.sqrt(-2 * goal) + 1 / n, (low + 1) / 2)
    for _ in range(60):
        value = log_upper(n, n - errors, 1 - p)
        if value > goal:
            low = p
        else:
            high = p
        slope = -n * math.exp(log_density(n - 1, errors, p) - value)
        step = (goal - value) / slope if slope else math.inf
        following = p + step
        if not low < following < high:
            following = (low + high) / 2
        if abs(following - p) <= 1e-13 * p:
            return following
        p = following
    return p


def likely(n: int, p: float) -> range:
    """Return where all but about 1e-7 of Bin(n, p) lies."""
    reach = 5.5 * math.sqrt(n * p * (1 - p)) + 12
    return range(max(0, int(n * p - reach)), min(n, int(n * p + reach)) + 1)


def first(holds: Callable[[int], bool], low: int, high: int) -> int:
    """Return the first whole number of a range from which on something holds; `high` if it must."""
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low
