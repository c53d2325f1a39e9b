"""The planner: three questions to one inequality.

A meter is valid for n labels when

    sum over levels k of  count_k * tail(n, eps_k)  <=  delta,

with the counts of `counting` and the tails of `tails`. Asked for are the smallest n, the largest
number of steps, or the smallest tolerances. Every answer is checked against the inequality itself
before it is returned, so no search can loosen a guarantee.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from easeml_meter.errors import invalid
from easeml_meter.showing import Shown
from easeml_meter.spec import METERS, Bound, Count, Gap, MeterSpec, Protocol
from easeml_meter.spec.strata import whole_strata
from easeml_meter.stats import counting, judges, scores
from easeml_meter.stats.feedback import possible_bands
from easeml_meter.stats.rounding import as_written, at_least, at_most, confidence
from easeml_meter.stats.tails import log_tail, log_tail_from

MAX_STEPS = 10**9
"""Where the search for supported steps stops: nobody hands out more signals than that."""
MAX_LABELS = 10**15
COMMON_ASSUMPTIONS = (
    "the test set is an independent random sample from the distribution that matters, and "
    "developers learn nothing about it except the meter's answers",
    "the developer's own randomness is independent of the test set",
    "each prediction depends on its own row only",
)
"""What every promise of every question rests on."""
CLUSTERED = (
    "the clusters of the test set are independent random samples from the distribution that "
    "matters (the rows of one may depend on each other), none of them has rows in a validation set "
    "or an earlier test set, and developers learn nothing about them except the meter's answers"
)
"""What stands in the place of the first of them where one example is a cluster."""
STRATIFIED = (
    "the rows of each stratum of the test set are independent random samples from the stratum, as "
    "many as were planned, the weights are what the strata are to count, and developers learn "
    "nothing about the rows except the meter's answers"
)
"""The same where a test set is drawn stratum by stratum."""
BLIND_VALIDATION = "validation sets are drawn and replaced without looking at the test set"
"""What the count of consistent histories assumes, and the count of all histories does not."""
DRAWN_EDGES = "the band edges are drawn by the meter, secretly and independently of the test set"
TOPPED_UP = (
    "the labels that top up a test set are a random sample of the same distribution, independent "
    "of it; whether, when and how many of them join depends on nothing but the answers"
)
PUBLIC_INPUTS = "no model treats the test inputs, which are public, specially (about people)"
_LOST = 60.0
"""A term that is so much smaller, in logarithms, changes no digit of a sum of doubles."""


@dataclass(frozen=True, repr=False)
class Plan(Shown):
    """An answer of the planner, with what it rests on."""

    spec: MeterSpec
    labels: int
    """Labels in the hidden test set; with the resampling protocol, in all of them together.

    Of a score of the whole test set, the rows to be drawn, if the meter says how many; else what it
    is counted of, `size`. Where one example is a cluster, the clusters.
    """
    failure_probability: float
    """Reached at `labels` in the promised steps, whichever try at sealing they follow, and in those
    after a top-up: never above the session's delta."""
    log_models: float
    """Natural logarithm of how many models (or, as published, pairs) are guarded against."""
    assumptions: tuple[str, ...]
    counted: int | None = None
    """Of a score such as recall, the positives that the promise is counted of."""

    @property
    def size(self) -> int:
        """What the promise is counted of, in the plan's own unit."""
        return self.labels if self.counted is None else self.counted

    @property
    def unit(self) -> str:
        """What the size counts."""
        return self.spec.unit if self.spec.corpus is None else self.spec.corpus.kind.unit

    @property
    def counting(self) -> str:
        """What was counted."""
        if self.spec.published:
            return "pairs of model and signal"
        return "distinct models" if self.spec.count is Count.ALL else "consistent models"

    @property
    def elastic(self) -> dict[str, int] | None:
        """Labels for the promised steps with the elastic budget and without; None if plain."""
        if not self.spec.elastic:
            return None
        plain = required_labels(self.spec.replace(elastic=False))
        return {"labels": required_labels(self.spec).labels, "plain_labels": plain.labels}

    @property
    def top_up(self) -> dict[str, int] | None:
        """Labels in all, and further steps, once fresh labels have joined; None: none will."""
        if self.spec.top_up is None:
            return None
        labels = required_labels(self.spec.of_test_set(2)).labels
        return {"steps": self.spec.top_up, "labels": labels, "more_labels": labels - self.labels}

    @property
    def promise(self) -> str:
        """Say in one sentence what is promised."""
        spec = self.spec
        steps = f"all {spec.steps:,} steps together"
        if spec.top_up is not None:
            steps = f"all {spec.steps:,} steps and {spec.top_up:,} more after the top-up together"
        if spec.elastic:
            promised = "1 is" if spec.steps == 1 else f"{spec.steps:,} are"
            steps = f"all steps together ({promised} promised, more if the answers are predictable)"
        return f"With probability at least {confidence(spec)}, in {steps}, {promised_of(spec)}"

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain data for programs."""
        spec = self.spec
        return {
            "labels": self.labels,
            "size": self.size,
            "unit": self.unit,
            "steps": spec.steps,
            "signals": spec.signals if spec.drawn is None else None,
            "edges": list(spec.edges) if spec.drawn is None else None,
            "drawn": spec.drawn,
            "tolerances": list(spec.tolerances),
            "delta": spec.delta,
            "failure_probability": self.failure_probability,
            "protocol": str(spec.protocol),
            "gap": str(spec.gap),
            "bound": str(spec.tail),
            "counting": self.counting,
            "log10_models": self.log_models / math.log(10),
            "ceiling": spec.ceiling,
            "floor": spec.floor,
            "tries": spec.tries,
            "variance_ceiling": spec.variance_ceiling,
            "above": spec.above,
            "sticky": spec.sticky,
            "elastic": self.elastic,
            "top_up": self.top_up,
            "strata": spec.stratum_rows(self.labels) if spec.stratified else None,
            "promise": self.promise,
            "assumptions": list(self.assumptions),
        }


def required_labels(spec: MeterSpec) -> Plan:
    """Return the smallest n such that a test set of n labels, or of any more, keeps the promise."""
    _check_gap(spec)
    size = fewest_labels(spec)
    return _checked_plan(spec, size * _test_sets(spec))


def fewest_labels(spec: MeterSpec, possible: int | None = None) -> int:
    """Return the smallest test set from which on the promise holds, if so many bands can come."""
    budget = _log_budget(spec)

    def excess(labels: int) -> float:
        """Return how far the inequality is missed at this size or a larger one; <= 0 holds."""
        return log_failure(spec, labels, possible=possible, tail=log_tail_from) - budget

    # Hoeffding's bound at the smallest tolerance, for everything counted, is never below another.
    total = counting.log_sum(counting.log_models(spec, possible=possible))
    # That bound is raised by its rounding error, so the search begins a little above it.
    needed = (total + math.log(2) - budget) * (1 + 1e-11) + 1e-11
    highest = math.ceil(needed / (2 * spec.tolerances[0] ** 2)) + 1
    if spec.corpus is not None:
        highest = scores.enough(spec, needed)
    elif spec.stratified:
        highest = whole_strata(spec, math.ceil(highest * scores.strata_cost(spec)) + 1)
    elif spec.judge_error is not None and spec.pool is not None:
        # As `core.questions.judge` begins: its tail is jagged, and both are to find one size.
        highest = judges.enough(spec.tolerances[0], spec.judge_error, spec.pool, total - budget)
        by_band = spec.protocol is Protocol.INCREMENTAL
        judges.check_work(highest, len(set(spec.tolerances)) if by_band else 1)
    if highest > MAX_LABELS:
        raise invalid("tolerance", spec.tolerances[0], "too small: over 10^15 labels needed")
    found = smallest(excess, highest)
    return whole_strata(spec, found) if spec.stratified and not spec.sizes else found


def supported_steps(spec: MeterSpec, labels: int) -> Plan:
    """Return the largest number of steps that `labels` labels support (spec.steps is ignored)."""
    _check_labels(labels)
    _check_gap(spec)
    if spec.tenants:
        raise invalid("tenants", list(spec.tenants), "they fix the steps: give the steps as well")
    first = max([1, spec.masked_reverts + 1, *spec.reverts])
    budget = _log_budget(spec)

    def holds(steps: int) -> bool:
        size = labels // _test_sets(spec, steps)
        return log_failure(spec, size, steps=steps, tail=log_tail_from) <= budget

    if not holds(first):
        needed = required_labels(spec.replace(steps=first)).labels
        raise invalid("labels", labels, f"too few for {_steps(first)}: {needed:,} needed")
    most = first
    if counting.has_closed_form(spec):
        above = first + 1
        while above <= MAX_STEPS and holds(above):
            most, above = above, 2 * above
        above = min(above, MAX_STEPS + 1)
        while above - most > 1:
            middle = (most + above) // 2
            most, above = (middle, above) if holds(middle) else (most, middle)
    else:
        for steps, failure in counting.walk(spec, log_tails(spec, labels, log_tail_from)):
            if steps > most:
                if failure > budget:
                    break
                most = steps
    return _checked_plan(spec.replace(steps=most), labels)


def reachable_tolerance(spec: MeterSpec, labels: int) -> Plan:
    """Return the smallest tolerances, in the ratios of spec's, that `labels` labels support."""
    _check_labels(labels)
    _check_gap(spec)
    # Larger tolerances reach over more bands, so each number of possible bands is tried in turn.
    for possible in range(1, max(2, spec.signals) + 1):
        found = _reachable(spec, labels, possible)
        if found is not None and possible_bands(found) <= possible:
            return _checked_plan(found, labels)
    raise invalid("labels", labels, f"too few for {_steps(spec.steps)} at any tolerance")


