"""The desk uses the meter's rules as they are, and counts broken promises exactly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.lab.attacked import meters

from easeml_meter.lab.simulation.arena import UNREAD, Arena
from easeml_meter.lab.simulation.coverage import experiment
from easeml_meter.lab.simulation.developers import DEVELOPERS
from easeml_meter.lab.simulation.players import QUANTILES, best_question
from easeml_meter.lab.simulation.worlds import Integers, Models
from easeml_meter.promise.ledger import Snapshot, shared_steps
from easeml_meter.promise.meter import Meter
from easeml_meter.spec import MeterSpec

LABELS = 1000


def meter(**options: Any) -> Meter:
    usual: dict[str, Any] = {"signals": 3, "edges": (0.2, 0.4), "tolerance": [0.1, 0.15, 0.2]}
    return MeterSpec.uniform(**usual | {"steps": 4, "delta": 0.1} | options).meter


def one(desk: Arena, validation: float, units: int, true: float, *, crash: bool = False) -> int:
    """Hand in one model of the only session."""
    models = Models(np.array([units]), np.array([true]), LABELS)
    everyone, crashes = np.ones(1, dtype=np.bool_), np.array([crash])
    return int(desk.submit(np.array([validation]), models, everyone, crashes)[0])


def at(**options: Any) -> Arena:
    return Arena(meter(**options), LABELS, 1)


@pytest.mark.parametrize(
    ("options", "validation", "true", "answer", "broken"),
    [
        ({}, 0.5, 0.4, 1, False),  # exactly the tolerance
        ({}, 0.5, 0.399, 1, True),
        ({}, 0.5, 0.601, 1, True),
        ({}, 0.8, 0.36, 2, False),  # the second band promises less
        ({}, 0.8, 0.349, 2, True),
        ({}, 0.95, 0.301, 3, False),
        ({"protocol": "incremental"}, 0.8, 0.36, 2, False),
        ({"ceiling": 0.4, "memory": 2}, 0.5, 0.1, -1, False),  # no promise
        ({"ceiling": 0.4}, 0.5, 0.3, -1, False),  # the ceiling minus the tolerance
        ({"ceiling": 0.4}, 0.5, 0.299, -1, True),
    ],
)
def test_the_promise_told_with_the_answer_counts(
    options: dict[str, Any], validation: float, true: float, answer: int, broken: bool
) -> None:
    desk = at(**options)
    assert one(desk, validation, 500, true) == answer
    assert desk.failed[0] == broken


def test_a_crash_is_an_answer_where_measuring_can_fail() -> None:
    desk = at(loss="my.own:loss")
    assert one(desk, 0.5, 500, 0.1, crash=True) == UNREAD
    assert not desk.failed[0]
    assert one(at(), 0.5, 500, 0.5, crash=True) == 1


def test_incremental_promises_follow_the_maximum() -> None:
    desk = at(protocol="incremental")
    assert one(desk, 0.8, 500, 0.5) == 2
    assert one(desk, 0.5, 500, 0.36) == 2
    assert not desk.failed[0]


def test_the_same_submission_again_is_free() -> None:
    desk = at()
    assert one(desk, 0.8, 500, 0.5) == 2
    place = desk.places[0]
    assert desk.resubmit().tolist() == [2]
    assert desk.places[0] is place
    assert desk.answered[0] == 1


def test_tenants_who_hand_over_follow_each_other() -> None:
    desk = Arena(meter(tenants=(1, 3)), LABELS, 1, [1, 2])
    assert desk.promised == 4
    seen = []
    while desk.open[0]:
        at: Snapshot = desk.places[0].at
        seen.append((at.team, at.answers, bool(desk.sure[0])))
        one(desk, 0.5, 500, 0.5)
    assert seen == [(1, 0, True), (2, 0, True), (2, 1, True), (2, 2, False)]


def test_teams_hand_over_before_the_last_step_they_share() -> None:
    both = meter(tenants=(2, 2), protocol="incremental")
    desk = Arena(both, LABELS, 1, [1, 2], shared=shared_steps(both, LABELS, (1, 2)))
    seen = []
    for validation in (0.8, 0.5, 0.5, 0.5):
        at: Snapshot = desk.places[0].at
        seen.append((at.team, at.answers, at.group, bool(desk.sure[0])))
        last = one(desk, validation, 500, 0.5)
    assert seen == [(1, 0, (), True), (1, 1, (), True), (2, 0, (), True), (1, 3, (1, 2), False)]
    assert last == 2  # the worst of both teams
    assert not desk.open[0]


@pytest.mark.parametrize("developer", DEVELOPERS.values(), ids=DEVELOPERS.keys())
def test_everybody_uses_exactly_the_steps_there_are(developer: Any) -> None:
    for name, each in meters(steps=4, delta=0.1):
        setting = experiment(each, developer.name)
        random = np.random.default_rng(1)
        desk = developer.run(each, setting.labels, setting.world, random, 3)
        answered: Integers = desk.answered
        assert (answered == each.answers()).all(), name
        assert not desk.open.any() or each.budget.teams


def test_a_question_cuts_where_it_tells_most() -> None:
    here = meter()
    question = best_question(here, 0, 0.5, 0.01)
    assert sorted(question.told.values()) == pytest.approx([-0.79, 0.79], abs=0.01)
    assert {len(kept) for kept in question.kept.values()} == {len(QUANTILES) // 2}
    closer = best_question(here, 0, 0.5, 0.01, possible=QUANTILES[16:])
    assert len(closer.told) == 2
    assert min(closer.told.values()) > 0


def test_rare_questions_march_seldom() -> None:
    here = meter(protocol="incremental")
    for top in (1, 2):
        question = best_question(here, top - 1, 0.5, 0.01, rare=0.125)
        assert set(question.told) == {top, top + 1}
        assert len(question.kept[top + 1]) == len(QUANTILES) // 8
    assert set(best_question(here, 2, 0.5, 0.01).told) == {3}


def test_narrow_bands_tell_more_than_a_bit() -> None:
    here = meter(edges=(0.3, 0.31))
    assert set(best_question(here, 0, 0.5, 0.01).told) == {1, 2, 3}


def test_one_signal_tells_nothing() -> None:
    here = meter(signals=1, edges=(), tolerance=0.1)
    assert best_question(here, 0, 0.5, 0.01).told == {1: pytest.approx(0, abs=1e-12)}
