"""The planner of all questions: how large a test set, how many steps, which tolerance.

It checks every result against the inequality before it returns it, so no search can loosen a
promise.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Self

from easeml_meter.checks import finite, whole
from easeml_meter.core.questions.kinds import question_of
from easeml_meter.core.questions.question import Question
from easeml_meter.errors import InvalidInput, invalid
from easeml_meter.promise import assumptions, words
from easeml_meter.promise.numbers.rounding import as_written, at_most, confidence_of
from easeml_meter.promise.numbers.scores import rows_for
from easeml_meter.showing import Shown
from easeml_meter.spec import METERS, MeterSpec, default_edges
from easeml_meter.spec.bands import SMALLEST_TOLERANCE
from easeml_meter.stats.planning import MAX_LABELS, MAX_STEPS, smallest

_MOST_WORK = 200_000.0
"""Rows that one tail may sum over; a plan takes a dozen. Anybody may ask a server for a plan."""


@dataclass(frozen=True)
class Budget:
    """How often a question is asked, and how likely its promise may fail."""

    steps: int
    delta: float
    tries: int = 1
    """How often sealing may be tried: each try could be the lucky one, so delta is divided."""
    stages: int = 1
    """How many test sets share what is there for one: two, if the second is the first and more."""

    @classmethod
    def of_meter(cls, spec: MeterSpec) -> Self:
        """Return the budget of a meter."""
        return cls(spec.steps, spec.delta, spec.tries, spec.stages)

    def __post_init__(self) -> None:
        whole("steps", self.steps, at_least=1)
        if self.steps > MAX_STEPS:
            raise invalid("steps", self.steps, "at most 10^9")
        finite("delta", self.delta)
        if not 1e-300 <= self.delta < 1:
            raise invalid("delta", self.delta, "a number between 1e-300 and 1")
        whole("tries", self.tries, at_least=1)

    @property
    def failure(self) -> Fraction:
        """The failure probability of one test set, whichever try at sealing it comes from."""
        return as_written(self.delta)

    @property
    def nats(self) -> float:
        """The negative logarithm of what one try may use of it."""
        return -math.log(self.delta / (self.tries * self.stages))


@dataclass(frozen=True, repr=False)
class Plan(Shown):
    """An answer of the planner, with what it rests on."""

    question: Question
    budget: Budget
    size: int
    """What the promise is counted of, in the plan's own unit; if every step draws a test set, in
    all of them together."""
    failure_probability: float
    """Of all tries at sealing together, and of the steps after a top-up: at most delta."""
    meter: MeterSpec | None = None
    """The meter that was planned; None: a question alone."""
    prevalence: float | None = None
    """The share of rows that count, such as positives, if somebody has said it."""

    def __post_init__(self) -> None:
        if self.prevalence is not None:
            finite("prevalence", self.prevalence)
            if not 1e-6 <= self.prevalence < 1:
                raise invalid("prevalence", self.prevalence, "a share below 1, such as 0.03")

    @property
    def spec(self) -> MeterSpec:
        """The meter that was planned.

        Raises:
            ValueError: A question was planned, and no meter.
        """
        if self.meter is None:
            raise ValueError("this plan is of a question: it has no meter")
        return self.meter

    @property
    def rows(self) -> int | None:
        """How many rows to draw, if the meter says so or the prevalence; else None.

        With a prevalence, so many that 999 of 1,000 test sets have enough that count, of every
        class.
        """
        if self.prevalence is not None:
            chance = 0.001 / self.question.counted_classes
            return rows_for(self.size, self.prevalence, chance)
        return None if self.meter is None else self.meter.rows

    @property
    def unit(self) -> str:
        """What the size counts."""
        return self.question.unit

    @property
    def labels(self) -> int:
        """What a labeler delivers: the rows to be drawn, if the meter says how many."""
        return self.size if self.meter is None or self.meter.rows is None else self.meter.rows

    @property
    def log_models(self) -> float:
        """The logarithm of how many models (as published, pairs) are guarded against."""
        return self.question.log_models(self.budget.steps)

    @property
    def confidence(self) -> str:
        """The probability that the promise holds, rounded down."""
        return confidence_of(self.budget.failure)

    @property
    def promise(self) -> str:
        """Say in one sentence what is promised."""
        together = self.question.together(self.budget.steps)
        return f"With probability at least {self.confidence}, {together}, {self.question.promised}"

    @property
    def notes(self) -> tuple[str, ...]:
        """What else to know of this plan."""
        return self.question.notes(self.budget.steps, self.size, self.budget.nats)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the promise rests on: the question, the meter around it, tries at sealing."""
        around = () if self.meter is None else self.question.around(self.meter)
        found, tries = [*self.question.assumptions, *around], self.budget.tries
        if tries > 1 and self.meter is None:
            found.append(f"sealing is tried at most {tries:,} times")
        return tuple(dict.fromkeys(found))  # questions of one meter repeat each other

    @property
    def top_up(self) -> dict[str, int] | None:
        """Labels in all, and further steps, once fresh labels have joined; None: none will."""
        if self.meter is None or self.meter.top_up is None:
            return None
        labels = plan_of(self.meter.of_test_set(2)).labels
        more = {"labels": labels, "more_labels": labels - self.labels}
        return {"steps": self.meter.top_up, **more}

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain data for programs."""
        return {
            "question": self.question.statistic,
            "labels": self.size if self.unit == "labels" else None,
            "size": self.size,
            "unit": self.unit,
            "rows": self.rows,
            "steps": self.budget.steps,
            "tolerance": self.question.tolerance,
            "delta": self.budget.delta,
            "tries": self.budget.tries,
            "answers": list(self.question.answers),
            "failure_probability": self.failure_probability,
            "log10_models": self.log_models / math.log(10),
            **self.question.details(self),
            "promise": self.promise,
            "notes": list(self.notes),
            "assumptions": list(self.assumptions),
        }


@lru_cache(maxsize=256)
def plan_of(spec: MeterSpec, labels: int | None = None) -> Plan:
    """Return the smallest test set that keeps a meter's promise.

    With `labels`, return the most steps that they carry. Teams of a meter that asks a condition are
    counted as if they shared every answer.
    """
    return required_labels(spec) if labels is None else supported_steps(spec, labels)


def check_planned(spec: MeterSpec) -> None:
    """Refuse to make a meter of what can only be planned."""
    if spec.protocol not in METERS:
        raise invalid("protocol", str(spec.protocol), f"one of {', '.join(METERS)}")
    plan = plan_of(spec)
    if spec.sized and spec.rows is None:
        needed = f"among them at least {plan.size:,} {plan.unit}"
        if spec.judged:
            needed = f"besides its pool: at least {plan.size:,} with a label"
        raise invalid("rows", None, f"say in meter.toml how many rows a test set has, {needed}")


def required_labels(spec: MeterSpec) -> Plan:
    """Return the smallest test set such that it, or any larger one, keeps a meter's promise."""
    return _of_meter(spec, required_size(question_of(spec), Budget.of_meter(spec)))


