"""Questions from plain options, as programs give them."""

from __future__ import annotations

from typing import Any

import pytest

from easeml_meter import plan_question
from easeml_meter.core.questions.asking import answered, asks
from easeml_meter.core.questions.edges import reachable_with_default_bands
from easeml_meter.errors import InvalidInput
from easeml_meter.spec import MeterSpec, default_edges


@pytest.mark.parametrize(
    ("options", "size"),
    [
        ({"question": "n > 0.95 +/- 0.01", "steps": 32, "delta": 1e-4}, 24_752),
        ({"question": "gap", "tolerance": 0.01, "steps": 10}, 48_986),
        ({"metric": "f1", "floor": 0.8, "tolerance": 0.01, "steps": 10}, 22_682),
        ({"metric": "weighted", "weights": [0.5, 0.5], "tolerance": 0.01, "steps": 10}, 30_572),
        ({"metric": "recall", "edges": [0.01, 0.02], "tolerance": 0.01, "steps": 10}, 65_137),
        ({"rolling": True, "window": 52, "tolerance": 0.05, "steps": 52}, 160),
    ],
)
def test_options_ask_questions(options: dict[str, Any], size: int) -> None:
    assert asks(options)
    assert plan_question(**options).size == size
    assert plan_question(**options, labels=None).size == size  # None: not given


def test_the_one_that_is_missing_is_answered() -> None:
    recall = {"metric": "recall", "delta": 0.05}
    assert plan_question(**recall, tolerance=0.05, labels=1_669).budget.steps == 10
    reached = plan_question(**recall, steps=10, labels=1_669).question.tolerance
    assert reached == pytest.approx(0.05, rel=1e-3)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "give one of question"),
        ({"metric": "f1", "question": "gap"}, "not with question"),
        ({"window": 3}, "only with rolling"),
        ({"metric": "f1", "tolerance": 0.1}, "give the steps"),
        ({"metric": "f1", "tolerance": 0.1, "steps": 3, "labels": 100}, "not all"),
        ({"metric": "f1", "tolerance": 0.1, "steps": 3, "memory": 2}, 'not with "the gap'),
        ({"question": "better", "steps": 3}, '"better" needs one'),
        ({"question": ["gap"], "steps": 3}, "question"),
        ({"question": 5, "steps": 3, "labels": 100}, "question"),
        ({"question": "n > 0.8 +/- 0.1", "steps": 3, "labels": 100}, "not all"),
        ({"rolling": 1, "window": 3, "tolerance": 0.1, "steps": 3}, "rolling"),
    ],
)
def test_what_does_not_fit_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        plan_question(**options)


def test_what_would_take_long_is_refused_before_it_begins() -> None:
    clause = "n - o > 0.02 +/- 0.0016"
    with pytest.raises(InvalidInput, match="too much to plan at once"):
        plan_question(question=" /\\ ".join([clause] * 10), steps=9)
    with pytest.raises(InvalidInput, match="too much to plan at once"):
        plan_question(question=" /\\ ".join([clause] * 10), labels=3_900_000)
    assert plan_question(question=clause, steps=9).size > 10**6


def test_the_gap_by_its_text_finds_a_tolerance_as_a_plain_plan_does() -> None:
    spec = MeterSpec.uniform(tolerance=0.1, steps=10, delta=0.01)
    plain = reachable_with_default_bands(spec, 50_000).spec
    found = plan_question(question="gap", labels=50_000, steps=10).question
    assert found.tolerance == plain.tolerances[0] == 0.00989798
    assert len(found.answers) == plain.signals
    edges = plan_question(question="gap", labels=50_000, steps=10, edges=[0.5]).question
    assert edges.answers == ("band 1", "band 2")


def test_the_tolerance_has_the_default_bands_that_it_leaves_room_for() -> None:
    for labels in (300, 1_000, 5_000, 30_000, 200_000):
        found = plan_question(metric="recall", labels=labels, steps=12, delta=0.05).question
        assert found.tolerance is not None
        assert len(found.answers) == len(default_edges(found.tolerance)) + 1


GAP: dict[str, Any] = {"question": "gap", "tolerance": 0.1}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"question": "n > 0.8 +/- 0.1", "disagreement": 0.1}, 'only with "n - o"'),
        (GAP | {"disagreement": 0.1}, 'only with "n - o"'),
        (GAP | {"passes": 1}, "only with a condition"),
        (
            {"metric": "precision", "tries": 3, "tolerance": 0.1},
            "tries: 3 given, sealing checks nothing",
        ),
        (
            {"metric": "accuracy", "tries": 3, "tolerance": 0.1},
            "tries: 3 given, sealing checks nothing",
        ),
    ],
)
def test_no_option_is_left_out_silently(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        plan_question(**options, steps=3)


def test_the_missing_one_is_named() -> None:
    recall: dict[str, Any] = {"metric": "recall", "delta": 0.05}
    assert answered(**recall, tolerance=0.1, steps=3)[1] == "size"
    assert answered(**recall, tolerance=0.1, labels=900)[1] == "steps"
    assert answered(**recall, steps=3, labels=900)[1] == "tolerance"
    assert answered(rolling=True, window=4, batch=90, delta=0.05)[1] == "tolerance"
