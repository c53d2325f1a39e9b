"""The promise holds against every developer of the lab, under every meter on offer.

Here with few sessions (a rate of twice delta would still be noticed); `make verify` plays many, and
that a broken promise is noticed.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from tests.lab.attacked import (
    HANDED_OVER,
    TWENTY_TEAMS,
    attacks,
    meters,
    power,
    sharing_all,
)

from easeml_meter.lab.meters import gap_of
from easeml_meter.lab.simulation.arena import Arena, answer_to
from easeml_meter.lab.simulation.coverage import coverage, experiment
from easeml_meter.lab.simulation.developers import DEVELOPERS, Developer
from easeml_meter.lab.simulation.misuse import MISUSES, Misuse
from easeml_meter.lab.simulation.worlds import world_of
from easeml_meter.promise.compare import published
from easeml_meter.promise.ledger import shared_steps
from easeml_meter.promise.meter import Meter
from easeml_meter.promise.numbers.rounding import as_written
from easeml_meter.promise.questions import Shown
from easeml_meter.promise.solve import labels as planned_labels
from easeml_meter.spec import MeterSpec

DELTA = 0.2
RUNS = 160
SMALL = dict(meters(steps=4, delta=DELTA))


def test_twice_delta_would_be_noticed() -> None:
    assert power(RUNS, DELTA) > 0.99


@pytest.mark.parametrize("meter", SMALL.values(), ids=SMALL.keys())
def test_the_promise_holds(meter: Meter) -> None:
    for attack in attacks(meter, seed=1):
        found = coverage(attack, RUNS)
        assert found.verdict != "promise broken", (attack.developer, found.rate)


@pytest.mark.parametrize("name", ["regular", "incremental, by band"])
def test_the_plans_of_the_paper_hold(name: str) -> None:
    meter = SMALL[name]
    for attack in attacks(meter, seed=1, planned=published(meter)):
        assert coverage(attack, RUNS).verdict != "promise broken", attack.developer


def test_one_model_is_as_uncertain_as_the_plan_says() -> None:
    """The plan of a single step is tight: the lab's worst case comes close to delta."""
    meter = MeterSpec.uniform(signals=3, tolerance=0.1, steps=1, delta=0.1).meter
    assert 0.08 < coverage(experiment(meter, "independent"), 5000).rate <= 0.1


