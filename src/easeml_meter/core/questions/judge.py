"""The gap with a judge: few labels, and a frozen judge's word on a large pool without labels.

`promise.numbers.judges` has the estimate and its tail. One check at sealing, that the judge errs on
at most a share d of the labels, makes it small for all models.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from easeml_meter.checks import finite, whole
from easeml_meter.core.questions.bands import JUDGED_GAP, Bands, InBands
from easeml_meter.core.questions.question import Option
from easeml_meter.errors import invalid
from easeml_meter.promise import samples, solve
from easeml_meter.promise.assumptions import COMMON_ASSUMPTIONS, JUDGED
from easeml_meter.promise.budgets import Steps
from easeml_meter.promise.meter import Meter
from easeml_meter.promise.numbers.bounds import Bound
from easeml_meter.promise.numbers.rounding import at_most
from easeml_meter.promise.numbers.tails import log_tail
from easeml_meter.promise.schema import exact
from easeml_meter.spec import MeterSpec

if TYPE_CHECKING:
    from easeml_meter.core.questions.planning import Plan


@dataclass(frozen=True)
class Judge(InBands):
    """The size is the number of labels."""

    bands: Bands
    error: float
    """The largest share of labels on which the judge may err, d."""
    pool: int
    """The inputs without labels, N."""

    options = (
        Option("judge_error", float, "Few labels and a judge that errs on this share."),
        Option("pool", int, "With --judge-error: inputs without labels."),
    )

    @classmethod
    def asked(cls, given: dict[str, Any]) -> Self:
        if "pool" not in given:
            raise invalid("pool", None, "give the number of inputs without labels, such as 1000000")
        return cls(Bands.asked(given), given.pop("judge_error"), given.pop("pool"))

    def meter(self, plan: Plan, given: dict[str, Any]) -> MeterSpec:
        return self.bands.spec().replace(
            steps=plan.budget.steps,
            delta=plan.budget.delta,
            tries=plan.budget.tries,
            judge_error=self.error,
            pool=self.pool,
            rows=plan.size,
        )

    def __post_init__(self) -> None:
        finite("judge error", self.error)
        if not 0 < self.error < 1:
            raise invalid("judge error", self.error, "a share between 0 and 1 (both excluded)")
        whole("pool", self.pool, at_least=1)

    @property
    def statistic(self) -> str:
        return JUDGED_GAP

    @property
    def answers(self) -> tuple[str, ...]:
        return self.bands.answers

    @property
    def promised(self) -> str:
        within = at_most(self.tolerance)
        return f"each model's estimated test loss is within {within} of its true loss."

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The judge was fixed first, and both samples are of one distribution."""
        return (
            *COMMON_ASSUMPTIONS,
            *self.bands.assumptions,
            *JUDGED,
            f"a test set on which the judge errs on more than {at_most(self.error)} of the labels "
            "is refused when it is sealed",
        )

    def notes(self, steps: int, size: int, nats: float) -> tuple[str, ...]:
        """Whether the judge pays, against labels alone at the same chance of failure."""
        plain = Meter(question=self.bands.gap(), budget=Steps(steps=steps))
        alone = labels_alone(self.tolerance, solve.log_count(plain) + nats)
        if size >= alone:
            return (f"the judge does not pay: without it, {alone:,} labels are enough",)
        return (f"without the judge, {alone:,} labels are needed",)

    def composed(self, steps: int, delta: float) -> Meter:
        """Return a meter with a judge; the check at sealing is no answer."""
        rows = samples.Judge(judge_error=exact(self.error), pool=self.pool)
        budget = Steps(steps=steps)
        return Meter(question=self.bands.gap(), budget=budget, sample=rows, delta=exact(delta))


def labels_alone(tolerance: float, nats: float) -> int:
    """Return how many labels without a judge have a tail of at most exp(-nats)."""
    highest = math.ceil((nats + 1) / (2 * tolerance**2)) + 1
    return solve.smallest(lambda n: log_tail(Bound.EXACT, n, tolerance) + nats, highest)
