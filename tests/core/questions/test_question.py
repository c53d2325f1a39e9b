"""What every question has."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest

from easeml_meter.core.questions.question import Question


@dataclass(frozen=True)
class Coin(Question):
    """The smallest question there is."""

    statistic = "whether it is heads"
    answers = ("heads", "tails")
    promised = "heads is heads."
    assumptions = ()

    def log_models(self, steps: int) -> float:
        return steps * math.log(2)

    def log_tail(self, size: int) -> float:
        return -float(size)

    def enough(self, nats: float) -> int:
        return math.ceil(nats)


def test_a_failure_is_models_times_tail() -> None:
    assert Coin().log_failure(3, 5) == pytest.approx(3 * math.log(2) - 5)
    assert Coin().log_failure(3, 5, onwards=True) == Coin().log_failure(3, 5)
    assert Coin().unit == "labels"


def test_a_question_needs_all_its_parts() -> None:
    with pytest.raises(TypeError, match="abstract"):
        Question()  # type: ignore[abstract]