def _reachable(spec: MeterSpec, labels: int, possible: int) -> MeterSpec | None:
    """Return a meter with the smallest tolerances if so many bands are possible, or None."""
    budget = _log_budget(spec)
    size = labels // _test_sets(spec)

    def scaled(factor: float) -> tuple[float, ...]:
        return tuple(eps * factor for eps in spec.tolerances)

    def holds(factor: float) -> bool:
        tolerances = scaled(factor)
        if spec.drawn is not None:  # how many drawn edges a tolerance reaches depends on it
            return log_failure(spec.with_tolerances(tolerances), size, tail=log_tail_from) <= budget
        given: dict[str, Any] = {"possible": possible, "tolerances": tolerances}
        return log_failure(spec, size, **given, tail=log_tail_from) <= budget

    too_large = 1 / spec.tolerances[0]  # a later band may promise nothing
    low, high = 0.0, too_large * (1 - 1e-9)
    if not holds(high):
        return None
    while high - low > 1e-7 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    # Six digits, rounded up, read better and are still true: a larger tolerance is easier.
    first, *others = (float(at_most(eps)) for eps in scaled(high))
    rounded = (min(first, 1 - 1e-12), *others)
    return spec.with_tolerances(rounded)


def assumptions_of(spec: MeterSpec) -> tuple[str, ...]:
    """List, in plain words, everything the promise rests on."""
    found = list(COMMON_ASSUMPTIONS)
    if spec.clusters:
        found[0] = CLUSTERED
    if spec.stratified:
        found[0] = STRATIFIED
    if spec.models:
        found[-1] += ", which is checked where the meter runs the model"
    if spec.sized:
        found += _sealing_assumptions(spec)
    elif spec.tail is Bound.EXACT:
        found.append("the loss of each example is 0 or 1")
    elif spec.clusters:
        found.append("the loss of a cluster, the mean loss of its rows, lies between 0 and 1")
    else:
        found.append("the loss of each example lies between 0 and 1")
    if spec.count is Count.CONSISTENT and spec.protocol in METERS and not spec.published:
        found.append(BLIND_VALIDATION)
    if spec.drawn is not None:
        found.append(DRAWN_EDGES)
    if spec.stages > 1:
        found.append(TOPPED_UP)
    if spec.inputs == "public":
        found.append(PUBLIC_INPUTS)
    if spec.protocol is Protocol.INDEPENDENT:
        found.append("no model depends on any answer of the meter (about people: nobody may look)")
    if spec.protocol is Protocol.RESAMPLING:
        found.append("every step is measured on a fresh test set that no earlier answer came from")
    if spec.tenants and not spec.handover:
        found.append(
            "no team's models depend on another team's answers, nor does anyone replace the "
            "validation set, which all teams share, because of an answer (about people)"
        )
    if spec.reverts:
        found.append(
            "the steps to revert are fixed in advance, and nothing learnt from a reverted step is "
            "used afterwards (about people)"
        )
    if spec.memory is not None:
        found.append(f"each model depends on at most the last {spec.memory} answers (about people)")
    if spec.elastic:
        found.append(
            "how the elastic budget weighs histories of answers is fixed before a label is seen, "
            "and refusals depend on the answers only"
        )
    found.append(sessions_words(spec))
    if spec.protocol is Protocol.INCREMENTAL and len(set(spec.tolerances)) > 1:
        found.append("once the meter has climbed to a band, later models get only its tolerance")
    return tuple(found)


