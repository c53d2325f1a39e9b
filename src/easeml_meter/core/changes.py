"""Bands of n - o: the feedback rule of a meter that reads how much better a model is.

What cannot be measured beside the old model is "too far", which promises nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from easeml_meter.conditions import Comparison, Difference, Variable
from easeml_meter.core.signals import BASELINE, TOO_FAR, Rules, State
from easeml_meter.stats.rounding import as_written, at_least, at_most


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
        validation_loss: float | Fraction,
        test_loss: float | Fraction,
        variance: float | Fraction = 0,
        against: Comparison | None = None,
    ) -> int:
        """Return what is told of a model that is so `against` the old one."""
        if against is None:
            raise AssertionError("a model must be compared with the old one")
        if against.apart(predictions=self.spec.on_demand) > self.difference.most:
            return TOO_FAR
        return self.difference.band(against.value(Variable.CHANGE))

    def unread(self, state: State, reason: int) -> int:
        """Return "too far" for what could not be measured; the first model is no loss."""
        return self.answers(state)[-1]

    def after(self, state: State, answer: int) -> State:
        """Return the state once this was told."""
        return replace(state, based=True)

    def ended(self, state: State, tenants: int = 1) -> bool:
        """Return False: no answer closes the test set."""
        return False

    def tolerance(self, answer: int) -> float | None:
        """Return the tolerance of a reading."""
        return self.difference.tolerance if answer > 0 else None

    def range_of(self, answer: int) -> None:
        """Return None: no gap is told."""

    def change_of(self, answer: int) -> tuple[float, float] | None:
        """Return the edges of n - o that an answer tells; None without a reading."""
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

    def true_loss(self, answer: int, validation_loss: Fraction) -> tuple[None, None]:
        """Return nothing: how good the old model is, nobody has said."""
        return None, None
