"""Plans of all questions: what `promise.solve` found, with what it rests on, in words.

Every result is checked against the inequality before it is returned, so no search can loosen a
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

import msgspec

from easeml_meter.checks import finite, whole
from easeml_meter.core.questions.kinds import question_of
from easeml_meter.core.questions.question import Question
from easeml_meter.errors import invalid
from easeml_meter.promise import assumptions, solve, words
from easeml_meter.promise.budgets import MOST_STEPS
from easeml_meter.promise.gap import Gap
from easeml_meter.promise.meter import Meter
from easeml_meter.promise.numbers.rounding import as_written, confidence_of
from easeml_meter.promise.numbers.scores import rows_for
from easeml_meter.promise.schema import NO_END
from easeml_meter.showing import Shown
from easeml_meter.spec import METERS, MeterSpec, default_edges


@dataclass(frozen=True)
class Budget:
    """How often a question is asked, and how likely its promise may fail."""

    steps: int
    delta: float
    tries: int = 1
    """How often sealing may be tried: each try could be the lucky one, so delta is divided."""
    stages: int = 1
    """How many test sets share what is there for one: two, if the second is the first and more."""
    endless: bool = False
    """Whether there is no last answer: `steps` says nothing."""

    @classmethod
    def of_meter(cls, spec: MeterSpec) -> Self:
        """Return the budget of a meter."""
        return cls(spec.steps, spec.delta, spec.tries, spec.stages, spec.endless)

    def __post_init__(self) -> None:
        whole("steps", self.steps, at_least=1)
        if self.steps > MOST_STEPS:
            raise invalid("steps", self.steps, "at most 10^9")
        finite("delta", self.delta)
        if not 1e-300 <= self.delta < 1:
            raise invalid("delta", self.delta, "a number between 1e-300 and 1")
        whole("tries", self.tries, at_least=1)

    @property
    def answers(self) -> str:
        """How many there are, in words."""
        return NO_END if self.endless else f"{self.steps:,}"

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
    log_models: float = 0.0
    """The logarithm of how many models (as published, pairs) are guarded against."""

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
            "steps": NO_END if self.budget.endless else self.budget.steps,
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

    With `labels`, return the most steps that they carry.
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
    question, stage = question_of(spec), int(bool(spec.topped_up))
    size = solve.labels(spec.meter, stage, question.terms)
    return _of_meter(spec, _planned(question, Budget.of_meter(spec), spec.meter, size, stage))


def supported_steps(spec: MeterSpec, labels: int) -> Plan:
    """Return the largest number of steps that `labels` labels support (spec.steps is ignored)."""
    question = question_of(spec)
    count = solve.steps(spec.meter, labels, question.terms)
    drawn, found = spec.meter.sample.rounded_down(labels), spec.replace(steps=count)
    asked = question_of(found)
    return _of_meter(found, _planned(asked, Budget.of_meter(found), found.meter, drawn))


def reachable_tolerance(spec: MeterSpec, labels: int, *, keep_edges: bool = False) -> Plan:
    """Return the smallest tolerances, in the ratios of spec's, that `labels` labels support.

    A meter with default edges gets those of the tolerance found, unless it is to keep its own.

    Raises:
        InvalidInput: They support none, or what the meter asks has its own.
    """

    def reached(wish: MeterSpec) -> Plan:
        meter = solve.tolerance(wish.meter, labels, question_of(wish).terms)
        found = wish.with_tolerances(_tolerances(meter, len(wish.bands)))
        drawn = meter.sample.rounded_down(labels)
        plan = _planned(question_of(found), Budget.of_meter(found), meter, drawn)
        return _of_meter(found, plan)

    if not isinstance(spec, MeterSpec):
        question_of(spec)  # which refuses what is no meter
    if keep_edges or not spec.has_default_edges:
        return reached(spec)
    return with_default_edges(lambda edges: reached(spec.with_edges(edges)))


def follows(spec: MeterSpec) -> bool:
    """Whether the plan follows the rows delivered: a gap in bands, on plain test sets."""
    return solve.follows(spec.meter)


@lru_cache(maxsize=256)
def following(spec: MeterSpec, rows: int) -> MeterSpec:
    """Return a meter with the tolerance that so many rows carry; edges and answers stay.

    Raises:
        InvalidInput: So few carry none.
    """
    found = solve.at_sealing(spec.meter, rows, question_of(spec).terms)
    if found is spec.meter:
        return spec
    return spec.with_tolerances(_tolerances(found, len(spec.bands)))


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
    return dataclasses.replace(plan, failure_probability=failure, meter=spec)


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
    meter = _composed(question, budget)
    return _planned(question, budget, meter, solve.labels(meter, terms=question.terms))


def most_steps(question: Question, size: int, budget: Budget) -> Plan:
    """Return the most steps that a test set of this size carries (budget.steps is ignored)."""
    meter = _composed(question, budget)
    count = solve.steps(meter, size, question.terms)
    drawn, asked = meter.sample.rounded_down(size), dataclasses.replace(budget, steps=count)
    return _planned(question.for_steps(count), asked, solve.with_steps(meter, count), drawn)


def least_tolerance(question: Question, size: int, budget: Budget) -> Plan:
    """Return the plan with the smallest tolerances, in the ratios of its own, for this size.

    Raises:
        InvalidInput: There are none, or the question has no bands.
    """
    meter = solve.tolerance(_composed(question, budget), size, question.terms)
    found = question.with_tolerances(_tolerances(meter, len(question.tolerances)))
    return _planned(found, budget, meter, meter.sample.rounded_down(size))


def _composed(question: Question, budget: Budget) -> Meter:
    meter = question.composed(budget.steps, budget.delta)
    sample = msgspec.structs.replace(meter.sample, tries=budget.tries)
    return msgspec.structs.replace(meter, sample=sample)


def _tolerances(meter: Meter, bands: int) -> tuple[float, ...]:
    """Return the tolerance of each band."""
    if not isinstance(meter.question, Gap):
        raise AssertionError("only a gap has tolerances that are looked for")
    found = tuple(map(float, meter.question.tolerance))
    return found if len(found) > 1 else found * bands


def _planned(question: Question, budget: Budget, meter: Meter, size: int, stage: int = 0) -> Plan:
    """Check the inequality with the answer in hand; never return what does not satisfy it."""
    failure = solve.log_failure(meter, size, stage, question.terms)
    if failure > -budget.nats + 1e-12 * (1 + budget.nats):
        raise AssertionError(f"the planner missed its own inequality: {question}, {size}")
    counted = solve.log_count(meter, stage, question.terms)
    probability = budget.tries * math.exp(failure)
    return Plan(question, budget, size, probability, log_models=counted)