def _sealing_assumptions(spec: MeterSpec) -> list[str]:
    """Say what a check at sealing rests on: the size of the sample was no choice."""
    if not spec.fixes_rows:
        return []
    tries = "once" if spec.tries == 1 else f"at most {spec.tries:,} times, of which delta has room"
    size = "the size of the test set was fixed before it was drawn, and it is sealed as drawn"
    if spec.corpus is not None:
        refused = f"one with too few {spec.corpus.kind.unit}"
        return [size, f"a test set is drawn {tries}: {refused} is refused"]
    most = at_most(spec.judge_error or 0.0)
    return [
        "each prediction is right or wrong",
        "the judge was fixed before the labels were drawn",
        "the rows with labels and those without are random samples of the same distribution",
        size,
        f"a test set is drawn {tries}: one on whose labels the judge errs more often than {most} "
        "is refused",
    ]


def sessions_words(spec: MeterSpec) -> str:
    """Say for how many test sets delta is."""
    topped = " and its top-up together" if spec.stages > 1 else ""
    if spec.sessions == 1:
        many = "S test sets in a row fail with probability at most S * delta"
        return f"delta applies to one test set{topped}: {many}"
    each = ", each with its top-up" if topped else ""
    return f"delta is divided among {spec.sessions} test sets in a row{each}"