def test_too_few_labels_are_noticed() -> None:
    """Half the plan of an incremental meter: the same test that passes above fails."""
    meter = SMALL["incremental, by band"]
    labels = experiment(meter).labels
    found = coverage(experiment(meter, "independent", labels=labels // 2), RUNS)
    assert found.verdict == "promise broken"


def test_a_hand_over_on_an_incremental_meter_keeps_the_promise() -> None:
    """Twenty teams may share some steps, or all if there are labels enough."""
    for labels in (HANDED_OVER, 10 * HANDED_OVER):
        assert shared_steps(TWENTY_TEAMS, labels, tuple(range(1, 21))) > 1
        found = coverage(experiment(TWENTY_TEAMS, "handover", labels=labels), 40)
        assert found.failures == 0


@pytest.mark.parametrize("name", ["tenants", "tenants, incremental"])
def test_teams_that_share_all_steps_keep_the_promise(name: str) -> None:
    meter = SMALL[name]
    labels = sharing_all(meter)
    assert planned_labels(meter) < labels
    assert coverage(experiment(meter, "handover", labels=labels), RUNS).verdict == "promise holds"


@pytest.mark.parametrize(
    ("labels", "low", "high"), [(27_150, 0.038, 0.065), (38_005, 0.006, 0.012)]
)
def test_the_size_without_adaptivity_is_not_safe(labels: int, low: float, high: float) -> None:
    """The known one-bit attack: 3.8 % at 27,150 labels, 0.7 % at 38,005; ours is no weaker."""
    meter = MeterSpec.uniform(signals=5, tolerance=0.01, steps=10, delta=0.01).meter
    assert low < coverage(experiment(meter, labels=labels), 4000).rate < high


def test_blocks_come_within_a_third_of_the_plan() -> None:
    """The best attack known breaks 1 % up to about 38,700 labels; the plan asks for 48,986."""
    meter = MeterSpec.uniform(signals=5, tolerance=0.01, steps=10, delta=0.01).meter
    planned = planned_labels(meter)
    assert planned == 48_986
    assert 0.009 < coverage(experiment(meter, "blocks", labels=38_005), 8000).rate < 0.014
    assert coverage(experiment(meter, "blocks", labels=planned), 8000).rate < 0.004


def test_two_answers_counted_as_one_are_noticed() -> None:
    """One band too few of the two that are possible: one model for each step, and blocks tell."""
    usual: dict[str, Any] = {"tolerance": 0.1, "edges": (0.2, 0.4), "steps": 12, "delta": 0.1}
    meter = MeterSpec.uniform(**usual).meter
    assert gap_of(meter).possible == 2
    too_few = planned_labels(MeterSpec.uniform(protocol="independent", **usual).meter)
    found = coverage(experiment(meter, "blocks", labels=too_few), RUNS)
    assert found.verdict == "promise broken"
    assert coverage(experiment(meter, "blocks"), RUNS).verdict == "promise holds"


# --- Drawn edges ---

WIDE = MeterSpec.uniform(signals=1, tolerance=0.02, steps=10, delta=0.1, drawn=0.4).meter
"""At its plan adaptivity costs next to nothing, so whoever can aim an edge gets through."""


def played(developer: Developer, runs: int = 400) -> float:
    """Return how often a developer breaks the promise of wide bands with drawn edges."""
    labels = planned_labels(WIDE)
    world = world_of(WIDE, labels)
    rng = np.random.default_rng(7)
    return float(developer.run(WIDE, labels, world, rng, runs).failed.mean())


@pytest.mark.parametrize("name", ["threshold", "blocks", "resubmitter"])
def test_drawn_edges_cannot_be_aimed(name: str) -> None:
    """Neither by shifting the validation loss nor by handing in variants of a submission."""
    assert played(DEVELOPERS[name]) < 0.1


@pytest.mark.verify
def test_a_secret_that_leaks_breaks_the_promise() -> None:
    """The same attack as by a wrong guess, which gains nothing."""
    guesser = DEVELOPERS["guesser"]
    rates = played(guesser), played(replace(guesser, knows=True))
    assert rates[0] < 0.1 < rates[1] - 0.02


@pytest.mark.verify
def test_edges_that_look_at_the_data_break_the_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    """A band that ends just above a small gap, or begins at a large one, tells which it is."""

    def looking(desk: Arena, index: int, validation: float, test: Fraction) -> tuple[int, float]:
        seen = as_written(validation)
        gap = abs(test - seen)
        edge = (gap if gap > Fraction(1, 2) else gap + Fraction(1, 10**6)) % Fraction(2, 5)
        answer = answer_to(desk.meter, 0, validation, test, edge)
        told = gap_of(desk.meter).range_of(str(answer), Shown(1, seen, None, edge))
        assert told is not None
        desk.gaps[index] = float(told[0]), float(told[1])
        return answer, 0.02

    monkeypatch.setattr(Arena, "_tell", looking)
    assert played(DEVELOPERS["threshold"]) > 0.15


@pytest.mark.parametrize("misuse", MISUSES, ids=lambda each: each.developer)
def test_invalid_uses_fail(misuse: Misuse) -> None:
    found = misuse.at(misuse.planned, 100)
    assert found.rate > 0.97
    assert found.verdict == "promise broken"


def test_the_invalid_uses_are_those_of_the_paper() -> None:
    tenants, reverts = MISUSES
    assert (tenants.planned, tenants.meter.answers()) == (9063, 400)
    assert (reverts.planned, reverts.meter.answers()) == (1798, 200)
    assert tenants.needed > 10 * tenants.planned
    assert reverts.needed > 30 * reverts.planned
    assert [each.sizes()[-1] for each in MISUSES] == [each.needed for each in MISUSES]
