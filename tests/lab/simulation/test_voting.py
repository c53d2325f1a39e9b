"""Scores of a whole test set and a judge, against developers who learn from the answers."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace as part

from easeml_meter.lab.simulation.voting import VotingWorld, _is_broken, broken_sessions
from easeml_meter.promise.gap import BELOW
from easeml_meter.promise.samples import Strata
from easeml_meter.promise.solve import labels as planned_labels
from easeml_meter.promise.solve import with_steps
from easeml_meter.spec import MeterSpec


def world(loss: str = "0-1", known: Fraction = Fraction(0), **options: Any) -> VotingWorld:
    usual: dict[str, Any] = {"tolerance": 0.1, "edges": [0.3], "steps": 8, "delta": 0.1}
    usual |= {"loss": loss, "classes": (0, 1)}
    return VotingWorld(MeterSpec.uniform(**usual | options).meter, known)


WORLDS = {
    "recall": world("recall[1]"),
    "recall at its floor": world("recall[1]", Fraction(3, 5), floor=0.8),
    "precision": world("precision[1]"),
    "F1": world("f1[1]"),
    "F1 at its floor": world("f1[1]", Fraction(1, 3), floor=0.8),
    "AUC": world("auc[1]"),
    "ROC curve": world("roc[1]"),
    "balanced accuracy": world("balanced-accuracy"),
    "macro recall": world("macro-recall", classes=(0, 1, 2)),
    "macro F1": world("macro-f1"),
    "weighted recall": world("weighted[0.5,0.3,0.2]", classes=(0, 1, 2)),
    "judge": world(judge_error=0.2, pool=4_000),
    "strata": world(stratum="s", strata=("a", "b"), weights=(0.6, 0.4)),
    "strata of one size": world(
        stratum="s", strata=("a", "b", "c"), weights=(0.6, 0.3, 0.1), sizes=(196, 196, 196)
    ),
}
every_world = pytest.mark.parametrize("of", WORLDS.values(), ids=WORLDS.keys())


@every_world
def test_promises_are_broken_no_more_often_than_promised(of: VotingWorld) -> None:
    found = broken_sessions(of, planned_labels(of.meter), 200, np.random.default_rng(1))
    assert found.mean() <= of.meter.delta


@every_world
def test_with_too_few_labels_the_same_developers_win(of: VotingWorld) -> None:
    """So they do learn from the answers, and the labels are what holds them."""
    labels = planned_labels(of.meter) // 16
    found = broken_sessions(of, labels, 200, np.random.default_rng(1))
    assert found.mean() > 2 * of.meter.delta


@pytest.mark.verify
@every_world
def test_many_sessions_of_more_steps(of: VotingWorld) -> None:
    """With so many sessions, a failure of 1.5 delta would be noticed."""
    sample = of.meter.sample
    if isinstance(sample, Strata):  # the sizes of strata must be enough
        sample = part(sample, sizes=tuple(2 * each for each in sample.sizes))
    more = part(with_steps(of.meter, 12), sample=sample, delta=Fraction(1, 20))
    longer = replace(of, meter=more)
    size = planned_labels(more)
    assert broken_sessions(longer, size, 4_000, np.random.default_rng(2)).mean() <= 0.05
    assert broken_sessions(longer, size // 16, 1_000, np.random.default_rng(2)).mean() > 0.1


@pytest.mark.parametrize("of", WORLDS.values(), ids=WORLDS.keys())
def test_the_world_of_a_meter_is_the_one_that_is_hardest(of: VotingWorld) -> None:
    """At the floor, if there is one; nobody has to say which rows are known."""
    assert VotingWorld.of(of.meter) == of


@pytest.mark.parametrize(
    ("name", "truth"),
    [
        ("recall", "1/2"),
        ("recall at its floor", "1/5"),
        ("precision", "1/2"),
        ("F1", "1/3"),
        ("F1 at its floor", "1/5"),
        ("AUC", "1/2"),
        ("ROC curve", "3/10"),
        ("balanced accuracy", "1/2"),
        ("macro recall", "2/3"),
        ("macro F1", "1/2"),
        ("weighted recall", "2/3"),
        ("judge", "1/2"),
        ("strata", "1/2"),
        ("strata of one size", "1/2"),
    ],
)
def test_true_losses_are_those_of_large_samples(name: str, truth: str) -> None:
    of, random = WORLDS[name], np.random.default_rng(3)
    assert of.truth == Fraction(truth)
    rows = None
    while rows is None:  # a judge is refused now and then
        rows = of.drawn(20_000, of.rows(20_000), random)
    guesses = random.integers(of.classes, size=len(rows.truth))
    found = of.measured(rows, guesses, 1_000)
    assert found is not None
    assert float(found) == pytest.approx(float(of.truth), abs=0.03)


def test_below_the_floor_is_a_promise_too() -> None:
    """It says that the true score is at most the tolerance above the floor."""
    low = world("recall[1]", Fraction(3, 5), floor=0.69)
    assert _is_broken(low, BELOW, Fraction(1, 2))
    assert not _is_broken(WORLDS["recall at its floor"], BELOW, Fraction(1, 2))
