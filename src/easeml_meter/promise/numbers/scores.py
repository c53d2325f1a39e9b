"""Tails of scores that are no plain average of losses: shares with a floor, F1, class averages.

Every function returns the logarithm of a bound on the probability that the score of one model on a
test set is more than eps away from its true score, for the worst model. `size` is what the score is
an average of: positives for recall, examples that are not true negatives for F1.

A *floor* restricts the promise to scores that are not below it; the others are answered "below the
floor", which promises that the true score is at most eps above the floor. Only the lower side has
one more value for that, so no answer is added as long as no band edge is told near the floor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from easeml_meter.promise.numbers.binomial import Floats, tail_and_ratio
from easeml_meter.promise.numbers.bounds import Bound
from easeml_meter.promise.numbers.plain import log_sum
from easeml_meter.promise.numbers.rounding import as_written
from easeml_meter.promise.numbers.tails import log_tail, worst_upper_tail

_MARGIN = 1e-11
_WIDTH = 128
_MOST_JUMPS = 512
"""Sizes at which the tail of a floor jumps that are compared; the ripple is small beyond."""


def rows_for(size: int, share: float, chance: float = 0.001) -> int:
    """Return how many rows to draw so that `size` of them are of a kind that has this share.

    With fewer than that in at most this chance: P(Bin(rows, share) < size).
    """

    def excess(rows: int) -> float:
        if rows * share < size:
            return 1.0
        rest = np.array([float(rows - size + 1)])
        log_pmf, ratio = tail_and_ratio(rows, rest, np.array([rows * (1 - share)]))
        return float((log_pmf + np.log(ratio))[0]) - math.log(chance)

    low, high = 0, math.ceil((size + 1) / share)
    while excess(high) > 0:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if excess(middle) <= 0 else (middle, high)
    return high


def log_share_tail(size: int, tolerance: float, floor: float | None = None) -> float:
    """Return the tail of a share of right answers, such as accuracy, recall or precision."""
    if floor is None or size < 1:
        return log_tail(Bound.EXACT, size, tolerance)
    most = math.floor(size * (1 - as_written(floor)))
    below = worst_upper_tail(size, tolerance, 0, min(size, most + 1))
    return min(0.0, log_sum((below, worst_upper_tail(size, tolerance, size - most, size))))


def log_share_tail_from(size: int, tolerance: float, floor: float | None = None) -> float:
    """Return the largest `log_share_tail` of this size and all larger ones.

    With a floor it jumps where one more wrong answer fits, and falls from jump to jump.
    """
    here = log_share_tail(size, tolerance, floor)
    if floor is None or size < 1:
        return here
    wrong = 1 - as_written(floor)
    jump = math.ceil((math.floor(size * wrong) + 1) / wrong)
    return max(here, log_share_tail(jump, tolerance, floor))


def log_f1_tail(size: int, tolerance: float, floor: float | None = None) -> float:
    """Return the tail of F1 among `size` examples that are not true negatives.

    F1 = 2J/(1+J) is a function of J = TP/(TP+FP+FN) alone, and given their number the true
    positives among the others are binomial with the true J. So, as for a share, each side is at its
    worst where the true score is exactly eps away from a possible one:

        max over j of P(Bin(k, g'(g(j/k) - eps)) >= j), and its mirror image;  g'(F) = F/(2-F).
    """
    if size < 1:
        return 0.0
    least = _least(size, floor)
    above = _largest(lambda j: _f1_above(size, j, tolerance), least, size)
    below = _largest(lambda j: _f1_below(size, j, tolerance), max(0, least - (least > 0)), size)
    return _raised(log_sum((above, below)))


def log_f1_tail_from(size: int, tolerance: float, floor: float | None = None) -> float:
    """Return a bound on `log_f1_tail` of this size and all larger ones.

    Without a floor the tail falls. With one it ripples: it is largest where the least number of
    true positives that is not below the floor is closest to it. Such sizes come back with a period,
    and each time the tail is smaller.
    """
    if floor is None or size < 1:
        return log_f1_tail(size, tolerance, floor)
    least = _least(size, floor)
    share = _positives(floor)
    count = min(share.numerator, _MOST_JUMPS)
    hits = range(least, least + count)
    sizes = np.array([float(math.floor(j / share)) for j in hits])
    edge = np.array([float(j) for j in hits])
    above = _largest(lambda j: _f1_above(size, j, tolerance), least, size)
    below = _largest(lambda j: _f1_below(size, j, tolerance), max(0, least - 1), size)
    above = max(above, float(_f1_above(sizes, edge, tolerance).max()))
    below = max(below, float(_f1_below(sizes, edge - 1, tolerance).max()))
    return _raised(log_sum((above, below)))


def log_average_tail(size: int, tolerance: float, weights: Sequence[Fraction]) -> float:
    """Return the tail of a weighted average of shares, each among `size` examples of one class.

    Chernoff's bound, on both sides, for n examples of each class and any l > 0:

        exp(-l eps + sum over s of n phi(l w_s / n)),   phi(h) = sup over p of ln E exp(h (X - p)),

    X being 1 with probability p. With phi(h) <= h^2/8 it is Hoeffding's bound, whose l is taken.
    """
    return log_average(tolerance, [(weight, size, 1) for weight in weights])


def log_class_average_tail(size: int, tolerance: float, classes: int) -> float:
    """Return the same where all classes weigh the same, however many there are."""
    return log_average(tolerance, [(Fraction(1, classes), size, classes)])


def log_average(tolerance: float, parts: Sequence[tuple[Fraction, Fraction | int, int]]) -> float:
    """Return the tail; `parts` are weights, with examples of each and how many classes have it."""
    if min(size for _, size, _ in parts) <= 0:
        return 0.0
    spread = float(sum(count * weight * weight / size for weight, size, count in parts))
    slope = 4 * tolerance / spread
    terms = (
        count * float(size) * _log_moment(slope * float(weight / size))
        for weight, size, count in parts
    )
    hoeffding = -2 * tolerance**2 / spread
    return _raised(math.log(2) + min(hoeffding, math.fsum(terms) - slope * tolerance))


_MOST_EXPONENT = 700.0
"""Beyond 709, e^h is no number any more."""


def _log_moment(h: float) -> float:
    """Return the largest ln(1 - p + p e^h) - h p over p."""
    if h < 0.01:
        return h * h / 8
    if h > _MOST_EXPONENT:  # ln(e^h - 1) = h, to more digits than a number has
        return h - 1 - math.log(h)
    grown = math.expm1(h)
    p = 1 / h - 1 / grown
    return math.log1p(p * grown) - h * p


CURVE_DISTANCE = (
    "the distance of its true ROC curve from that on the validation set (the largest difference of "
    "a rate, over all thresholds)"
)
"""What a meter of ROC curves tells in bands, as part of a sentence."""


def curve_promise(tolerance: str) -> str:
    """Say what holds of each curve, as the beginning of a sentence."""
    return (
        "at every threshold, each model's rates of true and false positives on the test set are "
        f"within {tolerance} of its true ones"
    )


def log_curve_tail(size: int, tolerance: float) -> float:
    """Return the tail of a whole ROC curve, `size` examples of each class.

    The inequality of Dvoretzky, Kiefer and Wolfowitz with Massart's constant, once for each class:
    true and false positive rates are within eps at all thresholds together. So is, then, the
    distance of the curve from any fixed one, such as that of the model on the validation set.
    """
    if size < 1:
        return 0.0
    return _raised(math.log(4) - 2 * tolerance**2 * size)


def _positives(floor: float) -> Fraction:
    """Return the share of true positives, J, at which F1 is the floor."""
    return as_written(floor) / (2 - as_written(floor))


def _least(size: int, floor: float | None) -> int:
    """Return the fewest true positives of a score that is not below the floor."""
    return 0 if floor is None else math.ceil(size * _positives(floor))


def _f1_above(size: float | Floats, hits: Floats, tolerance: float) -> Floats:
    """Return log P(Bin(k, p) >= j) where the score of p is eps below that of j/k."""
    score = 2 * hits / (size + hits) - tolerance
    mean = size * score / (2 - score)
    return _log_tails(size, hits, mean, score > 0)


def _f1_below(size: float | Floats, hits: Floats, tolerance: float) -> Floats:
    """Return log P(Bin(k, p) <= j) where the score of p is eps above that of j/k."""
    score = 2 * hits / (size + hits) + tolerance
    mean = size * (2 - 2 * score) / (2 - score)
    return _log_tails(size, size - hits, mean, (score < 1) & (hits >= 0))


def _log_tails(
    size: float | Floats, hits: Floats, mean: Floats, possible: NDArray[np.bool]
) -> Floats:
    sizes = np.broadcast_to(np.asarray(size, dtype=np.float64), hits.shape)
    found = np.full(len(hits), -np.inf)
    if possible.any():
        log_pmf, ratio = tail_and_ratio(sizes[possible], hits[possible], mean[possible])
        found[possible] = log_pmf + np.log(ratio)
    return found


def _largest(values: Callable[[Floats], Floats], low: int, high: int) -> float:
    """Return the largest value over low <= j <= high, of a function with one hump."""
    best = -math.inf
    while True:
        step = max(1, (high - low) // _WIDTH)
        tried = np.append(np.arange(low, high, step, dtype=np.float64), float(high))
        found = values(tried)
        at = int(found.argmax())
        best = max(best, float(found[at]))
        if step == 1:
            return best
        low, high = int(tried[max(at - 1, 0)]), int(tried[min(at + 1, len(tried) - 1)])


def _raised(value: float) -> float:
    return min(0.0, value + _MARGIN * (1 + abs(value))) if value > -math.inf else value
