"""Scores of a whole test set, as a specification names them."""

from __future__ import annotations

from typing import Any

import pytest

from easeml_meter.core.questions.asking import plan_question
from easeml_meter.corpus import KINDS, PLANNED_ONLY, WHY_NOT, Corpus, why_not
from easeml_meter.errors import InvalidInput
from easeml_meter.scoring.losses import parse_loss
from easeml_meter.spec import MeterSpec


def spec(**options: Any) -> MeterSpec:
    given: dict[str, Any] = {"tolerance": 0.05, "steps": 4, "delta": 0.05, "loss": "f1[fraud]"}
    return MeterSpec.uniform(**(given | options))


@pytest.mark.parametrize("name", KINDS)
def test_every_score_is_a_loss_under_its_name(name: str) -> None:
    loss = name if KINDS[name].averaged else f"{name}[no [1], really]"
    loss += "[0.5,0.3,0.2]" * (name == "weighted")
    assert parse_loss(loss).name == loss
    corpus = Corpus.parse(loss)
    assert corpus is not None
    assert corpus.name == name
    assert corpus.problem is None


@pytest.mark.parametrize("loss", ["0-1", "brier", "top-3", "score", "absolute[0,1]", "a.b:f"])
def test_an_average_over_rows_is_none_of_them(loss: str) -> None:
    assert Corpus.parse(loss) is None
    assert spec(loss=loss).corpus is None


@pytest.mark.parametrize("name", [*WHY_NOT, *PLANNED_ONLY])
def test_what_has_no_valid_tail_is_refused_by_name_with_why(name: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_loss(f"{name}[a]")
    assert (WHY_NOT | PLANNED_ONLY)[name] in str(refused.value)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("kappa", "take balanced-accuracy"),
        ("pr-auc", "no valid tail is known: take auc"),
        ("average_precision", "no valid tail is known: take auc"),
        ("logloss", "one row can cost any amount"),
        ("perplexity", "take brier"),
        ("micro-f1", "it is the accuracy: take the loss 0-1"),
        ("f2", "take f1, or recall and precision"),
        ("RMSE", "take a loss in [0, 1], as squared[0,100]"),
        ("specificity", "the recall of the other class"),
    ],
)
def test_the_reason_is_found_however_the_name_is_written(name: str, why: str) -> None:
    assert why in (why_not(name) or "")
    with pytest.raises(InvalidInput) as refused:
        parse_loss(name)
    assert why in str(refused.value)
    with pytest.raises(InvalidInput) as refused:
        plan_question(metric=name, tolerance=0.1, steps=1)
    assert why in str(refused.value)


@pytest.mark.parametrize("name", [*KINDS, *PLANNED_ONLY])
def test_what_is_known_is_not_refused(name: str) -> None:
    assert why_not(name) is None


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"loss": "f1"}, "which class is the positive one"),
        ({"loss": "macro-f1[a]", "classes": ("a", "b")}, "an average over all classes"),
        ({"loss": "macro-f1"}, "needs the list"),
        ({"loss": "weighted[0.5,0.5]"}, "needs the list"),
        ({"loss": "weighted", "classes": ("a", "b")}, "weigh the classes"),
        ({"loss": "weighted[0.5,1e9]", "classes": ("a", "b")}, "weigh the classes"),
        ({"loss": "weighted[0.5,0.6]", "classes": ("a", "b")}, "sum to 1"),
        ({"loss": "weighted[0.5,0.5,.0]", "classes": ("a", "b")}, "sum to 1"),
        ({"loss": "weighted[0.5,0.5]", "classes": ("a", "b", "c")}, "each of 3 classes"),
        ({"loss": "weighted[0.5,0.5]", "classes": ("a", "b"), "floor": 0.8}, "saves no label"),
        ({"loss": "roc"}, "which class is the positive one"),
        ({"loss": "roc[a]", "floor": 0.8}, "saves no label"),
        ({"loss": "roc[a]", "gap": "signed"}, "no sign"),
        ({"classes": ("a", "b")}, "one of the classes, a, b"),
        ({"floor": 1.0}, "between 0 and 1"),
        ({"floor": 0.12345678}, "6 decimals"),
        ({"floor": 0.8, "drawn": 0.2}, "nobody has proved"),
        ({"floor": 0.8, "ceiling": 0.3}, "leave it out"),
        ({"ceiling": 0.2}, "a score has a floor"),
        ({"loss": "macro-f1", "classes": ("a", "b"), "floor": 0.8}, "saves no label"),
        ({"loss": "0-1", "floor": 0.8}, "only with a score of the whole test set"),
        ({"loss": "0-1", "rows": 100}, "only with a score of the whole test set"),
        ({"loss": "0-1", "tries": 2}, "only with a score of the whole test set"),
        ({"tries": 0}, "tries"),
        ({"tries": 10_000}, "at most"),
        ({"loss": "precision[a]", "tries": 2}, "sealing checks nothing"),
        ({"rows": 0}, "rows"),
        ({"published": True}, "not with published"),
        ({"protocol": "resampling"}, "not with the resampling protocol"),
        ({"question": "n > 0.8 +/- 0.1"}, "about n needs"),
    ],
)
def test_what_no_theorem_covers_is_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        spec(**options)


def test_a_floor_is_written_as_a_floor_and_is_a_ceiling_on_the_loss() -> None:
    found = spec(floor=0.8, tries=3, rows=9_000)
    assert found.ceiling == 0.2
    assert found.merges
    assert found.session_delta == 0.05 / 3
    assert "ceiling" not in found.to_mapping()["question"]
    assert MeterSpec.from_mapping(found.to_mapping()) == found
    assert found.replace(steps=5).floor == 0.8