def supported_steps(spec: MeterSpec, labels: int) -> Plan:
    """Return the largest number of steps that `labels` labels support (spec.steps is ignored)."""
    if spec.tenants:
        raise invalid("tenants", list(spec.tenants), "they fix the steps: give the steps as well")
    plan = most_steps(question_of(spec), labels, Budget.of_meter(spec))
    return _of_meter(spec.replace(steps=plan.budget.steps), plan)


def reachable_tolerance(spec: MeterSpec, labels: int, *, keep_edges: bool = False) -> Plan:
    """Return the smallest tolerances, in the ratios of spec's, that `labels` labels support.

    A meter with default edges gets those of the tolerance found, unless it is to keep its own.

    Raises:
        InvalidInput: They support none, or what the meter asks has its own.
    """

    def reached(wish: MeterSpec) -> Plan:
        plan = least_tolerance(question_of(wish), labels, Budget.of_meter(wish))
        return _of_meter(wish.with_tolerances(plan.question.tolerances), plan)

    if keep_edges or not isinstance(spec, MeterSpec) or not spec.has_default_edges:
        return reached(spec)  # which refuses what is no meter
    return with_default_edges(lambda edges: reached(spec.with_edges(edges)))


def follows(spec: MeterSpec) -> bool:
    """Whether the plan follows the rows delivered: a gap in bands, on plain test sets."""
    fixed = spec.sized or spec.on_demand or spec.stratified
    plain = spec.window is None and spec.stages == 1
    return bool(spec.bands) and spec.asked is None and plain and not fixed


