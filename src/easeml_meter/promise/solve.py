"""The one inequality, and what is solved from it: labels, answers, tolerance.

    sum over stages and claims of  COUNT x TAIL  <=  delta

Every search is checked against it before it returns, and anybody may ask a server for a plan: what
would take more than a moment is refused before anything is summed.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple, TypeVar

import msgspec

from easeml_meter.errors import InvalidInput, invalid
from easeml_meter.promise import proofs
from easeml_meter.promise.alarm import Alarm, labels_for, least_margin
from easeml_meter.promise.budgets import MOST_STEPS, Memory, Reverts, Steps
from easeml_meter.promise.claims import Within
from easeml_meter.promise.closing import Closing, Shares
from easeml_meter.promise.gap import Gap
from easeml_meter.promise.meter import Meter
from easeml_meter.promise.numbers.plain import log_kl, log_sum
from easeml_meter.promise.numbers.rounding import at_most
from easeml_meter.promise.renewals import EveryStep, Fresh, TopUp, Window
from easeml_meter.promise.samples import Clusters, OnDemand, Rows
from easeml_meter.promise.shapes import Climb, Shape, log_of
from easeml_meter.promise.teams import Teams

MOST_LABELS = 10**15
_MOST_WORK = 200_000.0
"""Rows that one tail may sum over; a plan takes a dozen."""
_LOST = 60.0
"""A term that is so much smaller, in logarithms, changes no digit of a sum of doubles."""
_SMALLEST = Fraction(1, 10**6)
"""A smaller tolerance takes more than the labels that any meter can have."""


class Term(NamedTuple):
    """ln of how many events there are, and what is false in each of them; stage 1: topped up."""

    stage: int
    log_count: float
    clauses: tuple[Any, ...]


Terms = Callable[[Meter, int | None], Sequence[Term]]
"""How a meter is counted, as if so many bands of a gap were possible."""


def terms(meter: Meter, possible: int | None = None) -> Sequence[Term]:
    """Count the consistent histories of a meter."""
    return counted(meter, meter.shape_of(possible), meter.asked.claims(meter.sample.measured))


def counted(meter: Meter, shape: Shape, claims: Sequence[tuple[Any, ...]]) -> Sequence[Term]:
    """Return a term for each stage and claim: heights that promise the same have one."""
    found: dict[tuple[int, int], list[float]] = {}
    for (stage, top), count in proofs.log_counts(shape, meter.counted, meter.renewal).items():
        found.setdefault((stage, min(top, len(claims) - 1)), []).append(count)
    return [Term(stage, log_sum(counts), claims[claim]) for (stage, claim), counts in found.items()]


def log_count(meter: Meter, stage: int = 0, terms: Terms = terms) -> float:
    """Return ln of how many events share delta; 0: levels share it, whatever the size is."""
    if meter.question.form == "level" and not _planned_by_tail(meter):
        return 0.0
    return log_sum([term.log_count for term in terms(meter, None) if term.stage == stage])


def _planned_by_tail(meter: Meter) -> bool:
    return all(
        proofs.has_tail(claim, meter.sample, meter.renewal)
        for clauses in meter.asked.claims(meter.sample.measured)
        for claim in clauses
    )


def log_failure(
    meter: Meter, size: int, stage: int = 0, terms: Sequence[Term] | Terms = terms
) -> float:
    """Return ln of the sum over trees and claims of count times tail, of this size or any larger.

    `size` is in the unit of the plan: of one batch in a window, of all steps where each has rows of
    its own. A stage after a top-up is a sum of its own.
    """
    if isinstance(meter.question, Alarm):
        return log_of(meter.delta) - 1e-9 if size >= least_labels(meter) else 0.0
    if isinstance(meter.renewal, Window):
        size *= meter.renewal.window
    if _shares_size(meter):
        size //= _steps_of(meter)
    logs: list[float] = []
    top = -math.inf
    for term in terms(meter, None) if callable(terms) else terms:
        if term.stage != stage:
            continue
        log = term.log_count + _rough(meter, term.clauses, size)
        if log >= top - _LOST:
            log = term.log_count + proofs.log_tail(term.clauses, meter.sample, meter.renewal, size)
            top = max(top, log)
        logs.append(log)
    return log_sum(logs)


def _rough(meter: Meter, clauses: Sequence[Any], size: int) -> float:
    """Return a bound that is quick, and never below the tail."""
    (claim, *_), loss = clauses, meter.sample.measured
    plain = loss.score is None or loss.score.name == "auc"
    if not isinstance(claim, Within) or type(meter.sample) not in (Rows, Clusters) or not plain:
        return 0.0
    if size < 1 or claim.eps >= 1:
        return 0.0
    ceiling = None if claim.ceiling is None else float(claim.ceiling)
    return log_kl(size, float(claim.eps * (1 - proofs.MARGIN)), ceiling)


def _steps_of(meter: Meter) -> int:
    steps = meter.budget.steps if meter.budget is not None else 1
    return steps if isinstance(steps, int) else 1


def _shares_size(meter: Meter) -> bool:
    """Whether a size is that of all steps together, each with rows of its own."""
    return isinstance(meter.renewal, EveryStep) and not isinstance(meter.sample, OnDemand)


def _log_delta(meter: Meter) -> float:
    """Return ln of what one try at sealing may use; half of it where labels will join."""
    stages = 2 if isinstance(meter.renewal, TopUp) else 1
    return log_of(meter.delta / (meter.sample.tries * stages))


def labels(meter: Meter, stage: int = 0, terms: Terms = terms) -> int:
    """Return the smallest size that keeps the promise, and so do all larger ones.

    A meter that is topped up has half of delta for each stage; stage 1: the labels in all, then.
    """
    if isinstance(meter.question, Alarm):
        return _labels_of_alarm(meter)
    goal = _log_delta(meter)
    each = [term for term in terms(meter, None) if term.stage == stage]
    nats = log_sum([term.log_count for term in each]) - goal
    highest = proofs.enough(each[0].clauses, meter.sample, meter.renewal, nats)
    if isinstance(meter.renewal, Window):
        highest = -(-highest // meter.renewal.window)
    if _shares_size(meter):
        highest *= _steps_of(meter)
    if highest > MOST_LABELS:
        raise invalid("tolerance", _tolerance(meter), "too small: over 10^15 labels needed")
    check_work(meter, highest)
    check_work(meter, highest // 2)  # where tails may still be summed that are not up there

    def excess(size: int) -> float:
        return log_failure(meter, size, stage, each) - goal

    while excess(highest) > 0:  # a bound in closed form may be rounded where numbers are huge
        check_size(highest := 2 * highest)
    return meter.sample.rounded(smallest(excess, highest))


def _tolerance(meter: Meter) -> object:
    question = meter.question
    return float(question.tolerance[0]) if isinstance(question, Gap) else _asked(meter)


def _asked(meter: Meter) -> str:
    return str(getattr(meter.question, "ask", type(meter.question).__name__.lower()))[:200]


def check_work(meter: Meter, size: int, times: int = 1) -> None:
    """Refuse what would take more than a second or two, before anything is summed.

    A search for a tolerance looks at several `times` as many tails as one for a size, and may be
    repeated for other edges.
    """
    claims = meter.asked.claims(meter.sample.measured)
    if _shares_size(meter):
        size //= _steps_of(meter)
    if times * proofs.work(claims, meter.sample, meter.renewal, size) > _MOST_WORK:
        allowed = "too much to plan at once: ask fewer, or take one tolerance, or a larger one"
        raise invalid("question", _asked(meter), allowed)


def check_size(size: object) -> None:
    """Refuse what is no size of a test set."""
    if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= MOST_LABELS:
        raise invalid("labels", size, "a whole number from 1 to 10^15")


def steps(meter: Meter, size: int, terms: Terms = terms) -> int:
    """Return how many answers so many labels carry.

    Raises:
        InvalidInput: not even the fewest, or its answers are fixed.
    """
    budget = meter.budget
    if isinstance(budget, Teams):
        raise invalid("tenants", list(budget.teams), "they fix the steps: give the steps as well")
    if not isinstance(budget, Steps | Closing | Memory | Reverts):
        raise invalid("budget", type(budget).__name__.lower(), "its answers are no number")
    check_size(size)
    drawn = meter.sample.rounded_down(size)
    check_work(meter, drawn)
    fewest = max([1, *budget.reverts]) if isinstance(budget, Reverts) else 1
    goal = _log_delta(meter)

    def holds(count: int) -> bool:
        tried = with_steps(meter, count)
        return log_failure(tried, drawn, terms=terms) <= goal

    shape = meter.shape
    if isinstance(shape, Climb) and shape.walks and isinstance(budget, Steps | Reverts):
        found = _walked(meter, shape, drawn) if drawn else 0
    else:
        found = most(holds, fewest) if drawn else 0
    if found < fewest:
        needed = labels(with_steps(meter, fewest), terms=terms)
        few = f"too few for {counted_steps(fewest)}: {needed:,} needed"
        raise invalid(meter.unit, size, few)
    return found


def with_steps(meter: Meter, count: int) -> Meter:
    """Return a meter with so many answers."""
    if count == _steps_of(meter):
        return meter
    budget: Any = meter.budget
    return msgspec.structs.replace(meter, budget=msgspec.structs.replace(budget, steps=count))


def _walked(meter: Meter, shape: Climb, size: int) -> int:
    """Return the most answers of a shape that is counted step by step."""
    undone = meter.budget.undone if isinstance(meter.budget, Reverts) else ()
    claims = meter.asked.claims(meter.sample.measured)
    tails: dict[int, float] = {}
    for at, clauses in enumerate(claims):
        tails[at] = proofs.log_tail(clauses, meter.sample, meter.renewal, size)
    totals: Counter[int] = Counter()
    for depth, layer in enumerate(itertools.islice(shape.layers(), max(undone, default=-1) + 1)):
        for _ in range(undone.count(depth)):
            totals.update(layer)
    found, longest = 0, proofs.longest_walk(shape)
    for kept, layer in enumerate(itertools.islice(shape.layers(), longest), 1):
        totals.update(layer)
        logs = shape.logs(totals).items()
        failure = log_sum([count + tails[min(top, len(tails) - 1)] for top, count in logs])
        if failure > _log_delta(meter):
            break
        found = kept + len(undone)
    return found


def most(holds: Callable[[int], bool], first: int) -> int:
    """Return the largest number of steps from `first` on for which something holds; 0 for none.

    Doubling, then halving: more steps are never safer, so the last one that holds is the most.
    """
    if not holds(first):
        return 0
    found, above = first, first + 1
    while above <= MOST_STEPS and _may_be_asked(holds, above):
        found, above = above, 2 * above
    above = min(above, MOST_STEPS + 1)
    while above - found > 1:
        middle = (found + above) // 2
        found, above = (middle, above) if _may_be_asked(holds, middle) else (found, middle)
    return found


def _may_be_asked(holds: Callable[[int], bool], count: int) -> bool:
    try:
        return holds(count)
    except InvalidInput:  # so many are not counted
        return False


def counted_steps(count: int) -> str:
    """Name a number of steps."""
    return "one step" if count == 1 else f"{count:,} steps"


_LARGEST = 1 - 1e-9
"""Up to here the first tolerance is searched; a later band may promise nothing."""
_MOST_TOLERANCE = 1 - 1e-12


def tolerance(meter: Meter, size: int, terms: Terms = terms) -> Meter:
    """Return the meter with the smallest tolerances, in the ratios of its own, for so many labels.

    Larger tolerances reach over more bands, which more histories can tell of. So they are searched
    for one number of possible bands; if they reach over more than that, for this larger one.

    Raises:
        InvalidInput: there are none, or the question has no tolerance to look for.
    """
    check_size(size)
    question = meter.question
    if not isinstance(question, Gap):
        allowed = "it has its own tolerance, and labels say how many steps they carry"
        raise invalid("question", _asked(meter), allowed)
    if not (drawn := meter.sample.rounded_down(size)):
        fewest = meter.sample.rounded(1)
        raise invalid("labels", size, f"too few: test sets have {fewest:,} or more")
    check_work(meter, drawn, times=5)
    search = _Tolerances(meter, question, drawn, terms)
    possible = question.scaled(_SMALLEST / question.tolerance[0]).possible
    while (factor := search.least(possible)) is not None:
        # Six digits read better. They are all but always true, as a larger tolerance is easier;
        # where they are not, or reach over one band more, what was found is taken itself.
        for digits in (6, 15):
            found = search.rounded(factor, digits)
            reached = found.possible
            if reached <= possible and search.holds(found, possible):
                return msgspec.structs.replace(meter, question=found)
        possible = max(possible + 1, reached)
    few = f"too few for {counted_steps(_steps_of(meter))} at any tolerance"
    raise invalid("labels", size, few)


class _Tolerances:
    """Tolerances of one meter at one size: counts of fixed edges do not change with them."""

    def __init__(self, meter: Meter, question: Gap, size: int, terms: Terms) -> None:
        self._meter, self._question, self._size, self._terms = meter, question, size, terms
        self._goal = _log_delta(meter)
        self._known: dict[int, Sequence[Term]] = {}

    def holds(self, question: Gap, possible: int) -> bool:
        """Whether the inequality holds for this size and all larger ones."""
        meter = msgspec.structs.replace(self._meter, question=question)
        return log_failure(meter, self._size, 0, self._terms(meter, possible)) <= self._goal

    def rounded(self, factor: float, digits: int) -> Gap:
        """Return the question with its tolerances times a factor, rounded up."""
        first, *others = (
            Fraction(at_most(float(eps) * factor, digits)) for eps in self._question.tolerance
        )
        return self._with([min(first, Fraction(repr(_MOST_TOLERANCE))), *others])

    def _with(self, tolerances: Sequence[Fraction]) -> Gap:
        return msgspec.structs.replace(self._question, tolerance=tuple(tolerances))

    def least(self, possible: int) -> float | None:
        """Return by what to multiply the tolerances if so many bands are possible."""
        question, base = self._question, float(self._question.tolerance[0])
        terms = self._terms(self._meter, possible)
        ratios = {eps: float(eps) for eps in question.tolerance}

        def holds(factor: float) -> bool:
            if base * factor < _SMALLEST:
                return False
            if question.drawn is not None:
                scaled = self._with([Fraction(ratios[eps] * factor) for eps in question.tolerance])
                return self.holds(scaled, possible)
            each = [
                term._replace(
                    clauses=tuple(
                        _scaled(claim, Fraction(ratios.get(claim.eps, float(claim.eps)) * factor))
                        for claim in term.clauses
                    )
                )
                for term in terms
            ]
            return log_failure(self._meter, self._size, 0, each) <= self._goal

        low, high = 0.0, _LARGEST / base
        if not holds(high):
            return None
        while high - low > 1e-7 * high:
            middle = (low + high) / 2
            low, high = (low, middle) if holds(middle) else (middle, high)
        return high


Claim = TypeVar("Claim")


def _scaled(claim: Claim, eps: Fraction) -> Claim:
    return dataclasses.replace(claim, eps=eps)  # type: ignore[type-var]


def follows(meter: Meter) -> bool:
    """Whether the plan follows the rows delivered: a gap in bands, on plain test sets."""
    plain = type(meter.sample) in (Rows, Clusters) and meter.sample.measured.score is None
    return isinstance(meter.question, Gap) and plain and type(meter.renewal) is Fresh


def at_sealing(meter: Meter, rows: int, terms: Terms = terms) -> Meter:
    """Return the meter with the tolerance that so many rows carry; edges and answers stay.

    More rows than planned are left to hand-overs between teams that are counted apart, and where
    a ceiling merges bands, as which answers are told depends on the tolerance there.

    Raises:
        InvalidInput: so few carry none.
    """
    question = meter.question
    planned = labels(meter, terms=terms) if follows(meter) else rows
    if rows == planned or not isinstance(question, Gap):
        return meter
    apart = isinstance(meter.budget, Teams) and not meter.budget.handover
    if rows > planned and (apart or question.merges):
        return meter
    try:
        found = tolerance(meter, rows, terms)
    except InvalidInput:  # too much work, where rows are many
        if rows < planned:
            raise
        return meter
    if not isinstance(found.question, Gap):
        raise AssertionError("a gap stays one")
    # What is found was rounded up, which may be more than one row more gives.
    pairs = zip(found.question.tolerance, question.tolerance, strict=True)
    return meter if rows > planned and any(eps > own for eps, own in pairs) else found


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


def least_labels(meter: Meter) -> int:
    """Return the fewest labels of which 0 errors would be ok at the first answer of an alarm."""
    question = meter.question
    if not isinstance(question, Alarm):
        raise AssertionError("only an alarm has a g")
    level = _first_level(meter)
    if question.g is not None:
        claim = min(float(question.expects + question.g[0]), 0.99)
        return math.ceil(math.log(float(level)) / math.log1p(-claim))
    size = 1
    while least_margin(size, max(1, size // 2), 0, level, question.expects) is None:
        size += 1
    return size


def _first_level(meter: Meter) -> Fraction:
    budget, delta = meter.budget, meter.delta / meter.sample.tries
    if not isinstance(budget, Teams | Closing | Shares):
        raise AssertionError("levels of an alarm follow its answers")
    return delta * budget.level(budget.of(1).start if isinstance(budget, Teams) else budget.start)


def _labels_of_alarm(meter: Meter) -> int:
    """Return the labels there are, or those from which on g is what is accepted."""
    question = meter.question
    if not isinstance(question, Alarm):
        raise AssertionError("only an alarm has a g")
    given = meter.sample.labels
    if given is not None:
        if given < (least := least_labels(meter)):
            raise invalid("labels", given, f"too few for an alarm: {least} needed")
        return given
    if question.g is None:
        raise invalid("labels", None, 'an alarm needs the labels there are, or "g"')
    found = labels_for(question.g[0], _first_level(meter), 0, question.expects)
    if found is None:
        small = "too small: the noise of the validation set exceeds it"
        raise invalid("g", float(question.g[0]), small)
    return found
