"""The inequality of the gap, and the search that every plan makes.

A meter is valid for n labels when

    sum over levels k of  count_k * tail(n, eps_k)  <=  delta,

with the counts of `counting` and the tails of `tails`. `core.questions.planning` asks it for the
smallest n, the largest number of steps, or the smallest tolerances.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

from easeml_meter.spec import Bound, MeterSpec
from easeml_meter.stats import counting, judges, scores
from easeml_meter.stats.feedback import broken_from
from easeml_meter.stats.tails import log_tail

MAX_STEPS = 10**9
"""Where the search for supported steps stops: nobody hands out more signals than that."""
MAX_LABELS = 10**15
_LOST = 60.0
"""A term that is so much smaller, in logarithms, changes no digit of a sum of doubles."""


def log_failure(
    spec: MeterSpec,
    labels: int,
    *,
    steps: int | None = None,
    possible: int | None = None,
    tolerances: Sequence[float] | None = None,
    tail: Callable[..., float] = log_tail,
) -> float:
    """Return the logarithm of the left side of the inequality.

    `steps`, `possible` bands and `tolerances` override what follows from the specification.
    """
    tolerances = spec.tolerances if tolerances is None else tolerances
    counts = counting.log_models(spec, steps, possible)
    known: dict[float, float] = {}
    tails: list[float] = []
    top = -math.inf
    for count, tolerance in zip(counts, tolerances, strict=False):
        if tolerance not in known:
            averaged = not spec.sized or (spec.corpus is not None and spec.corpus.name == "auc")
            if averaged and spec.tail in (Bound.EXACT, Bound.CONVEX):
                # Never below either tail, and quick: what is lost in the sum needs no more.
                eps = broken_from(spec, tolerance)
                rough = log_tail(Bound.KL, labels, eps, spec.ceiling)
                if count + rough < top - _LOST:
                    tails.append(rough)
                    continue
            known[tolerance] = _log_tail(spec, labels, tolerance, tail)
        tails.append(known[tolerance])
        top = max(top, tails[-1] + count)
    return counting.log_weighed(spec, tails, steps, possible)


def log_tails(
    spec: MeterSpec, labels: int, tail: Callable[..., float] = log_tail
) -> tuple[float, ...]:
    """Return the logarithm of the tail at the tolerance of each band."""
    known = {eps: _log_tail(spec, labels, eps, tail) for eps in spec.tolerances}
    return tuple(known[eps] for eps in spec.tolerances)


def _log_tail(spec: MeterSpec, labels: int, tolerance: float, tail: Callable[..., float]) -> float:
    tolerance = broken_from(spec, tolerance)
    if spec.corpus is not None:
        return scores.log_corpus_tail(spec, labels, tolerance)
    if spec.stratified:
        return scores.log_strata_tail(spec, labels, tolerance)
    if spec.judge_error is not None and spec.pool is not None:
        return judges.log_judged_tail(labels, tolerance, spec.judge_error, spec.pool, onwards=True)
    return tail(spec.tail, labels, tolerance, spec.ceiling, promised=spec.merges)


def smallest(excess: Callable[[int], float], highest: int) -> int:
    """Return the smallest whole number with excess <= 0; excess falls, nearly on a straight line.

    Each probe is where the line through the last two meets zero. A tail is dear, and this needs
    few of them. If three probes do not shrink the bracket to an eighth, it is halved.
    """
    low, high = 0, highest
    before, last = (low, excess(low)), (high, excess(high))
    for count in itertools.count(1):
        if high - low <= 1:
            break
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
