"""A developer against rolling test sets, who learns which rows of the window its model gets wrong.

Every model is wrong on half of all that could be asked. The developer asks for gaps around an edge,
and keeps the random change that the answers call worse: what it keeps is worse on the window than
in truth. Released batches tell nothing of those in use.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.random import Generator

from easeml_meter.core.questions.kinds import rules_of
from easeml_meter.core.signals import State
from easeml_meter.lab.simulation.worlds import Flags
from easeml_meter.spec import MeterSpec
from easeml_meter.stats.rounding import as_written

_CHANGED = 0.3
"""The share of predictions that each model has anew."""


def broken_sessions(spec: MeterSpec, batch: int, runs: int, random: Generator) -> Flags:
    """Return in which sessions some answer breaks its promise; one has all windows of a delta."""
    return np.array([_broken(spec, batch, random) for _ in range(runs)], dtype=np.bool_)


def _broken(spec: MeterSpec, batch: int, random: Generator) -> bool:
    rules, rows = rules_of(spec), batch * (spec.window or 1)
    half = Fraction(1, 2)
    # The validation loss is the developer's to choose: here, so that 1/2 lies on an edge.
    claimed = half - min(half, as_written((spec.edges or (0.0,))[0]))
    wrong = random.random(rows) < 0.5
    for _ in range(spec.steps):
        for _ in range(spec.submissions):
            changed = wrong.copy()
            some = random.random(rows) < _CHANGED
            changed[some] = random.random(int(some.sum())) < 0.5
            loss = Fraction(int(changed.sum()), rows)
            answer = rules.answer(State(), claimed, loss)
            if abs(loss - half) > as_written(rules.tolerance(answer) or 1):
                return True
            if answer > 1:
                wrong = changed
        wrong = np.concatenate([wrong[batch:], random.random(batch) < 0.5])
    return False
