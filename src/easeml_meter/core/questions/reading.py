"""A reading of n - o: between which edges the accuracy of a model exceeds that of an old one."""

from __future__ import annotations

import math
from dataclasses import dataclass

from easeml_meter.conditions import Difference
from easeml_meter.core.questions.question import Question
from easeml_meter.stats import differences
from easeml_meter.stats.counting import log_geometric
from easeml_meter.stats.planning import COMMON_ASSUMPTIONS
from easeml_meter.stats.rounding import at_most


@dataclass(frozen=True)
class DifferenceReading(Question):
    """Bands of a difference, with one tolerance."""

    difference: Difference

    @property
    def statistic(self) -> str:
        """The reading as it is written."""
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
        """That of every band."""
        return self.difference.tolerance

    @property
    def promised(self) -> str:
        """What holds of each reading."""
        return (
            "each model's accuracy minus the old model's, as the test set shows it, is within "
            f"{at_most(self.tolerance)} of the true difference. So the true difference lies "
            "between the lower edge of the reported band minus that tolerance and the upper edge "
            'plus it. Nothing is promised about a model that is "too far".'
        )

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Those of every question, and what this one adds."""
        limit = at_most(float(self.difference.most))
        return (
            *COMMON_ASSUMPTIONS,
            "each prediction is right or wrong",
            "the old model was fixed before the session, or is one that was submitted",
            f"a model that differs from the old one on more than {limit} of the rows is answered "
            '"too far"',
        )

    def work(self, size: int) -> float:
        """Return what a tail costs whose worst place is searched in two dimensions."""
        return 20 * differences.summed_rows(size)

    def log_models(self, steps: int) -> float:
        """Count the consistent histories."""
        return log_geometric(self.consistent, steps)

    def log_tail(self, size: int) -> float:
        """Return the tail of both sides."""
        return differences.log_reading_tail(size, self.tolerance, self.difference.most)

    def log_tail_from(self, size: int) -> float:
        """Return the same for this size and all larger ones."""
        most = self.difference.most
        return differences.log_reading_tail(size, self.tolerance, most, onwards=True)

    def enough(self, nats: float) -> int:
        """By the bound in closed form."""
        rate = differences.rate(self.tolerance, float(self.difference.most))
        return math.ceil((nats + math.log(2)) * (1 + 1e-11) / rate) + 1
