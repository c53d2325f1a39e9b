"""Why a meter needs as many labels as it does, and what would make them fewer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from easeml_meter.core.questions.comparison import usually_apart
from easeml_meter.core.questions.gap import GapQuestion
from easeml_meter.core.questions.kinds import question_of
from easeml_meter.core.questions.planning import (
    Plan,
    reachable_tolerance,
    required_labels,
)
from easeml_meter.errors import InvalidInput, invalid
from easeml_meter.promise import solve
from easeml_meter.promise.budgets import Memory, Steps
from easeml_meter.promise.numbers.rounding import at_most
from easeml_meter.promise.renewals import Fresh
from easeml_meter.spec import MeterSpec, Protocol, default_edges

_CEILING = 0.1


@dataclass(frozen=True)
class Knob:
    """One setting changed, and what that costs besides labels."""

    change: str
    plan: Plan
    costs: str


@dataclass(frozen=True)
class Reasons:
    """Where the labels of a plan go."""

    plan: Plan
    unadapted: int
    """Labels that would do if nobody acted on an answer."""
    knobs: tuple[Knob, ...]
    """The one that saves most first."""

    @property
    def adaptivity(self) -> int:
        """Labels needed because answers can be acted on."""
        return self.plan.labels - self.unadapted

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        knobs = [
            {"change": each.change, "labels": each.plan.labels, "costs": each.costs}
            for each in self.knobs
        ]
        found = {"labels": self.plan.labels, "unadapted": self.unadapted}
        return found | {"adaptivity": self.adaptivity, "knobs": knobs}


def why_unexplained(spec: MeterSpec) -> str | None:
    """Say why the labels of a meter cannot be taken apart; None: they can."""
    question = question_of(spec)
    if not isinstance(question, GapQuestion):
        return "only the gap on one test set is taken apart: plan it with other steps, or tolerance"
    if (
        not spec.meter.sample.counts_rows
    ):  # its labels are those of the rows drawn, whatever the promise is counted of
        return f"the {question.unit} of a score or a judge are not taken apart: plan other settings"
    return None


def reasons(spec: MeterSpec) -> Reasons:
    """Say why a meter needs its labels, and which settings would spare some.

    Raises:
        InvalidInput: It does not ask for the gap of a loss on one test set.
    """
    if (why := why_unexplained(spec)) is not None:
        raise invalid("question", question_of(spec).statistic[:200], why)
    plan = required_labels(spec)
    fewer = [each for each in _knobs(spec, plan.labels) if each.plan.labels < plan.labels]
    unadapted = min(plan.labels, _unadapted(spec))
    return Reasons(plan, unadapted, tuple(sorted(fewer, key=lambda each: each.plan.labels)))


def _unadapted(spec: MeterSpec) -> int:
    """Return the labels for as many models as there are steps, each fixed before any answer.

    They are those of the same test set: with its ceiling and its strata, by the tightest bound.
    """
    nobody_looks = Memory(steps=int(spec.meter.budget.steps), memory=0)
    return solve.labels(msgspec.structs.replace(spec.meter, budget=nobody_looks, renewal=Fresh()))


def _knobs(spec: MeterSpec, labels: int) -> Iterator[Knob]:
    for change, options, costs in _changes(spec):
        try:
            yield Knob(change, required_labels(spec.replace(**options)), costs)
        except InvalidInput:  # it does not go together with something else
            continue
    try:
        half = reachable_tolerance(spec, max(1, labels // 2), keep_edges=True)
    except InvalidInput:  # so few cannot be drawn of all strata, or promise nothing
        return
    wider = ", ".join(dict.fromkeys(map(at_most, map(float, half.spec.meter.question.tolerances))))
    yield Knob(f"tolerance {wider}", half, "answers that are less exact")


def _changes(spec: MeterSpec) -> Iterator[tuple[str, dict[str, Any], str]]:
    question, budget = spec.meter.question, spec.meter.budget
    tolerance = float(question.tolerances[0])
    if question.numbered:
        apart = usually_apart(tolerance)
        yield f"drawn {apart:g}", {"drawn": apart}, "edges that move with every answer"
    if not (question.climbs_only or spec.meter.only_planned):
        worst = "you learn the worst band so far, not this model's"
        yield "incremental", {"protocol": Protocol.INCREMENTAL}, worst
    if question.limit is None:
        silent = f"no reading for test losses above {_CEILING:g}"
        yield f"ceiling {_CEILING:g}", {"ceiling": _CEILING}, silent
    one = question.numbered and len(set(question.tolerances)) == 1
    if one and not spec.has_default_edges:
        plain = spec.with_edges(default_edges(tolerance))
        named = ", ".join(f"{edge:g}" for edge in plain.edges)
        yield f"edges {named}", {"bands": plain.bands}, "bands at least two tolerances wide"
    steps = int(budget.steps)
    if steps > 1 and isinstance(budget, Steps | Memory):
        half = steps // 2
        fewer = "fewer" if steps % 2 else "half as many"
        yield f"steps {half}", {"steps": half}, f"{fewer} answers from a test set"
