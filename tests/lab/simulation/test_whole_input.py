"""A program that looks at all rows before it answers: without second runs it wins every time."""

from __future__ import annotations

import pytest
from scipy.stats import binom

from easeml_meter.lab.simulation.whole_input import broken_sessions
from easeml_meter.scoring.rerun import HIDDEN_RUNS
from easeml_meter.spec import MeterSpec

SPEC = MeterSpec.uniform(signals=3, tolerance=0.1, steps=4, delta=0.05, models=True)


def most(sessions: int) -> int:
    """Return how many sessions may be broken by guessing, but for 1 test in 10,000."""
    guessed = 1 - (1 - 2.0**-HIDDEN_RUNS) ** SPEC.steps
    assert guessed < SPEC.delta
    return int(binom.ppf(1 - 1e-4, sessions, guessed))


def test_second_runs_stop_a_hash_of_the_whole_input() -> None:
    assert broken_sessions(SPEC, 20, seed=1, again=False) == 20
    assert broken_sessions(SPEC, 60, seed=2) <= most(60)


@pytest.mark.verify
def test_second_runs_stop_a_hash_of_the_whole_input_in_many_sessions() -> None:
    assert broken_sessions(SPEC, 500, seed=3, again=False) == 500
    found = broken_sessions(SPEC, 2000, seed=4)
    assert found <= most(2000)
    assert found / 2000 < SPEC.delta