@lru_cache(maxsize=256)
def following(spec: MeterSpec, rows: int) -> MeterSpec:
    """Return a meter with the tolerance that so many rows carry; edges and answers stay.

    More rows than planned are left to hand-overs between teams that are counted apart, and where
    a ceiling merges bands, as which answers are told depends on the tolerance there.

    Raises:
        InvalidInput: So few carry none.
    """
    planned = plan_of(spec).labels if follows(spec) else rows
    if rows == planned or (rows > planned and (spec.teams_apart or spec.merges)):
        return spec
    try:
        found = reachable_tolerance(spec, rows, keep_edges=True).spec
    except InvalidInput:  # too much work, where rows are many
        if rows < planned:
            raise
        return spec
    # What is found was rounded up, which may be more than one row more gives.
    pairs = zip(found.tolerances, spec.tolerances, strict=True)
    return spec if rows > planned and any(eps > own for eps, own in pairs) else found


def with_default_edges(reached: Callable[[tuple[float, ...]], Plan]) -> Plan:
    """Return the plan with the default edges of the tolerance that `reached` finds with one."""
    tolerance = reached((0.25,)).question.tolerances[0]
    found = reached(default_edges(tolerance))
    if found.question.tolerances[0] > tolerance:  # a running maximum, or memory: each edge costs
        found = reached(default_edges(tolerance, costly=True))
    return found


def _of_meter(spec: MeterSpec, plan: Plan) -> Plan:
    """Return the plan of a question as that of a meter which asks it."""
    if spec.rows is not None and spec.rows < plan.size:
        needed = f"too few: {plan.size:,} {plan.unit} are needed among them"
        raise invalid("rows", spec.rows, needed)
    failure = plan.failure_probability
    if spec.top_up is not None:
        failure += plan_of(spec.of_test_set(2)).failure_probability
    return Plan(plan.question, plan.budget, plan.size, failure, spec)


def promise_of(spec: MeterSpec, number: int = 1) -> str:
    """Say what a meter promises of one of its test sets, or windows, whatever size they have."""
    return words.promise_of(spec.meter, number)


def assumptions_of(spec: MeterSpec) -> tuple[str, ...]:
    """List what the promise of a meter rests on, whatever size its test sets have."""
    return assumptions.assumptions_of(spec.meter)


def labels_needed(spec: MeterSpec, number: int, here: int = 0) -> int:
    """Return how many labels the labelers are asked for.

    The first window of a rolling test set needs all of its batches, every later one its newest. A
    top-up needs what is missing if so many are `here`, else if as many as planned; one at least.
    """
    in_force = spec.of_test_set(number)
    labels = plan_of(in_force).labels
    if in_force.topped_up:
        return max(1, labels - (here or plan_of(spec.of_test_set(1)).labels))
    return labels * spec.window if spec.window is not None and number == 1 else labels


def required_size(question: Question, budget: Budget) -> Plan:
    """Return the smallest size such that a test set of it, or of any more, keeps the promise."""
    return _checked(question, budget, question.rounded_up(smallest_size(question, budget)))


