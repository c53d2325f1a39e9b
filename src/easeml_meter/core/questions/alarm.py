"""The alarm: "ok" promises that the true loss is at most the validation loss and g more.

What it may answer, at which level, and how large g is, stands in `promise`; here is what a meter of
this house needs of it: the settings it is made of, its rule, and its words. g is fixed by public
numbers when an answer is decided, and stands in its entry as the edge of that answer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Self

from easeml_meter.conditions import Comparison
from easeml_meter.core.questions.question import Question
from easeml_meter.core.signals import ALARM, NO_READING, OK, Rules, State
from easeml_meter.errors import invalid
from easeml_meter.promise import ledger, words
from easeml_meter.promise.alarm import chance_of_ok, labels_for
from easeml_meter.promise.assumptions import assumptions_of
from easeml_meter.promise.ledger import Snapshot
from easeml_meter.promise.numbers.rounding import as_written, at_most, confidence_of
from easeml_meter.promise.questions import Shown
from easeml_meter.promise.schema import exact
from easeml_meter.spec import MeterSpec

if TYPE_CHECKING:
    from easeml_meter.core.questions.planning import Plan
    from easeml_meter.core.views import Signal

THREE = 3
"""Alarms that close a test set, unless a meter says another number."""
USUAL_LOSS = Fraction(1, 5)
"""The loss that g is planned for, unless a meter says another one."""
_OTHER_LOSSES = (Fraction(1, 5), Fraction(3, 10), Fraction(1, 2))
_NUMBERS = ("one", "two")


def _at(alarms: int = 0) -> Snapshot:
    """Return where a team stands: with an end, the level follows the number of alarms alone."""
    return Snapshot(0, (alarms, *range(1, alarms + 1)))


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
class AlarmRules(Rules):
    """ok or alarm, with g as the edge of each answer (`first_edge`)."""

    def drawing(self, first_edge: Fraction | None) -> AlarmRules:
        """Return the rule for one answer, whose g is this."""
        return replace(self, first_edge=first_edge)

    def answers(self, state: State) -> tuple[int, ...]:
        """List both answers, the more usual one first."""
        return (OK, ALARM)

    def answer(
        self,
        state: State,
        validation_loss: float | Fraction,
        test_loss: float | Fraction,
        against: Comparison | None = None,
    ) -> int:
        """Refuse: an answer needs the sizes of both sets."""
        raise AssertionError("an alarm is answered by the ledger")

    def unread(self, state: State, reason: int) -> int:
        """Return an alarm: no word says that a model could not be measured."""
        return ALARM if reason == NO_READING else reason

    def after(self, state: State, answer: int) -> State:
        """Return the state once this was told: alarms are counted."""
        return replace(state, passes=state.passes + 1) if answer == ALARM else state

    def ended(self, state: State) -> bool:
        """Whether the last alarm was raised."""
        return state.passes >= (self.spec.alarms or THREE)

    def left(self, state: State, steps: int) -> int:
        """Return the answers that are promised if each of them is an alarm."""
        return min(steps, (self.spec.alarms or THREE) - state.passes)

    def share_left(self, state: State) -> float:
        """Return the share of the alarms that are left."""
        return 1 - state.passes / (self.spec.alarms or THREE)

    def tolerance(self, answer: int) -> None:
        """Return None: no value is told that could be off."""

    def range_of(self, answer: int) -> None:
        """Return None: no gap is told."""

    def true_loss(
        self, answer: int, validation_loss: Fraction
    ) -> tuple[float | None, float | None]:
        """Return what an ok promises: at most v + g."""
        if answer != OK or self.first_edge is None:
            return None, None
        return None, float(at_most(min(Fraction(1), validation_loss + self.first_edge), digits=15))

    def truth(
        self,
        validation_loss: Fraction,
        test_loss: Fraction,
        against: Comparison | None = None,
    ) -> dict[str, Any]:
        """Return whether the claim holds of these rows; an alarm claims nothing."""
        if self.first_edge is None:
            return {"band": None}
        return {"band": None, "passed": test_loss <= validation_loss + self.first_edge}

    def sentence(self, signal: Signal, sure: str) -> str:
        """Say what an ok promises; nothing for an alarm."""
        if signal.answer != OK or signal.true_loss_at_most is None:
            return "The test set does not vouch for this model: nothing is promised about it."
        most, g = at_most(signal.true_loss_at_most), at_most(signal.g or 0.0)
        return (
            f"{sure}: this model's true loss is at most {most}, its validation loss and {g} more."
        )


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

    def rules(self, spec: MeterSpec) -> Rules:
        """Return the rule of alarms."""
        return AlarmRules(spec)

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

    def log_models(self, steps: int) -> float:
        """Count nothing: levels of the answers share delta, whatever the size is."""
        return 0.0

    def log_tail(self, size: int) -> float:
        """Return delta where a model without an error would be ok, else 1."""
        return math.log(self.spec.delta) - 1e-9 if size >= self.least else 0.0

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
        after = [
            f"{points(more)} after {name}{' alarm' * (alarms == 1)}"
            for alarms, name in enumerate(_NUMBERS, 1)
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
        level = ledger.level(self.spec.meter, _at())

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
        stages = range(min(self.spec.alarms or THREE, self.spec.steps))
        shown = Shown(size, None, self._rows(size))
        return [ledger.margin(self.spec.meter, _at(alarms), shown) for alarms in stages]

    @property
    def after_an_alarm(self) -> str:
        """What ok adds once there was an alarm, in points; a dash where it adds nothing."""
        return points(self._margins(self.planned)[1]) if self.spec.steps > 1 else "-"

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
    def least(self) -> int:
        """The fewest labels of which 0 errors would be ok at the first answer."""
        spec = self.spec
        level = ledger.level(spec.meter, _at())
        claim = float(exact(spec.expects or USUAL_LOSS)) + (spec.g or 0.0)
        if spec.g is not None:
            return math.ceil(math.log(float(level)) / math.log1p(-min(claim, 0.99)))
        size = 1
        while ledger.margin(spec.meter, _at(), Shown(size)) is None:
            size += 1
        return size

    def enough(self, nats: float) -> int:
        """Return the labels there are, or those for which g is large enough."""
        return self.planned

    @property
    def planned(self) -> int:
        """The labels that a labeler is asked for."""
        spec = self.spec
        if spec.labels is not None:
            if spec.labels < self.least:
                raise invalid("labels", spec.labels, f"too few for an alarm: {self.least} needed")
            return spec.labels
        level = ledger.level(spec.meter, _at())
        expects = exact(spec.expects or USUAL_LOSS)
        found = labels_for(as_written(spec.g or 1.0), level, 0, expects)
        if found is None:
            raise invalid("g", spec.g, "too small: the noise of the validation set exceeds it")
        return found

    def rounded_up(self, size: int) -> int:
        """Ask for the labels there are: fewer would be counted, and promise less."""
        return max(size, self.planned)
