"""A reading of n - o: between which edges the accuracy of a model exceeds that of an old one.

What cannot be measured beside the old model is "too far", which promises nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from easeml_meter.conditions import Comparison, Difference, Variable
from easeml_meter.core.questions.question import Question
from easeml_meter.core.signals import BASELINE, TOO_FAR, Loss, Rules, State
from easeml_meter.promise.assumptions import APART, COMMON_ASSUMPTIONS, RIGHT_OR_WRONG
from easeml_meter.promise.numbers import differences
from easeml_meter.promise.numbers.rounding import as_written, at_least, at_most
from easeml_meter.spec import MeterSpec
from easeml_meter.stats.counting import log_geometric

if TYPE_CHECKING:
    from easeml_meter.core.views import Signal


@dataclass(frozen=True)
class DifferenceReading(Question):
    """Bands of a difference, with one tolerance."""

    difference: Difference

    @classmethod
    def of_meter(cls, spec: MeterSpec) -> Question | None:
        """Return the reading that a meter asks; with labels on demand, `ondemand` has it."""
        if spec.difference is None or spec.on_demand:
            return None
        return cls(spec.difference)

    def rules(self, spec: MeterSpec) -> Rules:
        return Changes(spec)

    @property
    def statistic(self) -> str:
        return str(self.difference)

    @property
    def answers(self) -> tuple[str, ...]:
        """The bands, and what is said of a model that is unlike the old one."""
        bands = range(1, len(self.difference.edges) + 2)
        return (*(f"band {number}" for number in bands), "too far")

    @property
    def consistent(self) -> int:
        """The bands that one model can be told of, and "too far", which promises nothing."""
        return self.difference.possible + 1

    @property
    def tolerance(self) -> float:
        return self.difference.tolerance

    @property
    def promised(self) -> str:
        return (
            "each model's accuracy minus the old model's, as the test set shows it, is within "
            f"{at_most(self.tolerance)} of the true difference. So the true difference lies "
            "between the lower edge of the reported band minus that tolerance and the upper edge "
            'plus it. Nothing is promised about a model that is "too far".'
        )

    @property
    def assumptions(self) -> tuple[str, ...]:
        limit = at_most(float(self.difference.most))
        return (
            *COMMON_ASSUMPTIONS,
            RIGHT_OR_WRONG,
            "the old model was fixed before the session, or is one that was submitted",
            f'a model is "too far" {APART} {limit} of the rows',
        )

    def work(self, size: int) -> float:
        """Return what a tail costs whose worst place is searched in two dimensions."""
        return 20 * differences.summed_rows(size)

    def log_models(self, steps: int) -> float:
        return log_geometric(self.consistent, steps)

    def log_tail(self, size: int) -> float:
        return differences.log_reading_tail(size, self.tolerance, self.difference.most)

    def log_tail_from(self, size: int) -> float:
        most = self.difference.most
        return differences.log_reading_tail(size, self.tolerance, most, onwards=True)

    def enough(self, nats: float) -> int:
        """By the bound in closed form."""
        rate = differences.rate(self.tolerance, float(self.difference.most))
        return math.ceil((nats + math.log(2)) * (1 + 1e-11) / rate) + 1


@dataclass(frozen=True)
class Changes(Rules):
    """The rule of a reading of n - o, step by step."""

    @property
    def difference(self) -> Difference:
        """What is read."""
        if self.spec.difference is None:
            raise AssertionError("this meter reads no difference")
        return self.spec.difference

    def answers(self, state: State) -> tuple[int, ...]:
        """List the bands and "too far"; before them comes a model to compare with, for free."""
        bands = range(1, len(self.difference.edges) + 2)
        return (*bands, TOO_FAR) if state.based else (BASELINE,)

    def answer(
        self,
        state: State,
        validation_loss: Loss,
        test_loss: Loss,
        against: Comparison | None = None,
    ) -> int:
        if against is None:
            raise AssertionError("a model must be compared with the old one")
        if against.apart(predictions=self.spec.on_demand) > self.difference.most:
            return TOO_FAR
        return self.difference.band(against.value(Variable.CHANGE))

    def unread(self, state: State, reason: int) -> int:
        """Return "too far" for what could not be measured; the first model is no loss."""
        return self.answers(state)[-1]

    def after(self, state: State, answer: int) -> State:
        return replace(state, based=True)

    def tolerance(self, answer: int) -> float | None:
        return self.difference.tolerance if answer > 0 else None

    def range_of(self, answer: int) -> None:
        """Return None: no gap is told."""

    def change_of(self, answer: int) -> tuple[float, float] | None:
        if answer < 1:
            return None
        outer = (-1.0, *self.difference.edges, 1.0)
        return outer[answer - 1], outer[answer]

    def true_change_of(self, answer: int) -> tuple[float, float] | None:
        """Return what an answer promises of the true difference: the band, widened by eps."""
        told = self.change_of(answer)
        if told is None:
            return None
        eps = as_written(self.difference.tolerance)
        least = max(as_written(told[0]) - eps, Fraction(-1))
        most = min(as_written(told[1]) + eps, Fraction(1))
        return float(at_least(least, digits=15)), float(at_most(most, digits=15))

    def truth(
        self, validation_loss: Fraction, test_loss: Fraction, against: Comparison | None = None
    ) -> dict[str, Any]:
        if against is None:
            return {"band": None}
        told = self.answer(State(based=True), validation_loss, test_loss, against=against)
        change = float(against.value(Variable.CHANGE))
        return {"band": told if told > 0 else None, "change": change}

    def sentence(self, signal: Signal, sure: str) -> str:
        if signal.answer == TOO_FAR:
            most = at_least(self.spec.disagreement or 0.0)
            what = "the two predict different things"
            if not self.spec.on_demand:
                what = "exactly one of the two is right"
            return (
                f"This model is too far from that of step {signal.old}: on more than {most} of the "
                f"rows {what}; nothing else is reported, and nothing is promised."
            )
        told = self.true_change_of(signal.answer)
        if told is None:
            return super().sentence(signal, sure)
        return (
            f"{sure}: this model's true accuracy minus that of step {signal.old:,} lies "
            f"between {at_least(told[0])} and {at_most(told[1])}."
        )

    def true_loss(self, answer: int, validation_loss: Fraction) -> tuple[None, None]:
        """Return nothing: how good the old model is, nobody has said."""
        return None, None
