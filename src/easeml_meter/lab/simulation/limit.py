"""How many labels an attack makes necessary, and how far the plan is from it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

from easeml_meter.core.questions.planning import plan_of
from easeml_meter.lab.simulation.coverage import (
    Advance,
    Coverage,
    coverage,
    experiment,
)
from easeml_meter.lab.simulation.opponents import opponents_of
from easeml_meter.spec import MeterSpec

PRECISION = 0.02
"""The search stops when the two sizes around the limit differ by this share."""


@dataclass(frozen=True)
class Limit:
    """The two sizes of a test set between which the best attack falls below delta."""

    spec: MeterSpec
    planned: int
    too_few: Coverage | None
    """The best attack at the largest size at which it was seen above delta, if any."""
    enough: Coverage
    """The best attack at the smallest size at which it was not."""
    runs: int

    @property
    def labels(self) -> int:
        """The smallest size found at which the best attack stays below delta."""
        return self.enough.experiment.labels

    @property
    def ratio(self) -> float:
        """How many times more labels are planned than this attack makes necessary."""
        return self.planned / self.labels

    def to_json(self) -> dict[str, Any]:
        """Return it as plain data for programs."""
        return {
            "planned": self.planned,
            "limit": self.labels,
            "ratio": self.ratio,
            "too_few": None if self.too_few is None else self.too_few.to_json(),
            "enough": self.enough.to_json(),
        }


def find_limit(
    spec: MeterSpec,
    developers: Sequence[str] = (),
    *,
    runs: int = 2000,
    seed: int = 7,
    pool: Executor | None = None,
    world: str | None = None,
    advance: Callable[[str], Advance] = lambda _: lambda _: None,
) -> Limit:
    """Find, by bisection on a logarithmic scale, where the best of these attacks falls below delta.

    Without developers, those who play against its question and break no assumption of this meter.
    """
    names = list(developers) or opponents_of(spec)
    planned = plan_of(spec).size

    def best(labels: int) -> Coverage:
        found = []
        for name in names:
            setting = experiment(spec, name, labels=labels, seed=seed, world=world)
            bar = advance(f"{labels:,} labels, {name}")
            found.append(coverage(setting, runs, pool=pool, advance=bar))
        top = max(found, key=lambda each: each.failures)
        if top.rate > spec.session_delta:  # who is far behind here will not come first later
            rivals = [each for each in found if 4 * each.failures >= top.failures]
            names[:] = [each.experiment.developer for each in rivals]
        return top

    low, high = None, best(planned)
    while high.rate > spec.session_delta:  # an assumption is broken, and the plan too small
        low, high = high, best(2 * high.experiment.labels)
    while low is None and high.experiment.labels > 1:
        attack = best(high.experiment.labels // 2)
        low, high = (attack, high) if attack.rate > spec.session_delta else (None, attack)
    while low is not None:
        below, above = low.experiment.labels, high.experiment.labels
        middle = round(math.sqrt(below * above))
        if above <= below * (1 + PRECISION) or not below < middle < above:
            break
        attack = best(middle)
        low, high = (attack, high) if attack.rate > spec.session_delta else (low, attack)
    return Limit(spec, planned, low, high, runs)
