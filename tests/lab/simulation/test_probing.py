"""Conditions and differences against developers who learn from the answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from easeml_meter.lab.simulation.probing import broken_sessions
from easeml_meter.promise import ledger
from easeml_meter.promise.solve import labels
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
TOO_FEW = (4, 5, 8, 16)
"""What shares of the plan these developers need to break the promise often."""
READINGS = [name for name in METERS if "reading" in name]
CLAIMS = [name for name in METERS if name not in READINGS]
RUNS = 1_000


def share(spec: MeterSpec, size: int, runs: int = RUNS, seed: int = 1) -> float:
    return float(broken_sessions(spec.meter, size, runs, np.random.default_rng(seed)).mean())


@pytest.mark.parametrize("spec", [*METERS.values(), LADDER], ids=[*METERS, "ladder"])
def test_promises_are_broken_no_more_often_than_promised(spec: MeterSpec) -> None:
    """The guarantee is for the best developer of all, so these stay below it."""
    assert share(spec, labels(spec.meter)) <= spec.delta


def best(meter: MeterSpec, runs: int = RUNS, seed: int = 1) -> float:
    """Return how often these developers win with the number of labels that suits them."""
    size = labels(meter.meter)
    return max(share(meter, size // few, runs, seed) for few in TOO_FEW)


@pytest.mark.parametrize("name", READINGS)
def test_with_too_few_labels_the_same_developers_win(name: str) -> None:
    """So they do learn from the answers, and the labels are what holds them."""
    assert best(METERS[name]) > 2 * METERS[name].delta


@pytest.mark.parametrize("name", CLAIMS)
def test_too_few_labels_break_no_claim(name: str) -> None:
    """A claim is tested at a level, so that models fail where labels are few."""
    assert best(METERS[name]) <= METERS[name].delta


@pytest.mark.parametrize("name", CLAIMS)
def test_at_a_level_that_histories_do_not_share_the_same_developers_win(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So they do learn from the answers, and the levels are what holds them."""
    monkeypatch.setattr(ledger, "level", lambda meter, at: meter.delta)
    assert best(METERS[name]) > 2 * METERS[name].delta


def test_a_ladder_has_its_lucky_guesses_in_the_old_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """What passed counts for nothing any more, so it takes fewer labels to break the promise."""
    monkeypatch.setattr(ledger, "level", lambda meter, at: 2 * meter.delta)
    assert share(LADDER, labels(LADDER.meter) // 40) > 3 * LADDER.delta


def test_one_step_is_planned_with_little_to_spare() -> None:
    spec = condition("n > 0.5 +/- 0.05", steps=1)
    assert 0.7 * spec.delta < share(spec, labels(spec.meter), 10_000) <= 1.05 * spec.delta


@pytest.mark.verify
@pytest.mark.parametrize("name", METERS)
def test_many_sessions_of_more_steps(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With so many sessions, a failure of 1.3 delta would be noticed."""
    spec = METERS[name]
    teams = (12, 8) if spec.tenants else ()
    longer = spec.replace(steps=20, delta=0.05, tenants=teams)
    assert share(longer, labels(longer.meter), 10_000, seed=2) <= 0.05
    if name in CLAIMS:
        monkeypatch.setattr(ledger, "level", lambda meter, at: meter.delta)
    assert best(longer, seed=2) > 0.1
