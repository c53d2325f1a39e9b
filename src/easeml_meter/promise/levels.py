"""Levels that answers share alike, and what a reading at its level says of the true loss.

A test loss is told to lie in a band. The true one lies within the tolerance of it, as planned; and
within the exact interval (Clopper and Pearson) of each end at the size that was delivered, each
side at half of the level. Together they are no longer than two tolerances, so nothing more is
counted. (docs/mathematics.md, "Levels".)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

from easeml_meter.promise.budgets import Memory
from easeml_meter.promise.gap import Gap
from easeml_meter.promise.meter import Meter
from easeml_meter.promise.numbers.plain import log_sum, upper_end
from easeml_meter.promise.proofs import log_counts, log_tail, runs_of
from easeml_meter.promise.renewals import EveryStep, TopUp, Window
from easeml_meter.promise.samples import Rows, Strata
from easeml_meter.promise.shapes import Verdict
from easeml_meter.promise.teams import Teams

_OUTWARD = Fraction(1, 10**12)
"""Ends are found with floats, to about 1e-13: they are moved outward by more than that."""


@lru_cache(maxsize=256)
def level_of_all(meter: Meter, stage: int = 0) -> Fraction:
    """Return the level that all answers of a budget have: delta by the number of its events.

    Before and after a top-up, half of delta is there for each.
    """
    stages = 2 if isinstance(meter.renewal, TopUp) else 1
    delta = meter.delta / (meter.sample.tries * stages)
    if isinstance(meter.shape, Verdict) and not isinstance(meter.budget, Memory):
        runs = [run for run in runs_of(meter.counted, meter.renewal) if run.stage == stage]
        return delta / sum(run.times << run.last for run in runs)
    counts = log_counts(meter.shape, meter.counted, meter.renewal)
    nats = log_sum([count for at, count in counts.items() if at[0] == stage])
    doubled = math.floor(nats / math.log(2))  # of any size, and rounded up
    count = Fraction(math.exp(nats - doubled * math.log(2)) * (1 + 1e-9)) * Fraction(2) ** doubled
    return delta / count


def log_first_tail(meter: Meter, size: int) -> float:
    """Return ln of the largest tail of an answer: that of the smallest tolerance."""
    claims = meter.asked.claims(meter.sample.measured)
    return log_tail(claims[0], meter.sample, meter.renewal, size)


def widened(low: Fraction, high: Fraction, eps: Fraction) -> tuple[Fraction, Fraction]:
    """Return the ends of the true loss that the tolerance alone leaves."""
    return low - eps, high + eps


@lru_cache(maxsize=256)
def ends_of(
    meter: Meter, rows: int, stage: int = 0
) -> Callable[[Fraction, Fraction, Fraction], tuple[Fraction, Fraction]]:
    """Return what the ends of a test loss say of the true one, on a test set of so many rows."""
    question, sample = meter.question, meter.sample
    if rows < 1:
        return widened
    alike = type(sample) is Rows and not isinstance(meter.renewal, Window)
    proved = type(sample) is Rows or (isinstance(sample, Strata) and sample.proportional)
    if not isinstance(question, Gap) or isinstance(meter.renewal, EveryStep):
        return widened
    one = len(question.tolerance) == 1 or not question.worst
    if not (proved and one and question.limit is None and sample.measured.zero_one):
        return widened
    here = level_of_all(meter, stage)
    if isinstance(meter.budget, Teams) and not meter.budget.handover:
        # What is left of delta is for hand-overs: no more than the tolerance takes.
        here = min(here, Fraction(math.exp(log_first_tail(meter, rows))))
    side = float(here) / 2 * (1 - 1e-12)
    if side < 1e-250:
        return widened

    def ends(low: Fraction, high: Fraction, eps: Fraction) -> tuple[Fraction, Fraction]:
        least = min(rows, max(0, math.ceil(low * rows)))
        most = max(0, min(rows, math.floor(high * rows)))
        lower, upper = 1 - _upper(rows, rows - least, side), _upper(rows, most, side)
        if not alike:  # Hoeffding 1956 compares tails that begin one row away from the mean
            lower, upper = (
                min(lower, Fraction(least - 1, rows)),
                max(upper, Fraction(most + 1, rows)),
            )
        return max(low - eps, lower), min(high + eps, upper)

    return ends


@lru_cache(maxsize=4096)
def _upper(rows: int, errors: int, side: float) -> Fraction:
    """Return the largest true loss at which so few errors are no rarer than `side`, or more."""
    return min(Fraction(1), Fraction(upper_end(rows, errors, side)) + _OUTWARD)
