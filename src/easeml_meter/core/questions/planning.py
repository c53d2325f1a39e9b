"""The planner of all questions: how large a test set, how many steps, which tolerance.

Like `stats.planning`, it checks every result against the inequality before it returns it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

from easeml_meter.checks import finite, whole
from easeml_meter.core.questions.gap import GapQuestion
from easeml_meter.core.questions.mixed import Mixed
from easeml_meter.core.questions.ondemand import Reused
from easeml_meter.core.questions.passing import PassFail
from easeml_meter.core.questions.question import Question
from easeml_meter.core.questions.reading import DifferenceReading
from easeml_meter.core.questions.rolling import Rolling
from easeml_meter.errors import invalid
from easeml_meter.showing import Shown
from easeml_meter.spec import MeterSpec
from easeml_meter.stats.planning import (
    MAX_LABELS,
    MAX_STEPS,
    PUBLIC_INPUTS,
    Plan,
    required_labels,
    sessions_words,
    smallest,
)
from easeml_meter.stats.planning import supported_steps as most_steps
from easeml_meter.stats.rounding import as_written, at_most, confidence_of
from easeml_meter.stats.scores import rows_for

_MOST_WORK = 200_000.0
"""Rows that one tail may sum over; a plan takes a dozen. Anybody may ask a server for a plan."""


@dataclass(frozen=True)
class Budget:
    """How often a question is asked, and how likely its promise may fail."""

    steps: int
    delta: float
    tries: int = 1
    """How often sealing may be tried: each try could be the lucky one, so delta is divided."""
    sessions: int = 1
    """How many test sets in a row delta is for."""

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
        return as_written(self.delta) / self.sessions

    @property
    def nats(self) -> float:
        """The negative logarithm of what one try may use of it."""
        return math.log(self.tries * self.sessions) - math.log(self.delta)


@dataclass(frozen=True, repr=False)
class QuestionPlan(Shown):
    """An answer of the planner, with what it rests on."""

    question: Question
    budget: Budget
    size: int
    failure_probability: float
    """Of all tries at sealing together."""
    beyond: tuple[str, ...] = ()
    """What the promise of a meter rests on besides, whatever it asks."""
    prevalence: float | None = None
    """The share of rows that count, such as positives, if somebody has said it."""

    def __post_init__(self) -> None:
        if self.prevalence is not None:
            finite("prevalence", self.prevalence)
            if not 1e-6 <= self.prevalence < 1:
                raise invalid("prevalence", self.prevalence, "a share below 1, such as 0.03")

    @property
    def rows(self) -> int | None:
        """How many rows to draw so that 999 of 1,000 test sets have enough; None: not known."""
        return None if self.prevalence is None else rows_for(self.size, self.prevalence)

    @property
    def unit(self) -> str:
        """What the size counts."""
        return self.question.unit

    @property
    def labels(self) -> int:
        """The size, as the plan of a meter calls it."""
        return self.size

    @property
    def promise(self) -> str:
        """Say in one sentence what is promised."""
        together = self.question.together(self.budget.steps)
        sure = confidence_of(self.budget.failure)
        return f"With probability at least {sure}, {together}, {self.question.promised}"

    @property
    def notes(self) -> tuple[str, ...]:
        """What else to know of this plan."""
        return self.question.notes(self.budget.steps, self.size, self.budget.nats)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the promise rests on; several tries at sealing are one more thing."""
        tries = self.budget.tries
        several = () if tries == 1 else (f"sealing is tried at most {tries:,} times",)
        # Questions of one meter repeat each other.
        return tuple(dict.fromkeys((*self.question.assumptions, *self.beyond, *several)))

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain data for programs."""
        models = self.question.log_models(self.budget.steps)
        return {
            "question": self.question.statistic,
            "size": self.size,
            "labels": self.size if self.question.unit == "labels" else None,
            "unit": self.question.unit,
            "rows": self.rows,
            "steps": self.budget.steps,
            "tolerance": self.question.tolerance,
            "delta": self.budget.delta,
            "tries": self.budget.tries,
            "answers": list(self.question.answers),
            "failure_probability": self.failure_probability,
            "log10_models": models / math.log(10),
            "promise": self.promise,
            "notes": list(self.notes),
            "assumptions": list(self.assumptions),
        }


MeterPlan = Plan | QuestionPlan
"""What every plan of a meter has: labels, promise, assumptions, and itself as JSON."""


@lru_cache(maxsize=256)
def question_of(spec: MeterSpec) -> Question:
    """Return the question that a meter asks, or all of them as one."""
    if spec.also:
        return Mixed(tuple(map(question_of, spec.each)))
    if spec.window is not None:
        return Rolling.of(spec)
    if spec.difference is not None:
        return _bought(spec, DifferenceReading(spec.difference))
    return (
        GapQuestion(spec) if spec.condition is None else _bought(spec, PassFail.of(spec.condition))
    )


def _bought(spec: MeterSpec, question: PassFail | DifferenceReading) -> Question:
    return Reused(question) if spec.on_demand else question


@lru_cache(maxsize=256)
def plan_of(spec: MeterSpec, labels: int | None = None) -> MeterPlan:
    """Return the smallest test set that keeps a meter's promise.

    With `labels`, return the most steps that they carry. Teams of a meter that asks a condition are
    counted as if they shared every answer.
    """
    if _only_gap(spec):
        return required_labels(spec) if labels is None else most_steps(spec, labels)
    question, budget = question_of(spec), Budget(spec.steps, spec.delta, sessions=spec.sessions)
    if labels is None:
        plan = required_size(question, budget)
    else:
        plan = supported_steps(question, labels, budget)
    if spec.window is not None:
        return plan
    public = (PUBLIC_INPUTS,) if spec.inputs == "public" else ()
    return dataclasses.replace(plan, beyond=(*public, sessions_words(spec)))


def assumptions_of(spec: MeterSpec) -> tuple[str, ...]:
    """List what the promise of a meter rests on, whatever size its test sets have."""
    return question_of(spec).assumptions if _only_gap(spec) else plan_of(spec).assumptions


def _only_gap(spec: MeterSpec) -> bool:
    return bool(spec.bands) and not spec.also and spec.window is None


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


def required_size(question: Question, budget: Budget) -> QuestionPlan:
    """Return the smallest size such that a test set of it, or of any more, keeps the promise."""
    highest = question.enough(question.log_models(budget.steps) + budget.nats)
    if highest > MAX_LABELS:
        raise invalid("tolerance", "too small", "over 10^15 labels needed: take a larger one")

    # Refused before it is calculated: the planner answers strangers, too.
    _check_work(question, highest)

    def excess(size: int) -> float:
        return question.log_failure(budget.steps, size, onwards=True) + budget.nats

    return _checked(question, budget, smallest(excess, highest))


def supported_steps(question: Question, size: int, budget: Budget) -> QuestionPlan:
    """Return the most steps that a test set of this size carries (budget.steps is ignored)."""
    _check_size(size)
    _check_work(question, size)

    def holds(steps: int) -> bool:
        return question.log_failure(steps, size, onwards=True) + budget.nats <= 0

    if not holds(1):
        needed = required_size(question, dataclasses.replace(budget, steps=1)).size
        raise invalid(question.unit, size, f"too few for one step: {needed:,} needed")
    # Doubling, then halving: more steps are never safer, so the last one that holds is the most.
    most, above = 1, 2
    while above <= MAX_STEPS and holds(above):
        most, above = above, 2 * above
    above = min(above, MAX_STEPS + 1)
    while above - most > 1:
        middle = (most + above) // 2
        most, above = (middle, above) if holds(middle) else (most, middle)
    return _checked(question, dataclasses.replace(budget, steps=most), size)


def reachable_tolerance(
    ask: Callable[[float], Question], size: int, budget: Budget
) -> QuestionPlan:
    """Return the plan with the smallest tolerance, to six digits, that this size carries."""
    _check_size(size)
    _check_work(ask(0.5), size)

    def holds(tolerance: float) -> bool:
        failure = ask(tolerance).log_failure(budget.steps, size, onwards=True)
        return failure + budget.nats <= 0

    low, high = 1e-6, 0.999
    if not holds(high):
        raise invalid("labels", size, f"too few for {budget.steps:,} steps at any tolerance")
    while high - low > 1e-7 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return _checked(ask(min(0.999, float(at_most(high)))), budget, size)


def _checked(question: Question, budget: Budget, size: int) -> QuestionPlan:
    """Re-check the inequality with the answer in hand; never return what does not satisfy it."""
    failure = question.log_failure(budget.steps, size)
    if failure + budget.nats > 0:
        raise AssertionError(f"the planner missed its own inequality: {question}, {size}")
    return QuestionPlan(question, budget, size, budget.tries * math.exp(failure))


def _check_work(question: Question, size: int) -> None:
    """Refuse what would take more than about a second, before anything is summed."""
    if question.work(size) > _MOST_WORK:
        allowed = "too much to plan at once: ask fewer, or take a larger tolerance"
        raise invalid("question", question.statistic[:200], allowed)


def _check_size(size: object) -> None:
    if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= MAX_LABELS:
        raise invalid("labels", size, "a whole number from 1 to 10^15")
