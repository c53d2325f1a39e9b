"""The alarm: "ok" promises that the true loss is at most the validation loss and g more.

What it may answer, at which level, and how large g is, stands in `promise`; here is what a meter of
this house needs of it: the settings it is made of, its rule, and its words. g is fixed by public
numbers when an answer is decided, and stands in its entry as the edge of that answer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Self

from easeml_meter.core.questions.question import Question
from easeml_meter.promise import ledger, solve, words
from easeml_meter.promise.alarm import chance_of_ok
from easeml_meter.promise.assumptions import assumptions_of
from easeml_meter.promise.ledger import Snapshot
from easeml_meter.promise.meter import Meter
from easeml_meter.promise.numbers.rounding import as_written, confidence_of
from easeml_meter.promise.questions import Shown
from easeml_meter.promise.schema import exact
from easeml_meter.spec import MeterSpec

if TYPE_CHECKING:
    from easeml_meter.core.questions.planning import Plan

THREE = 3
"""Alarms that close a test set, unless a meter says another number."""
USUAL_LOSS = Fraction(1, 5)
"""The loss that g is planned for, unless a meter says another one."""
_OTHER_LOSSES = (Fraction(1, 5), Fraction(3, 10), Fraction(1, 2))
_TENTH = 10
"""Without an end, a plan says what ok means if every tenth answer is an alarm."""


def _at(spec: MeterSpec, alarms: int = 0) -> Snapshot:
    """Return where a team stands; with an end, the level follows the number of alarms alone."""
    each = _TENTH if spec.endless else 1
    return Snapshot(0, (each * alarms, *range(each, each * alarms + 1, each)))


def in_force(spec: MeterSpec, at: Snapshot, rows: int, validation_rows: int) -> MeterSpec:
    """Return a meter with the g that its next answer has on sets of these sizes."""
    g = ledger.margin(spec.meter, at, Shown(rows, None, validation_rows))
    return spec if g is None or g >= 1 else spec.replace(g=float(g))


def points(g: Fraction | None) -> str:
    """Return g in points, rounded up to a tenth; a dash where no g would do."""
    return "-" if g is None else f"{math.ceil(g * 1000) / 10:.1f}"


def _percent(share: Fraction) -> str:
    return f"{float(100 * share):g} %"


@dataclass(frozen=True)
class AlarmQuestion(Question):
    """Whether a model overfits by more than is accepted."""

    spec: MeterSpec
    validation_rows: int | None = None
    """Those of the validation set; None: it is taken to have half as many as there are labels."""

    @classmethod
    def of_meter(cls, spec: MeterSpec) -> Self | None:
        """Return the question of a meter that raises alarms."""
        return cls(spec) if spec.vouches else None

    @property
    def statistic(self) -> str:
        """What is asked of each model."""
        return words.statistic(self.spec.meter)

    @property
    def answers(self) -> tuple[str, ...]:
        """Two, whatever happens."""
        return ("ok", "alarm")

    @property
    def promised(self) -> str:
        """What is true of every model that is ok."""
        return words.promised(self.spec.meter)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Those of every question, and what this one adds."""
        return assumptions_of(self.spec.meter)

    def together(self, steps: int) -> str:
        """Say which answers share delta."""
        return "in all steps together" if self.spec.endless else super().together(steps)

    def composed(self, steps: int, delta: float) -> Meter:
        """Return the meter, with these answers and this delta."""
        return self.spec.replace(steps=steps, delta=delta).meter

    @property
    def promised_points(self) -> float | None:
        """What ok adds to the validation error before an alarm, in points; None: nothing does."""
        found = self._margins(self.planned)[0]
        return None if found is None else float(points(found))

    @property
    def headline(self) -> str:
        """Say what ok will mean, before an alarm and after each."""
        size = self.planned
        first, *later = self._margins(size)
        names = ("one alarm", "two")
        if self.spec.endless:
            names = (f"one alarm at answer {_TENTH}", f"another at {2 * _TENTH}")
        after = [
            f"{points(more)} after {name}"
            for alarms, name in enumerate(names, 1)
            if alarms <= len(later) and (more := later[alarms - 1]) not in (None, first)
        ]
        sizes = f"{size:,} labels, {self._rows(size):,} validation rows"
        told = "; ".join([sizes, ", ".join(after)]) if after else sizes
        bound = f"the validation error + {points(first)} points"
        return f"ok will mean: true error at most {bound} ({told})."

    @property
    def below_headline(self) -> str:
        """Say how sure that is, and how often a model that does nothing wrong is ok at first."""
        size = self.planned
        rows, g = self._rows(size), self._margins(size)[0]
        sure = f"{100 * float(confidence_of(as_written(self.spec.delta))):g} % sure"
        if g is None:
            return f"{sure} of all ok together."
        expects = exact(self.spec.expects or USUAL_LOSS)
        level = ledger.level(self.spec.meter, _at(self.spec))

        def times(loss: Fraction) -> int:
            return round(100 * chance_of_ok(size, rows, loss, g, level))

        worse = [each for each in _OTHER_LOSSES if each > expects][:2]
        others = ", ".join(f"{_percent(each)}: {times(each)}" for each in worse)
        return (
            f"{sure} of all ok together. A model at an error of {_percent(expects)} that was "
            f"neither fitted nor chosen on the validation rows is ok {times(expects)} times in 100 "
            f"at the first answer{f' ({others})' if others else ''}."
        )

    def _rows(self, size: int) -> int:
        return max(1, size // 2) if self.validation_rows is None else self.validation_rows

    def _margins(self, size: int) -> list[Fraction | None]:
        stages = range(self.spec.alarms or THREE)
        if not self.spec.endless:
            stages = stages[: self.spec.steps]
        shown = Shown(size, None, self._rows(size))
        return [ledger.margin(self.spec.meter, _at(self.spec, alarms), shown) for alarms in stages]

    @property
    def after_an_alarm(self) -> str:
        """What ok adds once there was an alarm, in points; a dash where it adds nothing."""
        found = self._margins(self.planned)
        return points(found[1]) if len(found) > 1 else "-"

    def details(self, plan: Plan) -> dict[str, Any]:
        """Return what ok will mean, for programs."""
        found = self._margins(plan.size)
        after = [None if g is None else float(points(g)) for g in found]
        return {
            "promised_points": after[0],
            "points_after_alarms": after[1:],
            "validation_rows": self._rows(plan.size),
        }

    @property
    def planned(self) -> int:
        """The labels that a labeler is asked for."""
        return solve.labels(self.spec.meter)
