"""Two models on the same rows: tails of a difference of losses that is -1, 0 or 1 for each row.

X+ rows speak for the new model, X- rows for the old one; K = X+ + X- rows distinguish them. The
bad events are those of a reading that is off while K is at most n d: more than n d such rows are
answered "too far", or "fail". Given K, X+ is binomial, so every probability here is a sum

    f(s, q) = sum over k <= n d of Bin(k; n, q) P(Bin(k, 1/2 + mu/(2q)) >= (k + s)/2),

with mu = p+ - p- and q = p+ + p-. The worst q (and s) is found by a search that scans confirm but
no proof covers; so results are raised by 0.01 nats, far more than any scan has found.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache, lru_cache

import numpy as np

from easeml_meter.promise.numbers.binomial import Floats, log_density, tail_and_ratio
from easeml_meter.promise.numbers.plain import log_sum
from easeml_meter.promise.numbers.tails import worst_upper_tail

SEARCH_MARGIN = 0.01
_LOST = 30.0
"""A term that is so much smaller, in logarithms, changes a sum by less than the margin."""
_GRID = 65
_SMALL_GAIN = 4e-3
"""Searches stop where no more than this can be gained; the margin covers two of them."""
_CLOSE, _NEARER = 0.02, 0.1
"""Shares of what is searched: a step that is too small, and the one that is taken instead."""
_MOST_PARABOLAS, _MOST_HALVINGS = 40, 4
Point = tuple[float, float]
_MOST_LABELS = 4 * 10**6
"""Sums of larger test sets take too long; the bound in closed form needs a few percent more."""


@lru_cache(maxsize=1024)
def rate(tolerance: float, most: float) -> float:
    """Return I such that both tails below are at most exp(-n I), by Sanov's theorem.

    I is the smallest divergence of a law with x+ + x- <= d from one whose p+ - p- is eps lower:
    the largest over l of l eps - d ln cosh l + 1 - l coth l + ln(l / tanh l), or kl(d, d + eps).
    """

    def dual(slope: float) -> float:
        tanh = math.tanh(slope)
        log_cosh = slope + math.log1p(math.exp(-2 * slope)) - math.log(2)
        return slope * tolerance - most * log_cosh + 1 - slope / tanh + math.log(slope / tanh)

    low, high = 1e-9, 1.0
    while dual(2 * high) > dual(high):
        high *= 2
    high *= 2
    for _ in range(100):
        third = (high - low) / 3
        if dual(low + third) < dual(high - third):
            low += third
        else:
            high -= third
    found = dual((low + high) / 2)
    other = most + tolerance
    if other < 1:
        divergence = most * math.log(most / other)
        divergence += (1 - most) * math.log((1 - most) / (1 - other))
        found = min(found, divergence)
    return max(found, tolerance**2 / 2)  # Hoeffding's, for differences in [-1, 1]


def summed_rows(labels: int) -> float:
    """Return about how many rows the sum of a tail looks at, and what it costs besides.

    Beyond `_MOST_LABELS` nothing is summed.
    """
    return 1_000.0 if labels > _MOST_LABELS else 1_000 + 8 * math.sqrt(labels)


def log_pass_tail(labels: int, change: Fraction, tolerance: Fraction, most: Fraction) -> float:
    """Return log P(K <= n d, X+ - X- > n (C + eps)) at the worst law with p+ - p- <= C."""
    needed = math.floor(labels * (change + tolerance)) + 1
    bound = -labels * rate(float(tolerance), float(most))
    return _pass_tail(labels, needed, math.floor(labels * most), float(change), bound)[0]


def log_pass_tail_from(labels: int, change: Fraction, tolerance: Fraction, most: Fraction) -> float:
    """Return a bound on `log_pass_tail` of this and all larger sizes.

    The tail jumps where one more row is needed, n (C + eps), and where one more is allowed, n d.
    It is taken at the last size that needs no more rows than this one, and as if n (C + eps) were
    needed there exactly, and n d, rounded up, allowed: the logarithm falls ever faster with the
    rows needed, so the step from s to s + 1 bounds what a part of a row can be worth.
    """
    share = change + tolerance
    bound = -labels * rate(float(tolerance), float(most))  # at this size: it falls with n
    if share > 0:
        labels = math.ceil((math.floor(labels * share) + 1) / share) - 1
    edge = labels * share
    needed, allowed = math.floor(edge) + 1, math.ceil(labels * most)
    here, worst = _pass_tail(labels, needed, allowed, float(change), bound)
    if worst is None or here == -math.inf:
        return here
    # Where all rows may differ, X+ - X- is odd or even with n: two rows make a step.
    whole = most > Fraction(1, 2)
    if not share and not whole:  # one row is needed, whatever n is: no part of another can be
        return here
    further = _log_sum_over_rows(labels, needed + 1 + whole, allowed, float(change), worst)
    part = 1.0 if whole else float(needed - edge)
    return min(0.0, here + part * max(0.0, here - SEARCH_MARGIN - further))


def least_gain(labels: int, change: Fraction, allowed: int, log_level: float) -> int | None:
    """Return the least X+ - X- that shows p+ - p- > C at a level, with K <= `allowed`; or None."""

    def holds(gain: int) -> bool:
        tolerance = Fraction(gain - 1, labels) - change
        bound = -labels * rate(float(tolerance), allowed / labels) if tolerance > 0 else 0.0
        return _pass_tail(labels, gain, allowed, float(change), bound)[0] <= log_level

    low = math.floor(labels * change) + 1  # what is not above C shows nothing
    high = allowed + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high if high <= allowed else None


@lru_cache(maxsize=4096)
def _pass_tail(
    labels: int, needed: int, allowed: int, mu: float, bound: float
) -> tuple[float, float | None]:
    """Return the tail and the worst q, or a bound in closed form and None."""
    if labels > _MOST_LABELS or bound > -1:
        return bound, None
    if needed > allowed:
        return -math.inf, None

    def value(q: float) -> float:
        return _log_sum_over_rows(labels, needed, allowed, mu, q)

    # The more rows distinguish the models, the wilder the difference, until they are too many.
    worst, found = _peak(value, *_near(labels, allowed / labels), abs(mu), 1.0)
    return min(bound, found + SEARCH_MARGIN), worst


@lru_cache(maxsize=4096)
def log_reading_tail(
    labels: int, tolerance: float, most: Fraction, *, onwards: bool = False
) -> float:
    """Return log P(K <= n d, |(X+ - X-)/n - (p+ - p-)| > eps) at the worst law.

    `onwards`: of this size and all larger ones. The tail jumps up where one more row is allowed,
    so n d is rounded up.

    On the upper side X+ - X- = s is at its worst at p+ - p- = s/n - eps, as for one loss. In s
    there is one hump, and the end s = -n d, where only the old model is ever right: that is the
    tail of a loss with the ceiling d. The lower side is the mirror image.
    """
    bound = math.log(2) - labels * rate(tolerance, float(most))
    allowed = math.ceil(labels * most) if onwards else math.floor(labels * most)
    if labels > _MOST_LABELS or bound > -1:
        return min(0.0, bound)
    if not allowed:
        end = worst_upper_tail(labels, tolerance, labels, labels)
        return min(bound, math.log(2) + end)
    near, step = _near(labels, float(most))

    @cache
    def at(difference: int) -> float:
        nonlocal near
        mu = difference / labels - tolerance

        def value(q: float) -> float:
            return _log_sum_over_rows(labels, difference, allowed, mu, q)

        # The next difference is close to this one, and so is its worst q.
        near, found = _peak(value, near, step, min(1.0, abs(mu)), 1.0)
        return found

    start, width = labels * tolerance / 2, allowed / 8
    _, hump = _peak(lambda s: at(round(s)), start, width, -allowed, allowed, narrow=1.0)
    end = worst_upper_tail(labels, tolerance, labels - allowed, labels)
    return min(bound, math.log(2) + max(hump, end) + SEARCH_MARGIN)


def _near(labels: int, most: float) -> tuple[float, float]:
    """Return a q close to the worst, and a step about as wide as the hump around it."""
    spread = math.sqrt(most * (1 - most) / labels)
    return most - 2.5 * spread, max(2 * spread, most / 1000)


def _log_sum_over_rows(labels: int, needed: int, allowed: int, mu: float, q: float) -> float:
    """Return log f(s, q)."""
    first = max(needed, 1)
    none = labels * math.log1p(-q) if needed <= 0 and q < 1 else -math.inf  # K = 0
    if first > allowed or q <= 0:  # where the two never differ, K = 0
        return none
    share = min(1.0, max(0.0, 0.5 + mu / (2 * q)))
    # Only the hump of the terms matters: find it on a grid, then add up what lies around it.
    begin, end, width = float(first), float(allowed), math.inf
    while end - begin > _GRID and end - begin < 0.75 * width:
        width = end - begin
        grid = np.unique(np.round(np.linspace(begin, end, _GRID)))
        high = _hump(_log_weights(labels, q, grid) + _log_last_terms(grid, needed, share))
        if high is None:
            return none
        begin, end = grid[high[0]], grid[high[1]]
    rows = np.arange(begin, end + 1)
    terms = _log_weights(labels, q, rows)
    top = float(terms.max())
    if top == -math.inf:  # all rows distinguish the models: more than are allowed
        return none
    total = float(np.exp(terms - top) @ _tails_by_rows(rows, needed, share))
    return log_sum((none, top + math.log(total))) if total > 0 else none


def _hump(terms: Floats) -> tuple[int, int] | None:
    """Return the first and the last place outside which all terms are lost."""
    top = terms.max()
    if top == -math.inf:
        return None
    high = np.flatnonzero(terms > top - _LOST)
    return max(int(high[0]) - 1, 0), min(int(high[-1]) + 1, len(terms) - 1)


def _log_weights(labels: int, q: float, rows: Floats) -> Floats:
    """Return log P(K = k) for each k."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return log_density(labels, rows, np.full(len(rows), labels * q))