def promised_of(spec: MeterSpec) -> str:
    """Say what holds of every answer, as the end of a sentence."""
    tolerances = sorted(set(spec.tolerances))
    many = at_most(tolerances[0])
    if len(tolerances) > 1:
        many += f" to {at_most(tolerances[-1])} (by the reported band)"
    excuse = ""
    measured, true = "test loss", "true loss"
    if spec.corpus is not None:
        measured, true = f"{spec.corpus.word} on the test set", "true one"
    elif spec.judged:
        measured = "estimated test loss"
    if spec.floor is not None:
        top = min(as_written(spec.floor) + as_written(tolerances[0]), Fraction(1))
        then = f": then its true one is at most {at_most(top)}" if spec.merges else ""
        excuse = f' (or is reported as "below the floor", {at_most(spec.floor)}{then})'
    elif spec.ceiling is not None:
        least = max(as_written(spec.ceiling) - as_written(tolerances[0]), Fraction(0))
        then = f": then its true loss is at least {at_least(least)}" if spec.merges else ""
        excuse = f' (or is reported as "above the ceiling", {at_least(spec.ceiling)}{then})'
    if spec.above is not None:
        last = "the second one" if spec.above == 1 else f"number {spec.above + 1}"
        excuse = f"{excuse[:-1]}; {last} ends the test set)"
    if spec.variance_ceiling is not None:
        spread = at_least(spec.variance_ceiling)
        excuse += f' (or is reported as "too spread": losses that vary more than {spread})'
    if spec.may_be_too_few:
        excuse += ' (or is reported as "too few predicted positives", which promises nothing)'
    if spec.sticky:
        excuse += ' (or is reported as "unchanged", which promises nothing)'
    # A running maximum may be another model's band: its lower edge says nothing of this one.
    edges = (
        "is at most the upper edge of the reported band plus that tolerance"
        if spec.protocol is Protocol.INCREMENTAL
        else "lies between the lower edge of the reported band minus that tolerance and the "
        "upper edge plus it"
    )
    signed = ""
    if spec.gap is Gap.SIGNED:
        signed = " (by how much its true loss exceeds its validation loss, or 0)"
    mean = " (the mean over clusters of the mean loss of their rows)" if spec.clusters else ""
    if spec.stratified:
        mean = " (the weighted sum of the mean losses of its strata)"
    if spec.curve:
        return f"{scores.curve_promise(many)}{excuse}. So {scores.CURVE_DISTANCE} {edges}."
    return (
        f"each model's {measured}{mean} is within {many} of its {true}{excuse}. So its true gap"
        f"{signed} {edges}."
    )


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
    chosen = counting.has_levels_to_choose(spec)
    if chosen:  # any of these models may count at any tolerance, and one at the smallest
        counts *= len(tolerances)
    known: dict[float, float] = {}
    tails: list[float] = []
    top = -math.inf
    for count, tolerance in zip(counts, tolerances, strict=False):
        if tolerance not in known:
            averaged = not spec.sized or (spec.corpus is not None and spec.corpus.name == "auc")
            if averaged and spec.tail in (Bound.EXACT, Bound.CONVEX):
                # Never below either tail, and quick: what is lost in the sum needs no more.
                rough = log_tail(Bound.KL, labels, tolerance, spec.ceiling)
                if count + rough < top - _LOST:
                    tails.append(rough)
                    continue
            known[tolerance] = _log_tail(spec, labels, tolerance, tail)
        tails.append(known[tolerance])
        top = max(top, tails[-1] + (0.0 if chosen else count))
    return counting.log_weighed(spec, tails, steps, possible)


