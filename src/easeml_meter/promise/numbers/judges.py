"""The tail of an estimate with a judge: few labels, and a judge's word on a large pool.

A model is compared with the judge on N inputs without labels, and the judge with the truth on n
labels:

    estimate(h) = mean over pool of l(h, judge) + mean over labels of (l(h, y) - l(h, judge)).

The second term is 0 wherever the judge is right, so a judge that errs on at most a share d of the
labels makes it small for all models.
"""

from __future__ import annotations

import math
from functools import lru_cache

from easeml_meter.errors import invalid
from easeml_meter.promise.numbers import differences
from easeml_meter.promise.numbers.bounds import Bound
from easeml_meter.promise.numbers.plain import log_sum
from easeml_meter.promise.numbers.rounding import as_written
from easeml_meter.promise.numbers.tails import log_tail

_SPLITS = 200
"""Ways to divide the tolerance between pool and labels that are compared."""
_LOOSER = 3.0
"""Nats by which the closed form is above the tail of the labels, more than for the pool."""


@lru_cache(maxsize=1_000)  # a search asks for the same sizes again
def log_judged_tail(
    size: int, tolerance: float, error: float, pool: int, *, onwards: bool = False
) -> float:
    """Return log(tail(N, eps1) + tail of the correction at eps2), eps1 + eps2 = eps.

    Any division is valid that does not look at the data. The one taken is best for the bounds
    in closed form. `onwards`: for so many labels or more.
    """
    if size < 1:
        return 0.0
    if tolerance >= 1:
        return -math.inf

    def closed(part: float) -> float:
        rest = differences.rate(tolerance - part, error)
        return max(-2 * pool * part**2, -size * rest - _LOOSER)

    part = min((tolerance * k / _SPLITS for k in range(1, _SPLITS)), key=closed)
    correction = differences.log_reading_tail(
        size, tolerance - part, as_written(error), onwards=onwards
    )
    return min(0.0, log_sum((log_tail(Bound.EXACT, pool, part), correction)))


def enough(tolerance: float, error: float, pool: int, nats: float) -> int:
    """Return so many labels that the tail is below exp(-nats).

    The pool gets what it needs by Hoeffding's bound, and the labels the rest.

    Raises:
        InvalidInput: the pool is too small for any number of labels.
    """
    part = math.sqrt((nats + 2) / (2 * pool))
    if part >= 0.98 * tolerance:
        least = math.ceil((nats + 2) / (2 * (0.98 * tolerance) ** 2))
        raise invalid("pool", pool, f"too small: at least {least:,} inputs needed")
    return math.ceil((nats + 2) / differences.rate(tolerance - part, error)) + 1


def work(size: int, tolerances: int = 1) -> float:
    """Return what the tails cost, in rows that are summed over: the worst place is searched.

    At larger tolerances than the first that place is far out, and the search longer.
    """
    return (10 if tolerances == 1 else 20 * tolerances) * differences.summed_rows(size)
