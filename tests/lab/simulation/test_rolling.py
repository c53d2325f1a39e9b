"""Rolling test sets against a developer who learns from the answers: the promise holds."""

from __future__ import annotations

import math

import numpy as np
import pytest

from easeml_meter.core.questions.kinds import question_of
from easeml_meter.core.questions.planning import plan_of
from easeml_meter.lab.simulation.rolling import broken_sessions
from easeml_meter.spec import MeterSpec

ROLLING = MeterSpec.uniform(signals=2, edges=[0.3], tolerance=0.15, steps=12, delta=0.2, window=3)
every_pace = pytest.mark.parametrize("submissions", [1, 2])


def share(spec: MeterSpec, batch: int, runs: int) -> float:
    return float(broken_sessions(spec, batch, runs, np.random.default_rng(8)).mean())


@every_pace
def test_the_promise_holds_against_a_climber(submissions: int) -> None:
    """With the fewest labels that the plan allows."""
    spec = ROLLING.replace(submissions=submissions)
    batch = plan_of(spec).size
    question = question_of(spec)
    bound = math.exp(question.log_failure(spec.steps, batch))
    assert share(spec, batch, 400) <= bound <= spec.delta


@every_pace
def test_with_too_few_labels_the_climber_wins(submissions: int) -> None:
    spec = ROLLING.replace(submissions=submissions)
    assert share(spec, plan_of(spec).size // 4, 400) > 2 * spec.delta
