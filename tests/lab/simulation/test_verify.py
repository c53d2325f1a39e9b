"""The promise against every developer of the lab, with many sessions: `make verify`."""

from __future__ import annotations

import pytest
from tests.lab.attacked import (
    HANDED_OVER,
    TWENTY_TEAMS,
    attacks,
    handed_over,
    meters,
    one_maximum,
    power,
    sharing_all,
)

from easeml_meter.lab.simulation import developers
from easeml_meter.lab.simulation.coverage import ERROR, coverage, experiment
from easeml_meter.lab.simulation.developers import DEVELOPERS
from easeml_meter.lab.simulation.misuse import MISUSES, Misuse
from easeml_meter.promise import ledger
from easeml_meter.promise.compare import published
from easeml_meter.promise.meter import Meter
from easeml_meter.promise.numbers.intervals import clopper_pearson
from easeml_meter.spec import MeterSpec

pytestmark = pytest.mark.verify

SHORT = {
    (name, world): meter
    for name, meter in meters(steps=4, delta=0.1)
    for world in ("usual", "correlated")
    if world == "usual" or not ("graded" in name or "fail" in name)
}
LONG = dict(meters(steps=12, delta=0.05))
TIGHT = {
    "one step": {"steps": 1},
    "one step, ceiling": {"steps": 1, "ceiling": 0.2},
    "two steps, two signals": {"steps": 2, "signals": 2},
    "four tenants of one step": {"steps": 4, "tenants": (1, 1, 1, 1)},
    "incremental, by band": {"steps": 8, "tolerance": [0.1, 0.3, 0.5], "protocol": "incremental"},
}
"""Meters whose plan leaves next to nothing to spare."""
HEADLINE = MeterSpec.uniform(signals=5, tolerance=0.01, steps=10, delta=0.01).meter


def holds(meter: Meter, runs: int, seed: int, world: str | None = None, **how: int) -> None:
    """Every developer stays below delta, and one at twice delta would have been noticed."""
    assert power(runs, float(meter.delta_of_stage)) > 0.99
    for attack in attacks(meter, seed=seed, world=world, **how):
        found = coverage(attack, runs)
        assert found.verdict != "promise broken", (attack.developer, found.rate)


@pytest.mark.parametrize(("key", "meter"), SHORT.items(), ids=[", ".join(key) for key in SHORT])
def test_short_sessions(key: tuple[str, str], meter: Meter) -> None:
    world = None if key[1] == "usual" else key[1]
    holds(meter, 6000 if world is None else 2000, seed=101, world=world)


@pytest.mark.parametrize("meter", LONG.values(), ids=LONG.keys())
def test_long_sessions(meter: Meter) -> None:
    holds(meter, 1500, seed=102)


@pytest.mark.parametrize("name", ["regular", "incremental, by band"])
def test_the_plans_of_the_paper(name: str) -> None:
    holds(LONG[name], 1500, seed=102, planned=published(LONG[name]))


@pytest.mark.parametrize("options", TIGHT.values(), ids=TIGHT.keys())
@pytest.mark.parametrize("developer", ["independent", "threshold", "reverter"])
def test_tight_plans(options: dict[str, object], developer: str) -> None:
    """With nothing to spare, and enough sessions to notice a rate of 1.1 delta."""
    usual: dict[str, object] = {"signals": 3, "tolerance": 0.1, "delta": 0.1}
    spec = MeterSpec.uniform(**usual | options)  # type: ignore[arg-type]
    found = coverage(experiment(spec.meter, developer, seed=103), 50_000)
    assert found.interval[0] <= 0.1
    assert found.rate <= 0.101


@pytest.mark.parametrize("developer", [*DEVELOPERS])
def test_the_headline_setting(developer: str) -> None:
    assert power(5000, 0.01) > 0.99
    assert coverage(experiment(HEADLINE, developer, seed=104), 5000).verdict == "promise holds"


@pytest.mark.parametrize("name", ["tenants", "tenants, incremental"])
def test_hand_over_of_all_steps(name: str) -> None:
    meter = LONG[name]
    attack = experiment(meter, "handover", labels=sharing_all(meter), seed=105)
    assert coverage(attack, 6000).verdict == "promise holds"


def test_hand_over_of_twenty_teams(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the right count the promise holds, with one running maximum it fails."""
    for labels in (HANDED_OVER, 4 * HANDED_OVER, 16 * HANDED_OVER):
        attack = experiment(TWENTY_TEAMS, "handover", labels=labels, seed=106)
        assert coverage(attack, 500).verdict == "promise holds"
    monkeypatch.setattr(developers, "shared_steps", one_maximum)
    monkeypatch.setattr(ledger, "shared_steps", one_maximum)
    failed = handed_over(TWENTY_TEAMS, HANDED_OVER, 500)
    assert clopper_pearson(int(failed.sum()), 500, ERROR)[0] > 0.5


@pytest.mark.parametrize("misuse", MISUSES, ids=lambda each: each.developer)
def test_invalid_uses_fail_and_their_right_size_does_not(misuse: Misuse) -> None:
    assert misuse.at(misuse.planned, 1000).rate > 0.99
    assert misuse.at(misuse.needed, 500).verdict == "promise holds"
