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

from easeml_meter.promise.numbers import judges, scores
from easeml_meter.promise.numbers.bounds import Bound
from easeml_meter.promise.numbers.rounding import as_written
from easeml_meter.promise.numbers.tails import log_tail
from easeml_meter.spec import MeterSpec
from easeml_meter.spec.strata import stratum_shares, stratum_weights
from easeml_meter.stats import counting
from easeml_meter.stats.feedback import broken_from

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
        return log_corpus_tail(spec, labels, tolerance)
    if spec.stratified:
        return log_strata_tail(spec, labels, tolerance)
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


def log_corpus_tail(spec: MeterSpec, size: int, tolerance: float) -> float:
    """Return the tail of the score of a meter, where `size` or more of what it needs is there."""
    corpus = spec.corpus
    if corpus is None:
        raise AssertionError("a meter whose loss is an average over rows has no such tail")
    if size < 1:
        return 0.0
    if tolerance >= 1:
        return -math.inf
    if corpus.name == "auc":
        # An average of means of min(n+, n-) independent pairs (Hoeffding 1963), so bounded as one.
        return log_tail(Bound.CONVEX, size, tolerance, spec.ceiling)
    if corpus.curve:
        return scores.log_curve_tail(size, tolerance)
    if corpus.name in ("f1", "macro-f1"):
        classes = len(spec.classes) if corpus.kind.averaged else 1
        return min(0.0, scores.log_f1_tail_from(size, tolerance, spec.floor) + math.log(classes))
    if corpus.kind.averaged:
        if not corpus.weighing:
            return scores.log_class_average_tail(size, tolerance, len(spec.classes))
        return scores.log_average_tail(size, tolerance, corpus.weights(len(spec.classes)))
    return scores.log_share_tail_from(size, tolerance, spec.floor)


def enough(spec: MeterSpec, nats: float) -> int:
    """Return a size from which on `log_corpus_tail` is below -nats at the smallest tolerance.

    By Hoeffding's bound, with room for constants; the variance of F1 is up to 1.24 times that of a
    share.
    """
    rate = 2 * spec.tolerances[0] ** 2 * 0.7
    return math.ceil((nats + 4 + math.log(max(1, len(spec.classes)))) / rate) + 10


def log_strata_tail(spec: MeterSpec, labels: int, tolerance: float) -> float:
    """Return the tail of sum over s of w_s L_s, `labels` rows being allotted to strata of a meter.

    Where each stratum has n_s = n w_s rows, the loss is a mean of n independent ones that need not
    be alike. Its tails are at most those of n that are alike: exactly if n eps >= 1 (Hoeffding
    1956), in convex order always. Else it is Chernoff's bound, as for averages over classes.
    """
    if labels < 1:
        return 0.0
    if tolerance >= 1:
        return -math.inf
    if spec.tail is Bound.EXACT and labels * as_written(tolerance) < 1:
        return log_tail(Bound.HOEFFDING, labels, tolerance)
    if spec.proportional:
        return log_tail(spec.tail, labels, tolerance)
    shares = zip(stratum_weights(spec), stratum_shares(spec), strict=True)
    return scores.log_average(tolerance, [(weight, labels * share, 1) for weight, share in shares])


def strata_cost(spec: MeterSpec) -> float:
    """Return how many times as many rows Hoeffding's bound needs as for a plain sample."""
    shares = zip(stratum_weights(spec), stratum_shares(spec), strict=True)
    return float(sum(weight * weight / share for weight, share in shares))
