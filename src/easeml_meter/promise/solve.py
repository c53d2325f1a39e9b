"""The one inequality, and what is solved from it: labels, answers, tolerance."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import msgspec

from easeml_meter.errors import invalid
from easeml_meter.promise.budgets import MOST_STEPS, Steps
from easeml_meter.promise.closing import Closing
from easeml_meter.promise.condition import Change
from easeml_meter.promise.gap import Gap
from easeml_meter.promise.meter import Meter
from easeml_meter.promise.numbers.plain import log_sum
from easeml_meter.promise.proofs import log_counts, log_tail
from easeml_meter.promise.renewals import EveryStep, TopUp, Window
from easeml_meter.promise.samples import Judge, Strata
from easeml_meter.promise.shapes import log_of

_MOST_LABELS = 10**15


def log_failure(meter: Meter, size: int, more: int | None = 0) -> float:
    """Return ln of the sum over trees and claims of count times tail.

    `size` is in the unit of the sample: of one batch in a window, of all steps where each has rows
    of its own. After a top-up `more` have joined; None: the second stage is left out.
    """
    sizes = {0: size, 1: size + (more or 0)}
    if isinstance(meter.renewal, Window):
        sizes[0] = size * meter.renewal.window
    if isinstance(meter.renewal, EveryStep):
        sizes[0] = size // meter.budget.steps  # type: ignore[operator]
    counts = log_counts(meter.shape, meter.budget, meter.renewal)
    claims = meter.question.claims(meter.sample.measured)
    terms = []
    for (stage, claim), count in counts.items():
        if stage and more is None:
            continue
        tail = log_tail(
            claims[min(claim, len(claims) - 1)], meter.sample, meter.renewal, sizes[stage]
        )
        terms.append(count + tail)
    return log_sum(terms)


def _log_delta(meter: Meter, stages: int = 1) -> float:
    return log_of(meter.delta / (meter.sample.tries * stages))


def labels(meter: Meter) -> int:
    """Return the smallest size that keeps the promise, and so do all larger ones.

    A meter that is topped up is planned with half of delta for each stage.
    """
    if isinstance(meter.sample, Strata) and meter.sample.sizes:
        return sum(meter.sample.sizes)
    stages = 2 if isinstance(meter.renewal, TopUp) else 1
    goal = _log_delta(meter, stages)
    steps = meter.budget.steps if isinstance(meter.renewal, EveryStep) else 1
    unit = steps if isinstance(steps, int) else 1
    size = _smallest(lambda n: log_failure(meter, n * unit, None) - goal)
    if _searched(meter):  # a searched tail ripples: look at what comes next
        beyond = range(size, size + size // 20, max(1, size // 500))
        while late := [n for n in beyond if log_failure(meter, n, None) > goal]:
            size = late[-1] + 1
            beyond = range(size, size + size // 20, max(1, size // 500))
    return meter.sample.rounded(size * unit)


def _searched(meter: Meter) -> bool:
    return isinstance(meter.sample, Judge) or isinstance(meter.question, Change)


def labels_joined(meter: Meter, size: int) -> int:
    """Return how many labels there must be in all once fresh ones have joined so many."""
    goal = _log_delta(meter)
    more = _smallest(lambda n: log_failure(meter, size, n) - goal)
    return meter.sample.rounded(size + more)


def steps(meter: Meter, size: int) -> int:
    """Return how many answers so many labels carry; 0: not even one."""
    budget = meter.budget
    if not isinstance(budget, Steps | Closing):
        raise invalid(
            "budget", type(budget).__name__.lower(), "its answers are fixed: ask for labels"
        )

    def holds(count: int) -> bool:
        tried = msgspec.structs.replace(meter, budget=msgspec.structs.replace(budget, steps=count))
        return log_failure(tried, size) <= _log_delta(meter)

    if not holds(1):
        return 0
    low, high = 1, 2
    while high <= MOST_STEPS and holds(high):
        low, high = high, 2 * high
    high = min(high, MOST_STEPS + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def reachable(meter: Meter, size: int) -> Meter:
    """Return the meter with the smallest tolerances, in the ratios of its own, for so many labels.

    How many bands one truth can be told as is fixed first, and taken again at what was found.
    """
    question = meter.question
    if not isinstance(question, Gap):
        raise invalid("question", type(question).__name__.lower(), "no tolerance to look for")
    goal = _log_delta(meter)

    def at(factor: Fraction) -> Meter:
        return msgspec.structs.replace(meter, question=question.scaled(factor))

    low, high = Fraction(0), Fraction(999_999, 10**6) / question.tolerance[-1]
    if log_failure(at(high), size) > goal:
        raise invalid("labels", size, "too few for so many answers, whatever the tolerance is")
    while high - low > high / 10**7:
        middle = Fraction(round((low + high) / 2 * 10**12), 10**12)
        low, high = (low, middle) if log_failure(at(middle), size) <= goal else (middle, high)
    return at(
        Fraction(math.ceil(high * question.tolerance[0] * 10**6), 10**6) / question.tolerance[0]
    )


def _smallest(excess: Callable[[int], float]) -> int:
    """Return the smallest size with excess <= 0; it falls, nearly on a straight line.

    Each probe is where the line through the last two meets zero; if three of them do not shrink the
    bracket to an eighth, it is halved.
    """
    low, high = 0, 16
    before: tuple[int, float] = (0, excess(0))
    last = (high, excess(high))
    while last[1] > 0:
        if high > _MOST_LABELS:
            raise invalid("tolerance", "this one", f"more than {_MOST_LABELS:,} labels needed")
        low, before = high, last
        slope = (last[1] - before[1]) / (last[0] - before[0]) if last[0] != before[0] else 0.0
        high *= 4
        last = (high, excess(high))
    count = 0
    while high - low > 1:
        count += 1
        if count % 3 == 1:
            width = high - low
        slope = (last[1] - before[1]) / (last[0] - before[0])
        if -math.inf < slope < 0 and (count % 3 or high - low <= width / 8):
            probe = min(max(math.ceil(last[0] - last[1] / slope), low + 1), high - 1)
        else:
            probe = (low + high) // 2
        before, last = last, (probe, excess(probe))
        low, high = (low, probe) if last[1] <= 0 else (probe, high)
    return high
