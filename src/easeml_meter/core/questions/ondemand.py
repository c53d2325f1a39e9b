"""Labels on demand: only where two models differ, on one test set or on fresh inputs.

A condition on n - o, or a reading of it, reads no label of a row on which both models predict the
same. Labels bought later are those that were there all along, so on one test set for all steps
every count and tail stays as it is (`Reused`). With fresh inputs for every step no model depends on
an answer about them, so only T models count (`OnDemand`, which is planned and no meter asks).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Self

import msgspec

from easeml_meter.core.questions.passing import PassFail
from easeml_meter.core.questions.question import Question
from easeml_meter.core.questions.reading import DifferenceReading
from easeml_meter.errors import invalid
from easeml_meter.promise import samples as promised
from easeml_meter.promise.assumptions import BOUGHT
from easeml_meter.promise.meter import Meter
from easeml_meter.promise.numbers.rounding import as_written
from easeml_meter.promise.renewals import EveryStep
from easeml_meter.spec import MeterSpec
from easeml_meter.spec.questions import EVERY_LABEL

ONE_TEST_SET = (
    "a meter has one test set for all steps: leave out --on-demand, and write on_demand = true "
    "into its meter.toml"
)
"""Why fresh inputs for every step are a plan and no meter."""


class _Bought(Question):
    """A question that stays as it is, whenever the labels come that it reads."""

    question: PassFail | DifferenceReading

    @property
    def statistic(self) -> str:
        return self.question.statistic

    @property
    def answers(self) -> tuple[str, ...]:
        return self.question.answers

    @property
    def promised(self) -> str:
        return self.question.promised

    def composed(self, steps: int, delta: float) -> Meter:
        """Return a meter of the question: its tail stays as it is.

        Models that differ on too many rows have no reading. Here those rows are counted by what is
        predicted, of which there are never fewer: the event is part of the one that is bounded.
        """
        meter = self.question.composed(steps, delta)
        return msgspec.structs.replace(meter, sample=promised.OnDemand())


@dataclass(frozen=True)
class Reused(_Bought):
    """One test set for all steps, sealed without labels; the size is the number of its inputs."""

    question: PassFail | DifferenceReading

    @classmethod
    def of_meter(cls, spec: MeterSpec) -> Self | None:
        """Return the question of a meter whose labels are bought when they are needed."""
        if not spec.on_demand:
            return None
        if spec.difference is not None:
            return cls(DifferenceReading(spec.difference))
        return None if spec.condition is None else cls(PassFail.of(spec.condition))

    @property
    def most(self) -> Fraction:
        """The share of rows on which a model may differ from the old one."""
        compared = (
            self.question.difference
            if isinstance(self.question, DifferenceReading)
            else self.question
        )
        return as_written(compared.disagreement or 1)

    @property
    def unit(self) -> str:
        return "inputs"

    @property
    def tolerance(self) -> float | None:
        return self.question.tolerance

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The inputs must be there first, and the bill must not tell what the answer does not."""
        return (
            *self.question.assumptions,
            "the inputs were drawn before the first submission",
            *BOUGHT,
        )

    def notes(self, steps: int, size: int, nats: float) -> tuple[str, ...]:
        each = math.ceil(size * self.most)
        return (f"{each:,} labels a step, at most {min(size, steps * each):,} in all",)


@dataclass(frozen=True)
class OnDemand(_Bought):
    """The size is the number of fresh inputs for each step."""

    question: PassFail

    def __post_init__(self) -> None:
        if self.question.reads_every_label:
            raise invalid("question", str(self.question), f"{EVERY_LABEL}: leave it out")
        if not self.question.compares or self.question.most == 1:
            allowed = 'labels on demand need "n - o" and a disagreement'
            raise invalid("question", str(self.question), allowed)

    @property
    def unit(self) -> str:
        return "inputs a step"

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The bill must not tell what the answer does not."""
        return (
            *self.question.assumptions,
            "each step has fresh inputs, drawn before the session",
            *BOUGHT,
        )

    def quota(self, size: int) -> int:
        """Return how many labels each step buys: no more rows can differ in a model that passes."""
        return math.ceil(size * self.question.most)

    def notes(self, steps: int, size: int, nats: float) -> tuple[str, ...]:
        each = self.quota(size)
        return (f"{each:,} labels a step, {steps * each:,} in all",)

    def composed(self, steps: int, delta: float) -> Meter:
        """Return a meter with fresh inputs for every step."""
        meter = super().composed(steps, delta)
        return msgspec.structs.replace(meter, renewal=EveryStep())
