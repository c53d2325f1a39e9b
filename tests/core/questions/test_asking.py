"""Questions from plain options, as programs give them."""

from __future__ import annotations

import contextlib
import random
from typing import Any

import pytest

from easeml_meter import plan_question
from easeml_meter.core.questions.asking import answered, asks, options
from easeml_meter.core.questions.planning import plan_of, reachable_tolerance
from easeml_meter.errors import InvalidInput
from easeml_meter.spec import Band, MeterSpec, default_edges


@pytest.mark.parametrize(
    ("options", "size"),
    [
        ({"ask": "n > 0.95 +/- 0.01", "steps": 32, "delta": 1e-4}, 24_752),
        ({"ask": "gap", "tolerance": 0.01, "steps": 10}, 48_986),
        ({"metric": "f1", "floor": 0.8, "tolerance": 0.01, "steps": 10}, 22_682),
        ({"metric": "weighted", "weights": [0.5, 0.5], "tolerance": 0.01, "steps": 10}, 30_572),
        ({"metric": "recall", "edges": [0.01, 0.02], "tolerance": 0.01, "steps": 10}, 65_137),
        ({"rolling": True, "window": 52, "tolerance": 0.05, "steps": 52}, 160),
    ],
)
def test_options_ask_questions(options: dict[str, Any], size: int) -> None:
    assert asks(options)
    options = {"delta": 0.01, **options}
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
        ({}, "give one of ask"),
        ({"metric": "f1", "ask": "gap"}, "not with ask"),
        ({"window": 3}, "only with rolling"),
        ({"metric": "f1", "tolerance": 0.1}, "give the steps"),
        ({"metric": "f1", "tolerance": 0.1, "steps": 3, "labels": 100}, "not all"),
        ({"metric": "f1", "tolerance": 0.1, "steps": 3, "memory": 2}, 'not with "the gap'),
        ({"ask": "better", "steps": 3}, '"better" needs one'),
        ({"ask": ["gap"], "steps": 3}, "ask"),
        ({"ask": 5, "steps": 3, "labels": 100}, "ask"),
        ({"ask": "n > 0.8 +/- 0.1", "steps": 3, "labels": 100}, "not all"),
        ({"rolling": 1, "window": 3, "tolerance": 0.1, "steps": 3}, "rolling"),
    ],
)
def test_what_does_not_fit_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        plan_question(**options)


def test_what_would_take_long_is_refused_before_it_begins() -> None:
    clause = "n - o > 0.02 +/- 0.0016"
    with pytest.raises(InvalidInput, match="too much to plan at once"):
        plan_question(ask=" /\\ ".join([clause] * 10), steps=9)
    with pytest.raises(InvalidInput, match="too much to plan at once"):
        plan_question(ask=" /\\ ".join([clause] * 10), labels=3_900_000)
    assert plan_question(ask=clause, steps=9).size > 10**6


def test_the_gap_by_its_text_finds_a_tolerance_as_a_plain_plan_does() -> None:
    spec = MeterSpec.uniform(tolerance=0.1, delta=0.01)
    plain = reachable_tolerance(spec, 50_000).spec
    found = plan_question(ask="gap", labels=50_000, steps=10, delta=0.01).question
    assert found.tolerance == plain.tolerances[0] == 0.00989798
    assert len(found.answers) == plain.signals
    edges = plan_question(ask="gap", labels=50_000, steps=10, edges=[0.5]).question
    assert edges.answers == ("band 1", "band 2")


def test_the_tolerance_has_the_default_bands_that_it_leaves_room_for() -> None:
    for labels in (300, 1_000, 5_000, 30_000, 200_000):
        found = plan_question(metric="recall", labels=labels, steps=12, delta=0.05).question
        assert found.tolerance is not None
        assert len(found.answers) == len(default_edges(found.tolerance)) + 1


GAP: dict[str, Any] = {"ask": "gap", "tolerance": 0.1}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"ask": "n > 0.8 +/- 0.1", "disagreement": 0.1}, 'only with "n - o"'),
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


