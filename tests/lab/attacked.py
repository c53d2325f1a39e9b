"""What is attacked: every protocol, loss and prior on offer, and who can be let loose on it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace
from scipy.stats import binom

from easeml_meter.lab.simulation.coverage import ERROR, Experiment, experiment
from easeml_meter.lab.simulation.developers import DEVELOPERS
from easeml_meter.lab.simulation.worlds import Flags
from easeml_meter.promise.budgets import Steps
from easeml_meter.promise.ledger import shared_steps
from easeml_meter.promise.meter import Meter
from easeml_meter.promise.solve import labels as planned_labels
from easeml_meter.promise.solve import log_failure, with_steps
from easeml_meter.spec import MeterSpec

BY_BAND = [0.1, 0.2, 0.3]

PROTOCOLS: dict[str, dict[str, Any]] = {
    "one step": {"steps": 1},
    "two signals": {"signals": 2, "edges": (0.2,)},
    "regular": {},
    "regular, by band": {"tolerance": BY_BAND},
    "incremental": {"protocol": "incremental"},
    "incremental, by band": {"protocol": "incremental", "tolerance": BY_BAND},
    "tenants": {"tenants": (2, 1, 1)},
    "tenants, incremental": {
        "tenants": (1, 1, 2),
        "protocol": "incremental",
        "tolerance": BY_BAND,
    },
    "hand-over": {"tenants": (2, 1, 1), "handover": True},
    "measuring can fail": {"loss": "my.own:loss"},
    "memory": {"memory": 2},
    "reverts": {"reverts": (2, 3)},
    "drawn": {"drawn": 0.4},
    "drawn, one threshold": {"drawn": 1.0},
    "drawn, tenants": {"drawn": 0.4, "tenants": (2, 1, 1)},
    "drawn, hand-over": {
        "drawn": 0.4,
        "tenants": (2, 1, 1),
        "handover": True,
    },
    "drawn, measuring can fail": {"drawn": 0.4, "loss": "my.own:loss"},
}
NARROW = ("regular", "incremental, by band")
"""Also attacked with bands that are narrow next to the spread of a test loss."""
CEILINGS = ("one step", "regular", "incremental", "incremental, by band")
"""Also attacked with a ceiling."""
GRADED = ("one step", "regular", "incremental, by band")
"""Also attacked with losses between 0 and 1, which have the convex bound."""


def meters(*, steps: int, delta: float) -> Iterator[tuple[str, Meter]]:
    """Yield every meter on offer, in one size; every band can be reached by a model that errs."""
    common: dict[str, Any] = {
        "signals": 3,
        "edges": (0.2, 0.4),
        "tolerance": 0.1,
        "steps": steps,
        "delta": delta,
    }
    for name, options in PROTOCOLS.items():
        forms = {name: options}
        if name in NARROW:
            forms[f"{name}, narrow"] = options | {"edges": (0.02, 0.05)}
        if name in CEILINGS:
            forms[f"{name}, ceiling"] = options | {"ceiling": 0.2}
        if name in GRADED:
            forms[f"{name}, graded"] = options | {"loss": "brier"}
            forms[f"{name}, graded, ceiling"] = options | {"loss": "brier", "ceiling": 0.2}
        for form, changes in forms.items():
            yield form, MeterSpec.uniform(**common | _fitting(changes, steps)).meter


def _fitting(options: dict[str, Any], steps: int) -> dict[str, Any]:
    """Give the tenants all the steps there are."""
    if "tenants" not in options:
        return options
    first, *others = options["tenants"]
    return options | {"tenants": (first + steps - 4, *others)}


def attacks(
    meter: Meter, *, seed: int, world: str | None = None, planned: int | None = None
) -> Iterator[Experiment]:
    """Yield every developer who keeps to what the meter supposes of people, twins left out."""
    for name, developer in DEVELOPERS.items():
        if developer.at_home(meter) and developer.breaks(meter) is None:
            yield experiment(meter, name, seed=seed, world=world, planned=planned)


TWENTY_TEAMS = MeterSpec.uniform(
    signals=5,
    edges=(0.1, 0.2, 0.3, 0.4),
    tolerance=0.1,
    steps=480,
    delta=0.1,
    tenants=(24,) * 20,
    protocol="incremental",
).meter
HANDED_OVER = 1998
"""Labels at which the count of one developer gives twenty teams all of their steps together."""


def one_maximum(meter: Meter, size: int, group: Sequence[int]) -> int:
    """Share by a wrong count, as it once was: as if all teams had one running maximum."""
    teams = meter.budget.teams
    slack = float(meter.delta_of_stage) - math.exp(log_failure(meter, size))
    share = math.log(slack / (2 ** len(teams) - len(teams) - 1))
    alone = replace(meter, budget=Steps(steps=1))
    for steps in range(1, sum(teams[team - 1] for team in group) + 1):
        if log_failure(with_steps(alone, steps), size) > share:
            return steps - 1
    return steps


def handed_over(meter: Meter, labels: int, sessions: int) -> Flags:
    """Let all teams hand over; give the sessions whose promise was broken."""
    world = experiment(meter, labels=labels).world
    assert world is not None
    rng = np.random.default_rng(1)
    return DEVELOPERS["handover"].run(meter, labels, world, rng, sessions).failed


def sharing_all(meter: Meter) -> int:
    """Give the smallest size at which all teams together can share every step."""
    teams = tuple(range(1, len(meter.budget.teams) + 1))
    sizes = itertools.count(planned_labels(meter))
    return next(n for n in sizes if shared_steps(meter, n, teams) == meter.answers())


def power(runs: int, delta: float) -> float:
    """Give the probability that a failure rate of twice delta is noticed."""
    rejects = next(k for k in range(runs + 1) if binom.sf(k - 1, runs, delta) < ERROR)
    return float(binom.sf(rejects - 1, runs, 2 * delta))