def smallest_size(question: Question, budget: Budget) -> int:
    """Return the smallest size from which on the inequality holds."""
    nats = budget.nats
    highest = question.enough(question.log_models(budget.steps) + nats)
    if highest > MAX_LABELS:
        given = question.statistic[:200] if question.tolerance is None else question.tolerance
        raise invalid("tolerance", given, "too small: over 10^15 labels needed")
    # Refused before it is calculated: the planner answers strangers, too.
    _check_work(question, highest)
    _check_work(question, highest // 2)  # where tails may still be summed that are not up there

    def excess(size: int) -> float:
        return question.log_failure(budget.steps, size, onwards=True) + nats

    while excess(highest) > 0:  # a bound in closed form may be rounded where numbers are huge
        _check_size(highest := 2 * highest)
    return smallest(excess, highest)


def most_steps(question: Question, size: int, budget: Budget) -> Plan:
    """Return the most steps that a test set of this size carries (budget.steps is ignored)."""
    _check_size(size)
    drawn = question.rounded_down(size)
    _check_work(question, drawn)
    most = question.supported_steps(drawn, budget.nats) if drawn else 0
    if not most:
        fewest = dataclasses.replace(budget, steps=question.fewest_steps)
        needed = required_size(question.for_steps(fewest.steps), fewest).size
        few = f"too few for {_steps(fewest.steps)}: {needed:,} needed"
        raise invalid(question.unit, size, few)
    return _checked(question.for_steps(most), dataclasses.replace(budget, steps=most), drawn)


def least_tolerance(question: Question, size: int, budget: Budget) -> Plan:
    """Return the plan with the smallest tolerances, in the ratios of its own, for this size.

    Larger tolerances reach over more bands, which more models can be told of. So they are searched
    for one number of possible bands; if they reach over more than that, for this larger one.

    Raises:
        InvalidInput: There are none, or the question has no bands.
    """
    _check_size(size)
    if not question.tolerances:
        allowed = "it has its own tolerance, and labels say how many steps they carry"
        raise invalid("question", question.statistic[:200], allowed)
    if not (drawn := question.rounded_down(size)):
        fewest = question.drawn_size(question.rounded_up(1))
        raise invalid("labels", size, f"too few: test sets have {fewest:,} or more")
    _check_work(question, drawn, times=5)
    possible = _scaled(question, SMALLEST_TOLERANCE / question.tolerances[0]).possible_bands
    while (factor := _least_factor(question, drawn, budget, possible)) is not None:
        # Six digits read better. They are all but always true, as a larger tolerance is easier;
        # where they are not, or reach over one band more, what was found is taken itself.
        for digits in (6, 15):
            found = _scaled(question, factor, digits)
            reached = found.possible_bands
            if reached <= possible and _holds(found, drawn, budget):
                return _checked(found, budget, drawn)
        possible = max(possible + 1, reached)
    raise invalid("labels", size, f"too few for {_steps(budget.steps)} at any tolerance")


_LARGEST = 1 - 1e-9
"""Up to here the first tolerance is searched; a later band may promise nothing."""


def _scaled(question: Question, factor: float, digits: int = 15) -> Question:
    """Return the question with its tolerances times a factor, rounded up."""
    scaled = (float(at_most(eps * factor, digits)) for eps in question.tolerances)
    first, *others = scaled
    return question.with_tolerances((min(first, 1 - 1e-12), *others))


def _least_factor(question: Question, size: int, budget: Budget, possible: int) -> float | None:
    """Return by what to multiply the tolerances if so many bands are possible, to seven digits."""

    def holds(factor: float) -> bool:
        scaled = [eps * factor for eps in question.tolerances]
        if scaled[0] < SMALLEST_TOLERANCE:
            return False
        return _holds(question.with_tolerances(scaled, possible), size, budget)

    low, high = 0.0, _LARGEST / question.tolerances[0]
    if not holds(high):
        return None
    while high - low > 1e-7 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _holds(question: Question, size: int, budget: Budget) -> bool:
    """Whether the inequality holds for this size and all larger ones."""
    return question.log_failure(budget.steps, size, onwards=True) + budget.nats <= 0


def _checked(question: Question, budget: Budget, size: int) -> Plan:
    """Re-check the inequality with the answer in hand; never return what does not satisfy it."""
    size = question.drawn_size(size)
    failure = question.log_failure(budget.steps, size)
    if failure + budget.nats > 0:  # a search may end higher for one size than for all from it on
        failure = question.log_failure(budget.steps, size, onwards=True)
    if failure + budget.nats > 0:
        raise AssertionError(f"the planner missed its own inequality: {question}, {size}")
    return Plan(question, budget, size, budget.tries * math.exp(failure))


def _check_work(question: Question, size: int, times: int = 1) -> None:
    """Refuse what would take more than a second or two, before anything is summed.

    A search for a tolerance looks at several `times` as many tails as one for a size, and may be
    repeated for other edges.
    """
    if times * question.work(size) > _MOST_WORK:
        allowed = "too much to plan at once: ask fewer, or take one tolerance, or a larger one"
        raise invalid("question", question.statistic[:200], allowed)


def _check_size(size: object) -> None:
    if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= MAX_LABELS:
        raise invalid("labels", size, "a whole number from 1 to 10^15")


def _steps(count: int) -> str:
    return "one step" if count == 1 else f"{count:,} steps"
