"""What people have: so many labels that can stay hidden, a validation set, or rows to be split."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import msgspec

from easeml_meter.checks import whole
from easeml_meter.conditions import ALARM
from easeml_meter.core.questions.alarm import AlarmQuestion
from easeml_meter.core.questions.planning import (
    Plan,
    plan_of,
    reachable_tolerance,
    supported_steps,
)
from easeml_meter.errors import InvalidInput, invalid
from easeml_meter.promise import solve
from easeml_meter.promise.gap import Gap
from easeml_meter.promise.kernel import MOST_DELTA
from easeml_meter.promise.meter import Meter
from easeml_meter.promise.numbers.intervals import clopper_pearson
from easeml_meter.promise.numbers.rounding import as_written, percent_at_least, percent_at_most
from easeml_meter.promise.schema import NO_END
from easeml_meter.spec import DEFAULT_DELTA, DEFAULT_STEPS, GAP, MeterSpec, Protocol, default_edges
from easeml_meter.spec.composing import flatten

FEWEST = 30
"""Of fewer labels, no sentence is worth a test set."""
_WIDEST = 0.2
"""With a larger tolerance, the steps that nobody asked for are fewer."""
_OTHER_STEPS, _OTHER_ALARMS = (5, 20, 50), (10, 20, 100)
_SURER = 0.05
_WIDTHS = (Fraction(1, 2), Fraction(1), Fraction(3, 2))
"""How far apart drawn edges are tried, in tolerances."""
_FIRST_WITH_ALARM, _MANY_STEPS = 5_000, 20
"""Up to so many labels, or from so many answers on, an alarm promises more than bands."""
_EXAMPLE = 10
"""One row in so many is wrong where the noise of a validation set is told."""


def plan_labels(
    spec: MeterSpec, labels: int, steps: int | None = None, *, keep_edges: bool = False
) -> Plan:
    """Plan what labels promise; without steps, ten, or the most that need no wide tolerance.

    Raises:
        InvalidInput: They are too few.
    """

    def reached(count: int) -> Plan:
        return reachable_tolerance(spec.replace(steps=count), labels, keep_edges=keep_edges)

    if steps is not None or spec.tenants or spec.reverts:
        return reached(steps or spec.steps)

    plan = None
    with suppress(InvalidInput):  # too few at any tolerance
        plan = reached(DEFAULT_STEPS)
    if plan is None or plan.spec.tolerances[0] > _WIDEST:
        own = keep_edges or not spec.has_default_edges
        wide = spec if own else spec.with_edges(default_edges(_WIDEST))
        times = _WIDEST / wide.tolerances[0]
        wide = wide.with_tolerances([each * times for each in wide.tolerances])
        try:
            plan = reached(supported_steps(wide, labels).budget.steps)
        except InvalidInput:
            points = f"within {100 * _WIDEST:g} points"
            allowed = f"too few for one answer {points}: give more, or be less sure"
            raise invalid(spec.unit, labels, allowed) from None
    if labels < FEWEST:
        raise invalid(spec.unit, labels, f"too few for one answer of use: {FEWEST} or more")
    return plan


def fewer_answers(plan: Plan, labels: int, steps: int | None) -> str:
    """Say that labels carry fewer answers than the ten of nobody's choice; empty: they do not."""
    if steps is not None or (count := plan.budget.steps) >= DEFAULT_STEPS:
        return ""
    return f"{labels:,} labels carry {'one answer' if count == 1 else f'{count} answers'}, not ten."


def from_tables(data: Mapping[str, Any]) -> MeterSpec:
    """Build a meter from the tables of a meter.toml, of bands by `labels` and nothing else."""
    meter = Meter.from_tables(data)
    if not isinstance(meter.question, Gap) or meter.sample.labels is None:
        return flatten(meter)  # an alarm plans with labels of its own
    for name in ("tolerance", "edges"):
        if name in data["question"]:
            raise invalid("sample.labels", meter.sample.labels, f"with {name}: leave it out")
    sample = msgspec.structs.replace(meter.sample, labels=None)
    spec = flatten(msgspec.structs.replace(meter, sample=sample))
    steps = spec.steps if "steps" in data.get("budget", {}) else None
    return plan_labels(spec, meter.sample.labels, steps).spec


@dataclass(frozen=True)
class Way:
    """What else the same labels could promise, or what twice as many would."""

    change: str
    plan: Plan
    ask: str = ""
    """The word of another question; empty: the same one."""

    @property
    def added(self) -> str:
        """What it adds to the validation error; empty: nothing does."""
        question = self.plan.question
        points = question.promised_points
        if points is None:
            return ""
        if isinstance(question, AlarmQuestion):
            late = " at answer 10" if self.plan.spec.endless else ""
            return f"+ {points} points, {question.after_an_alarm} after one alarm{late}"
        if self.ask:
            return f"+ {points} points in the lowest"
        return f"+ {points} points{' on average' if self.plan.spec.drawn is not None else ''}"

    def to_dict(self) -> dict[str, Any]:
        """Return it for programs."""
        budget = self.plan.budget
        steps = NO_END if budget.endless else budget.steps
        found = {"change": self.change, "labels": self.plan.labels, "steps": steps}
        points = self.plan.question.promised_points
        return {**found, "ask": self.ask or None, "promised_points": points}


def starts_with_alarm(labels: int | None, steps: int | str | None, delta: float) -> bool:
    """Whether an alarm is the first offer for so many labels and answers."""
    if labels is None or as_written(delta) > MOST_DELTA:
        return False
    if labels <= _FIRST_WITH_ALARM or isinstance(steps, str):  # no end
        return True
    return (steps or DEFAULT_STEPS) >= _MANY_STEPS