TEXTS = ("n > 0.8 +/- 0.01", "better", "gap", "n - o > 0 +/- 0.01", "accuracy", "f1", "auc", "roc")
SHARES = (0.5, 0.01, 1e-9, 1 - 1e-12, 0.0, 1.0, 2.0)
LOOSE: dict[str, tuple[Any, ...]] = {
    "protocol": ("regular", "incremental", "independent", "resampling"),
    "loss": ("absolute", "brier", "f1[a]", "auc[a]", "recall[a]", "balanced-accuracy"),
    "classes": (["a", "b"],),
    "rows": (100, 10**6, 10**12),
    "question": TEXTS[:4],
    "tenants": ((3, 4), (1,) * 39, (10**4, 1)),
    **dict.fromkeys(("ceiling", "drawn", "judge_error", "disagreement", "floor"), SHARES),
    **dict.fromkeys(("models", "clusters", "on_demand", "handover"), (True,)),
    **dict.fromkeys(("memory", "window", "top_up", "tries", "passes"), (1, 2, 50, 1000)),
}
EXTREME = {int: (-2, 0, 1, 29, 10**9, 10**18), float: SHARES, str: TEXTS, list: ([0.3],)}
ASKED = {each.name: EXTREME.get(each.kind, (True,)) for each in options()}
ASKED |= {"labels": EXTREME[int], "signals": EXTREME[int], "drawn": SHARES}


def answer_or_one_line(seed: int) -> None:
    draw = random.Random(seed)  # noqa: S311 - the same each time
    loose = ASKED if seed % 2 else LOOSE
    given = {
        name: draw.choice(loose[name]) for name in draw.sample(sorted(loose), draw.randrange(5))
    }
    if "judge_error" in given or draw.random() < 0.1:
        given |= {"judge_error": draw.choice(SHARES), "pool": int(10 ** draw.uniform(0, 13))}
    given |= {"steps": int(10 ** draw.uniform(0, 7)), "delta": 10 ** -draw.uniform(0.01, 30)}
    if seed % 2:
        with contextlib.suppress(InvalidInput):
            plan_question(**given, tolerance=10 ** -draw.uniform(0, 6))
        return
    given["steps"] = sum(given.get("tenants", (given["steps"],)))
    edges = sorted({0.0, 1.0, *(round(draw.random(), 6) for _ in range(draw.choice([0, 2, 30])))})
    eps = 10 ** -draw.uniform(0.3, 4)
    rows = zip(edges, edges[1:], range(len(edges)), strict=False)
    wider = draw.choice([0, 0, 0.3])
    with contextlib.suppress(InvalidInput):
        bands = tuple(Band(a, b, eps * (1 + wider * k)) for a, b, k in rows)
        plan_of(MeterSpec(bands=bands, **given))


@pytest.mark.parametrize(
    "given",
    [
        {"judge_error": 0.05, "pool": 10**12, "tolerance": 0.1, "steps": 10**6},
        {"judge_error": 0.999, "pool": 10**6, "tolerance": 0.01, "steps": 10},
        {"judge_error": 1 - 1e-16, "pool": 10**6, "tolerance": 0.01, "steps": 10},
    ],
)
def test_a_judge_is_planned_however_extreme(given: dict[str, Any]) -> None:
    assert plan_question(**given, delta=0.05).failure_probability <= 0.05


def test_too_many_bands_are_refused_before_they_are_made() -> None:
    with pytest.raises(InvalidInput, match=r"^signals: \d+ given, at most 10,000 bands"):
        plan_question(ask="gap", tolerance=0.1, signals=10**12, steps=5)


def test_whatever_is_asked_there_is_an_answer_or_one_line() -> None:
    for seed in range(200):
        answer_or_one_line(seed)


@pytest.mark.verify
@pytest.mark.parametrize("first", range(0, 10_000, 500))
def test_ten_thousand_settings_have_an_answer_or_one_line(first: int) -> None:
    for seed in range(first, first + 500):
        answer_or_one_line(seed)