def _log_last_terms(rows: Floats, needed: int, share: float) -> Floats:
    """Return log P(X+ is the least that is enough | K = k), or 0 left of the mean, for each k."""
    least = np.ceil((rows + needed) / 2)
    found = np.where(least > 0, -np.inf, 0.0)
    inside = (least > 0) & (least <= rows)
    if 0 < share < 1:
        found[inside] = log_density(rows[inside], least[inside], rows[inside] * share)
    return np.where(inside & (least <= rows * share), 0.0, found)


def _tails_by_rows(rows: Floats, needed: int, share: float) -> Floats:
    """Return P(X+ - X- >= s | K = k) for consecutive k.

    Two rows more change the probability by what two tosses can do at the edge:

        T(k+2) = T(k) + a^2 P(X = h-1) - (1-a)^2 P(X = h),   X ~ Bin(k, a), h = ceil((k+s)/2).
    """
    least = np.ceil((rows + needed) / 2)
    if share in (0.0, 1.0):
        return np.where(least <= rows * share, 1.0, 0.0)
    inside = (least > 0) & (least <= rows)
    density = np.zeros(len(rows))
    k, h = rows[inside], least[inside]
    density[inside] = np.exp(log_density(k, h, k * share))
    density[least == 0] = (1 - share) ** rows[least == 0]
    below = np.zeros(len(rows))
    below[inside] = density[inside] * h * (1 - share) / ((k - h + 1) * share)
    below[least == rows + 1] = share ** rows[least == rows + 1]
    change = share**2 * below - (1 - share) ** 2 * density
    found = np.empty(len(rows))
    for own in (slice(0, None, 2), slice(1, None, 2)):
        if not len(rows[own]):
            continue
        ends = [math.exp(_log_tail(rows[own][at], least[own][at], share)) for at in (0, -1)]
        # From the smaller end on, nothing cancels.
        steps = change[own][:-1]
        found[own] = (
            np.cumsum(np.concatenate((ends[:1], steps)))
            if ends[0] <= ends[1]
            else np.cumsum(np.concatenate((ends[1:], -steps[::-1])))[::-1]
        )
    return np.minimum(1.0, np.maximum(found, density))


