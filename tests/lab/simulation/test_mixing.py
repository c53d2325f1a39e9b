"""Mixed sessions against developers who choose questions from the answers: the promise holds."""

from __future__ import annotations

import numpy as np

from easeml_meter.core.questions.planning import plan_of
from easeml_meter.lab.simulation.mixing import broken_sessions
from easeml_meter.spec import MeterSpec

MIXED = MeterSpec.uniform(
    tolerance=0.05, edges=[0.1, 0.2], steps=10, delta=0.1, also=("n > 0.5 +/- 0.05",)
)
RUNS = 1_000


def test_promises_are_broken_no_more_often_than_promised() -> None:
    found = broken_sessions(MIXED, plan_of(MIXED).labels, RUNS, np.random.default_rng(1))
    assert found <= MIXED.delta


def test_with_too_few_labels_the_same_developers_win() -> None:
    """So they do learn from the answers, and the labels are what holds them."""
    found = broken_sessions(MIXED, plan_of(MIXED).labels // 6, RUNS, np.random.default_rng(1))
    assert found > 2 * MIXED.delta
