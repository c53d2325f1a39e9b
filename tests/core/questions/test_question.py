"""What every question has."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from easeml_meter.core.questions.planning import Budget, plan_of, required_size
from easeml_meter.core.questions.question import Question
from easeml_meter.promise.meter import Meter
from easeml_meter.spec import MeterSpec

SPEC = MeterSpec.uniform(tolerance=0.1)


@dataclass(frozen=True)
class Coin(Question):
    """The smallest question there is."""

    statistic = "whether it is heads"
    answers = ("heads", "tails")
    promised = "heads is heads."
    assumptions = ()

    def composed(self, steps: int, delta: float) -> Meter:
        return MeterSpec.uniform(tolerance=0.1, steps=steps, delta=delta).meter


def test_a_question_is_planned_as_the_meter_that_asks_it() -> None:
    assert required_size(Coin(), Budget(10, 0.1)).size == plan_of(SPEC).labels
    assert Coin().unit == "labels"


def test_a_question_needs_all_its_parts() -> None:
    with pytest.raises(TypeError, match="abstract"):
        Question()  # type: ignore[abstract]