def _log_tail(rows: float, least: float, share: float) -> float:
    """Return log P(Bin(k, a) >= h)."""
    if least <= 0:
        return 0.0
    if least > rows:
        return -math.inf
    mean = rows * share
    far = least > mean
    j, middle = (least, mean) if far else (rows - least + 1, rows - mean)
    log_pmf, ratio = tail_and_ratio(np.array([rows]), np.array([j]), np.array([middle]))
    found = float(log_pmf[0] + np.log(ratio[0]))
    return found if far else math.log1p(-min(1.0, math.exp(found)))


def _peak(
    function: Callable[[float], float],
    start: float,
    step: float,
    low: float,
    high: float,
    *,
    narrow: float = 0.0,
) -> tuple[float, float]:
    """Return where a function with one smooth hump is largest in [low, high], and its value there.

    Step uphill until the hump is between three points, then put parabolas through them, until a
    concave function could not be higher anywhere, or the points are `narrow`.
    """
    seen: dict[float, float] = {}

    def value(x: float) -> float:
        if x not in seen:
            seen[x] = function(x)
        return seen[x]

    middle = min(high, max(low, start))
    left, right = max(low, middle - step), min(high, middle + step)
    while value(left) > value(middle) and left > low:
        left, middle, right = max(low, left - 2 * (right - left)), left, middle
    while value(right) > value(middle) and right < high:
        left, middle, right = middle, right, min(high, right + 2 * (right - left))
    halvings = 0
    for _ in range(_MOST_PARABOLAS):
        points = [(x, value(x)) for x in (left, middle, right)]
        if right - left <= narrow or _most_gain(*points) < _SMALL_GAIN:
            break
        halvings += middle in (left, right)  # at an end of the range
        if halvings > _MOST_HALVINGS:
            break
        top = _vertex(*points)
        # Close to what is known, a parabola makes no progress: look in the wider half.
        if min(abs(top - x) for x in (left, middle, right)) < _CLOSE * (right - left):
            wider = right if right - middle > middle - left else left
            top = middle + _NEARER * (wider - middle)
        inner = sorted({left, middle, right, top})
        best = max(inner, key=value)
        at = inner.index(best)
        left, middle, right = inner[max(at - 1, 0)], best, inner[min(at + 1, len(inner) - 1)]
    best = max(seen, key=value)
    return best, seen[best]


def _most_gain(left: Point, middle: Point, right: Point) -> float:
    """Return by how much a concave function may exceed its value in the middle, the largest.

    Beyond two points it lies below the line through them.
    """
    (x, a), (y, b), (z, c) = left, middle, right
    if b == -math.inf or x == z:
        return 0.0
    if y in (x, z):
        return math.inf
    return max((b - a) * (z - y) / (y - x), (b - c) * (y - x) / (z - y))


def _vertex(left: Point, middle: Point, right: Point) -> float:
    """Return the top of the parabola through three points, or the middle one."""
    (x, a), (y, b), (z, c) = left, middle, right
    if x < y < z and min(a, c) > -math.inf:
        up, down = (b - a) / (y - x), (c - b) / (z - y)
        bend = (down - up) / (z - x)
        if bend < 0:
            return min(z, max(x, (x + y) / 2 - up / (2 * bend)))
    return y
