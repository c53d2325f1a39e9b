"""A reading of n - o: between which edges the accuracy of a model exceeds that of an old one.

What cannot be measured beside the old model is "too far", which promises nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from easeml_meter.conditions import Difference
from easeml_meter.core.questions.question import Question
from easeml_meter.promise.assumptions import APART, COMMON_ASSUMPTIONS, RIGHT_OR_WRONG
from easeml_meter.promise.numbers import differences
from easeml_meter.promise.numbers.rounding import at_most
from easeml_meter.spec import MeterSpec
from easeml_meter.stats.counting import log_geometric

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