def check_many(labels: int | None) -> None:
    """Refuse labels of which no answer is worth a test set.

    Raises:
        InvalidInput: They are too few.
    """
    if labels is not None and labels < FEWEST:
        raise invalid("labels", labels, f"too few for one answer of use: {FEWEST} or more")


def plan_alarm(labels: int, **settings: Any) -> Plan:
    """Plan what ok will mean of so many labels.

    Raises:
        InvalidInput: They are too few.
    """
    check_many(labels)
    known: dict[str, Any] = {"question": ALARM, "steps": DEFAULT_STEPS, "delta": DEFAULT_DELTA}
    return plan_of(MeterSpec(bands=(), labels=labels, **(known | settings)))


def with_validation(plan: Plan, rows: int | None) -> Plan:
    """Return the plan of an alarm for a validation set of so many rows."""
    question = plan.question
    if rows is None or not isinstance(question, AlarmQuestion):
        return plan
    whole("validation", rows, at_least=1)
    return replace(plan, question=replace(question, validation_rows=rows))


def other_ways(plan: Plan, labels: int) -> tuple[Way, ...]:
    """Plan other numbers of answers, twice the labels, and what else could be asked."""
    return tuple(_alarms(plan, labels) if plan.spec.vouches else _ways(plan, labels))


def _alarms(plan: Plan, labels: int) -> Iterator[Way]:
    spec = plan.spec
    rows = plan.question.validation_rows if isinstance(plan.question, AlarmQuestion) else None

    def way(change: str, **options: Any) -> Iterator[Way]:
        with suppress(InvalidInput):
            yield Way(change, with_validation(plan_of(spec.replace(**options)), rows))

    if not spec.tenants:
        for steps in _OTHER_ALARMS:
            if spec.endless or steps != spec.steps:
                yield from way(f"{steps} answers", steps=steps, endless=False)
        if not spec.endless:
            yield from way("no end", endless=True)
    sure = _SURER if spec.delta > _SURER else DEFAULT_DELTA
    yield from way(f"{100 * (1 - sure):g} % sure", delta=sure)
    if spec.g is None:
        yield from way(f"{2 * labels:,} labels", labels=2 * labels)
    wish = MeterSpec.uniform(tolerance=0.1, steps=spec.steps, delta=spec.delta)
    with suppress(InvalidInput):
        yield Way("bands", plan_labels(wish, labels, spec.steps), GAP)


def _ways(plan: Plan, labels: int) -> Iterator[Way]:
    spec = plan.spec

    def way(change: str, more: int = 1, **options: Any) -> Iterator[Way]:
        try:
            yield Way(change, reachable_tolerance(spec.replace(**options), labels * more))
        except InvalidInput:  # too few, or it does not go together with something else
            return

    if spec.loss == "0-1" and spec.protocol is Protocol.REGULAR and not spec.clusters:
        with suppress(InvalidInput):  # too few, or a delta above a quarter
            alarm = plan_alarm(labels, steps=spec.steps, delta=spec.delta)
            yield Way("ok, or an alarm", alarm, ALARM)
    for steps in _OTHER_STEPS:
        if steps != spec.steps:
            yield from way(f"{steps} answers", steps=steps)
    yield from way(f"{2 * labels:,} {spec.unit}", 2)
    if spec.drawn is None and spec.protocol is Protocol.REGULAR:
        widths = {_half_points(each * as_written(spec.tolerances[0])) for each in _WIDTHS}
        drawn = [
            found for each in widths for found in way(f"edges drawn {each:g} apart", drawn=each)
        ]
        yield from sorted(drawn, key=_points)[:1]


def _points(way: Way) -> float:
    return way.plan.question.promised_points or math.inf


def _half_points(value: Fraction) -> float:
    return max(0.01, math.ceil(200 * value) / 200)


@lru_cache(maxsize=256)
def validation_noise(rows: int, spec: MeterSpec) -> str:
    """Say how far a share measured on a validation set may be from the truth; empty: of no meter.

    A model that is one row in ten wrong is the example; the lowest edge is what it is held against.
    """
    whole("validation", rows, at_least=1)
    if spec.loss != "0-1" or not spec.bands or spec.clusters:
        return ""
    edge = as_written(spec.drawn or spec.bands[0].upper)
    error = spec.delta / 2
    low, high = clopper_pearson(round(rows / _EXAMPLE), rows, error)
    measured = f"{100 * round(rows / _EXAMPLE) / rows:.3g} %"
    sure = f"{100 * float(spec.meter.confidence()):g} % sure"
    said = (
        f"Validation set of {rows:,} rows: {measured} wrong may be "
        f"{percent_at_least(low)} to {percent_at_most(high)} % ({sure}, of one model)"
    )
    lowest = f"the lowest edge, {100 * float(edge):g} points"
    if max(high - 1 / _EXAMPLE, 1 / _EXAMPLE - low) <= edge:
        return f"{said}, less than {lowest}."
    return f"{said}; {_rows_within(float(edge), error):,} rows bring that below {lowest}."


def _rows_within(edge: float, error: float) -> int:
    """Return how many rows know one wrong in ten to within so much, in steps of fifty."""

    def within(fifties: int) -> bool:
        low, high = clopper_pearson(5 * fifties, 50 * fifties, error)
        return max(high - 0.1, 0.1 - low) <= edge

    return 50 * (solve.most(lambda fifties: not within(fifties), 1) + 1)


def split(rows: int) -> tuple[int, int, int]:
    """Say of how many labelled rows how many to hide, to validate on, and to train on."""
    whole("rows", rows, at_least=1)
    hidden, validation = rows * 2 // 5, rows // 5
    return hidden, validation, rows - hidden - validation
