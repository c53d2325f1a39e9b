"""Labels on demand: fresh inputs for every step, and labels only where two models differ.

A condition on n - o reads no label of a row on which both models predict the same. With fresh
inputs for every step no model depends on an answer about them, so only T models count.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from easeml_meter.conditions import Variable
from easeml_meter.core.questions.passing import PassFail
from easeml_meter.core.questions.question import Question
from easeml_meter.errors import invalid


@dataclass(frozen=True)
class OnDemand(Question):
    """The size is the number of fresh inputs for each step."""

    condition: PassFail

    def __post_init__(self) -> None:
        if any(clause.variable is Variable.ACCURACY for clause in self.condition.clauses):
            raise invalid("question", str(self.condition), '"n" needs every label: leave it out')
        if not self.condition.compares or self.condition.most == 1:
            allowed = 'labels on demand need "n - o" and a disagreement'
            raise invalid("question", str(self.condition), allowed)

    @property
    def statistic(self) -> str:
        """The condition as it is written."""
        return self.condition.statistic

    @property
    def unit(self) -> str:
        """What each step uses up."""
        return "inputs a step"

    @property
    def answers(self) -> tuple[str, ...]:
        """Pass and fail."""
        return self.condition.answers

    @property
    def promised(self) -> str:
        """What is true of a model that passes."""
        return self.condition.promised

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The bill must not tell what the answer does not."""
        return (
            *self.condition.assumptions,
            "each step has fresh inputs, drawn before the session",
            "labels are given without knowledge of the models",
            "each step buys the same number of labels, so that the bill tells nothing",
        )

    def quota(self, size: int) -> int:
        """Return how many labels each step buys: no more rows can differ in a model that passes."""
        return math.ceil(size * self.condition.most)

    def notes(self, steps: int, size: int, nats: float) -> tuple[str, ...]:
        """What it costs in labels."""
        each = self.quota(size)
        return (f"{each:,} labels a step, {steps * each:,} in all",)

    def work(self, size: int) -> float:
        """Return what the condition costs."""
        return self.condition.work(size)

    def log_models(self, steps: int) -> float:
        """One model for each step."""
        return math.log(steps)

    def log_tail(self, size: int) -> float:
        """Return the tail of the condition."""
        return self.condition.log_tail(size)

    def log_tail_from(self, size: int) -> float:
        """Return the same for this size and all larger ones."""
        return self.condition.log_tail_from(size)

    def enough(self, nats: float) -> int:
        """Return what is enough for the condition."""
        return self.condition.enough(nats)
