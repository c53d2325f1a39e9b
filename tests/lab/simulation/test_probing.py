"""Conditions and differences against developers who learn from the answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from easeml_meter.core.questions.planning import plan_of
from easeml_meter.lab.simulation.probing import broken_sessions
from easeml_meter.spec import MeterSpec


def condition(question: str, **options: Any) -> MeterSpec:
    return MeterSpec(bands=(), question=question, **{"steps": 10, "delta": 0.1} | options)


METERS = {
    "level": condition("n > 0.3 +/- 0.05"),
    "high level": condition("n > 0.8 +/- 0.05"),
    "level from above": condition("n < 0.4 +/- 0.05"),
    "level, few passes": condition("n > 0.5 +/- 0.05", passes=2),
    "level, teams": condition("n > 0.5 +/- 0.05", tenants=(6, 4)),
    "share that differs": condition("d < 0.2 +/- 0.05"),
    "difference": condition("n - o > 0.02 +/- 0.05", disagreement=0.2),
    "difference of any models": condition("n - o > -0.1 +/- 0.05"),
    "difference from above": condition("n - o < 0.1 +/- 0.05", disagreement=0.3),
    "conjunction": condition("n > 0.6 +/- 0.05 /\\ n - o > 0 +/- 0.05", disagreement=0.3),
    "conjunction with d": condition("n - o > 0.02 +/- 0.05 /\\ d < 0.2 +/- 0.05"),
    "labels on demand": condition("n - o > 0 +/- 0.05", disagreement=0.2, on_demand=True),
    "reading": condition("n - o at -0.02, 0, 0.02 +/- 0.05", disagreement=0.2),
    "reading on demand": condition("n - o at 0 +/- 0.05", disagreement=0.2, on_demand=True),
}
LADDER = condition("better", tolerance=0.05)
TOO_FEW = 8
"""What share of the plan these developers need to break the promise often."""
RUNS = 1_000


def share(spec: MeterSpec, size: int, runs: int = RUNS, seed: int = 1) -> float:
    return float(broken_sessions(spec, size, runs, np.random.default_rng(seed)).mean())


@pytest.mark.parametrize("spec", [*METERS.values(), LADDER], ids=[*METERS, "ladder"])
def test_promises_are_broken_no_more_often_than_promised(spec: MeterSpec) -> None:
    """The guarantee is for the best developer of all, so these stay below it."""
    assert share(spec, plan_of(spec).size) <= spec.delta


@pytest.mark.parametrize("name", METERS)
def test_with_too_few_labels_the_same_developers_win(name: str) -> None:
    """So they do learn from the answers, and the labels are what holds them."""
    spec = METERS[name]
    assert share(spec, plan_of(spec).size // TOO_FEW) > 2 * spec.delta


def test_a_ladder_has_its_lucky_guesses_in_the_old_model() -> None:
    """What passed counts for nothing any more, so it takes fewer labels to break the promise."""
    assert share(LADDER, plan_of(LADDER).size // 40) > 2 * LADDER.delta


def test_one_step_is_planned_with_little_to_spare() -> None:
    spec = condition("n > 0.5 +/- 0.05", steps=1)
    assert 0.7 * spec.delta < share(spec, plan_of(spec).size, 10_000) <= 1.05 * spec.delta


@pytest.mark.verify
@pytest.mark.parametrize("name", METERS)
def test_many_sessions_of_more_steps(name: str) -> None:
    """With so many sessions, a failure of 1.3 delta would be noticed."""
    spec = METERS[name]
    teams = (12, 8) if spec.tenants else ()
    longer = spec.replace(steps=20, delta=0.05, tenants=teams)
    size = plan_of(longer).size
    assert share(longer, size, 10_000, seed=2) <= 0.05
    # On still fewer rows, the guesses alone would differ from the old model on too many of them.
    fewer = TOO_FEW * (1 if name == "conjunction with d" else 2)
    assert share(longer, size // fewer, 1_000, seed=2) > 0.1
