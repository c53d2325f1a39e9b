"""The gap with a judge: few labels, and a frozen judge's word on a large pool without labels.

A model is compared with the judge on the pool, and the judge with the truth on the labels:

    estimate(h) = mean over pool of l(h, judge) + mean over labels of (l(h, y) - l(h, judge)).

The second term is 0 wherever the judge is right, so one check at sealing, that the judge errs on
at most a share d of the labels, makes it small for all models.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from easeml_meter.checks import finite, whole
from easeml_meter.core.questions.bands import Bands
from easeml_meter.core.questions.question import Question
from easeml_meter.errors import invalid
from easeml_meter.spec import Bound
from easeml_meter.stats import differences
from easeml_meter.stats.counting import log_geometric, log_sum
from easeml_meter.stats.planning import COMMON_ASSUMPTIONS, smallest
from easeml_meter.stats.rounding import as_written, at_most
from easeml_meter.stats.tails import log_tail

_SPLITS = 200
"""Ways to divide the tolerance between pool and labels that are compared."""
_LOOSER = 3.0
"""Nats by which the closed form is above the tail of the labels, more than for the pool."""


@dataclass(frozen=True)
class Judge(Question):
    """The size is the number of labels."""

    bands: Bands
    error: float
    """The largest share of labels on which the judge may err, d."""
    pool: int
    """The inputs without labels, N."""

    def __post_init__(self) -> None:
        finite("judge error", self.error)
        if not 0 < self.error < 1:
            raise invalid("judge error", self.error, "a share between 0 and 1 (both excluded)")
        whole("pool", self.pool, at_least=1)

    @property
    def statistic(self) -> str:
        """The gap, with the judge's help."""
        return "the gap between validation loss and test loss, with a judge"

    @property
    def answers(self) -> tuple[str, ...]:
        """The bands."""
        return self.bands.answers

    @property
    def tolerance(self) -> float:
        """That of the bands."""
        return self.bands.tolerance

    @property
    def promised(self) -> str:
        """What holds of each reading."""
        within = at_most(self.tolerance)
        return f"each model's estimated test loss is within {within} of its true loss."

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The judge was fixed first, and both samples are of one distribution."""
        return (
            *COMMON_ASSUMPTIONS,
            "each prediction is right or wrong",
            "validation sets are drawn and replaced without looking at the test set",
            "the judge was fixed before the labels were drawn",
            "pool and labels are random samples of the same distribution",
            f"a test set on which the judge errs on more than {at_most(self.error)} of the labels "
            "is refused when it is sealed",
        )

    def notes(self, steps: int, size: int, nats: float) -> tuple[str, ...]:
        """Whether the judge pays, against labels alone at the same chance of failure."""
        alone = labels_alone(self.tolerance, self.log_models(steps) + nats)
        if size >= alone:
            return (f"the judge does not pay: without it, {alone:,} labels are enough",)
        return (f"without the judge, {alone:,} labels are needed",)

    def work(self, size: int) -> float:
        """A correction has its worst place in two dimensions."""
        return 20 * differences.summed_rows(size)

    def log_models(self, steps: int) -> float:
        """Count the consistent histories of bands; the check at sealing is no answer."""
        return log_geometric(self.bands.consistent, steps)

    def log_tail(self, size: int) -> float:
        """Return log(tail(N, eps1) + tail of the correction at eps2), eps1 + eps2 = eps.

        Any division is valid that does not look at the data. The one taken is best for the bounds
        in closed form.
        """
        return self._log_tail(size, onwards=False)

    def log_tail_from(self, size: int) -> float:
        """Return the same for this size and all larger ones."""
        return self._log_tail(size, onwards=True)

    def _log_tail(self, size: int, *, onwards: bool) -> float:
        if size < 1:
            return 0.0
        tolerance = self.tolerance

        def closed(part: float) -> float:
            rest = differences.rate(tolerance - part, self.error)
            return max(-2 * self.pool * part**2, -size * rest - _LOOSER)

        parts = (tolerance * k / _SPLITS for k in range(1, _SPLITS))
        part = min(parts, key=closed)
        pool = log_tail(Bound.EXACT, self.pool, part)
        correction = differences.log_reading_tail(
            size, tolerance - part, as_written(self.error), onwards=onwards
        )
        return min(0.0, log_sum((pool, correction)))

    def enough(self, nats: float) -> int:
        """Give the pool what it needs by Hoeffding's bound, and the labels the rest."""
        part = math.sqrt((nats + 2) / (2 * self.pool))
        if part >= 0.98 * self.tolerance:
            least = math.ceil((nats + 2) / (2 * (0.98 * self.tolerance) ** 2))
            raise invalid("pool", self.pool, f"too small: at least {least:,} inputs needed")
        return math.ceil((nats + 2) / differences.rate(self.tolerance - part, self.error)) + 1


def labels_alone(tolerance: float, nats: float) -> int:
    """Return how many labels without a judge have a tail of at most exp(-nats)."""
    highest = math.ceil((nats + 1) / (2 * tolerance**2)) + 1
    return smallest(lambda n: log_tail(Bound.EXACT, n, tolerance) + nats, highest)