def log_tails(
    spec: MeterSpec, labels: int, tail: Callable[..., float] = log_tail
) -> tuple[float, ...]:
    """Return the logarithm of the tail at the tolerance of each band."""
    known = {eps: _log_tail(spec, labels, eps, tail) for eps in spec.tolerances}
    return tuple(known[eps] for eps in spec.tolerances)


def _log_tail(spec: MeterSpec, labels: int, tolerance: float, tail: Callable[..., float]) -> float:
    if spec.corpus is not None:
        return scores.log_corpus_tail(spec, labels, tolerance)
    if spec.stratified:
        return scores.log_strata_tail(spec, labels, tolerance)
    if spec.judge_error is not None and spec.pool is not None:
        return judges.log_judged_tail(labels, tolerance, spec.judge_error, spec.pool, onwards=True)
    ceilings = spec.ceiling, spec.variance_ceiling
    return tail(spec.tail, labels, tolerance, *ceilings, promised=spec.merges)


def _checked_plan(spec: MeterSpec, labels: int) -> Plan:
    """Re-check the inequality with the answer in hand; never return what does not satisfy it."""
    if spec.sizes and sum(spec.sizes) < labels:
        raise invalid("sizes", list(spec.sizes)[:20], f"too few: {labels:,} rows are needed in all")
    labels = sum(spec.sizes) or labels
    failure = log_failure(spec, labels // _test_sets(spec))
    if failure > _log_budget(spec):
        raise AssertionError(f"the planner missed its own inequality: {spec}, {labels} labels")
    if spec.rows is not None and spec.rows < labels:
        unit = "labels" if spec.corpus is None else spec.corpus.kind.unit
        raise invalid("rows", spec.rows, f"too few: {labels:,} {unit} are needed among them")
    later = 0.0
    if spec.top_up is not None:
        later = required_labels(spec.of_test_set(2)).failure_probability
    return Plan(
        spec=spec,
        labels=spec.rows or labels,
        counted=labels if spec.sized else None,
        failure_probability=spec.tries * math.exp(failure) + later,
        log_models=counting.log_sum(counting.log_models(spec)),
        assumptions=assumptions_of(spec),
    )


def _log_budget(spec: MeterSpec) -> float:
    """Return log delta of one session; an elastic budget lends a part of it to further steps."""
    return math.log(spec.session_delta * (spec.mixture[0] if spec.elastic else 1.0))


def _test_sets(spec: MeterSpec, steps: int | None = None) -> int:
    """Return the number of test sets of one session: one, unless every step draws its own."""
    if spec.protocol is not Protocol.RESAMPLING:
        return 1
    return spec.steps if steps is None else steps


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


def _check_labels(labels: object) -> None:
    if isinstance(labels, bool) or not isinstance(labels, int) or not 1 <= labels <= MAX_LABELS:
        raise invalid("labels", labels, "a whole number from 1 to 10^15")


def _check_gap(spec: MeterSpec) -> None:
    if not spec.bands or spec.also:
        asked = "; ".join(spec.questions)
        raise invalid("question", asked, "no gap: plan it with meter plan, or plan_question")


def _steps(count: int) -> str:
    return "one step" if count == 1 else f"{count:,} steps"
