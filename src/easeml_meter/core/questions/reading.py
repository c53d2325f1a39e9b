"""A reading of n - o: between which edges the accuracy of a model exceeds that of an old one.

What cannot be measured beside the old model is "too far", which promises nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from easeml_meter.conditions import Difference
from easeml_meter.core.questions.question import Question
from easeml_meter.promise.assumptions import APART, COMMON_ASSUMPTIONS, RIGHT_OR_WRONG
from easeml_meter.promise.budgets import Steps
from easeml_meter.promise.condition import Change
from easeml_meter.promise.meter import Meter
from easeml_meter.promise.numbers.rounding import at_most
from easeml_meter.promise.schema import exact
from easeml_meter.spec import MeterSpec

if TYPE_CHECKING:
    pass


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

    @property
    def statistic(self) -> str:
        return str(self.difference)

    @property
    def answers(self) -> tuple[str, ...]:
        """The bands, and what is said of a model that is unlike the old one."""
        bands = range(1, len(self.difference.edges) + 2)
        return (*(f"band {number}" for number in bands), "too far")

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

    def composed(self, steps: int, delta: float) -> Meter:
        """Return a meter of this reading."""
        asked = Change(ask=self.statistic, disagreement=exact(float(self.difference.most)))
        return Meter(question=asked, budget=Steps(steps=steps), delta=exact(delta))
