"""Pass or fail against developers who choose from the answers: the promise holds."""

from __future__ import annotations

import numpy as np
import pytest

from easeml_meter.core.questions.planning import plan_of
from easeml_meter.lab.simulation.passing import false_passes
from easeml_meter.spec import MeterSpec

LEVEL = MeterSpec(bands=(), question="n > 0.3 +/- 0.05", steps=10, delta=0.1)
LADDER = MeterSpec(bands=(), question="better", tolerance=0.05, steps=10, delta=0.1)
RUNS = 4_000


@pytest.mark.parametrize("spec", [LEVEL, LADDER], ids=["level", "ladder"])
def test_bad_models_pass_no_more_often_than_promised(spec: MeterSpec) -> None:
    """The guarantee is for the best developer of all, so these stay below it."""
    found = false_passes(spec, plan_of(spec).labels, RUNS, np.random.default_rng(1))
    assert found <= spec.delta


@pytest.mark.parametrize(("spec", "share"), [(LEVEL, 4), (LADDER, 40)], ids=["level", "ladder"])
def test_with_too_few_labels_the_same_developers_win(spec: MeterSpec, share: int) -> None:
    """So the simulated developers do learn from the answers, and the labels are what holds them."""
    labels = plan_of(spec).labels // share
    found = false_passes(spec, labels, RUNS, np.random.default_rng(1))
    assert found > 2 * spec.delta
