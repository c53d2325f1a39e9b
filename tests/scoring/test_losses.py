"""Each loss against its plain formula, and what a spec may call it."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from easeml_meter.errors import InvalidInput
from easeml_meter.scoring.losses import (
    UNIT,
    Custom,
    Loss,
    LossFailed,
    Output,
    names_as_labels,
    parse_loss,
)
from easeml_meter.spec import is_zero_one

MINE = "tests.scoring.examples"
LARGE = "9" * 10_000_000

seeds = st.integers(0, 2**32 - 1)


@pytest.mark.parametrize(
    ("text", "predictions", "labels", "losses"),
    [
        ("0-1", [0, 1, 2], [0, 2, 2], [0, 1, 0]),
        ("top-2", [[0, 1], [2, 1], [1, 0]], [1, 0, 1], [0, 1, 0]),
        ("absolute[0,100]", [0.0, 25.0, 100.0], [0.0, 75.0, 0.0], [0, 0.5, 1]),
        ("absolute[-1,1]", [-1.0, 0.5], [1.0, 0.0], [1, 0.25]),
        ("squared[0,100]", [0.0, 25.0, 100.0], [0.0, 75.0, 0.0], [0, 0.25, 1]),
        ("brier", [[1.0, 0.0], [1.0, 0.0], [0.5, 0.5]], [0, 1, 1], [0, 1, 0.25]),
        ("brier", [[0.2, 0.3, 0.5]], [1], [(0.04 + 0.49 + 0.25) / 2]),
        (f"{MINE}:half", [1.0, 2.0], [1.0, 3.0], [0, 0.5]),
        ("score", [0.0, 0.25, 1.0], [7.0, 8.0, 9.0], [1, 0.75, 0]),
        ("score[0-1]", [0.0, 1.0], [7.0, 8.0], [1, 0]),
        ("score[-5,15]", [-5.0, 0.0, 15.0], [7.0, 8.0, 9.0], [1, 0.75, 0]),
    ],
)
def test_by_hand(text: str, predictions: Any, labels: Any, losses: list[float]) -> None:
    loss = parse_loss(text)
    found = loss(np.array(predictions), np.array(labels))
    np.testing.assert_allclose(found, losses, atol=1e-15)
    exact = loss.sums(np.array(predictions), np.array(labels)).losses
    assert exact == round(sum(losses) * loss.unit)
    assert loss.zero_one == (loss.unit == 1) == (found.dtype == bool)


@given(seeds, st.integers(1, 50), st.integers(2, 300))
def test_plain_formulas(seed: int, rows: int, classes: int) -> None:
    random = np.random.default_rng(seed)
    labels = random.integers(0, classes, rows)
    guesses = random.integers(0, classes, rows)
    assert parse_loss("0-1").sums(guesses, labels).losses == sum(guesses != labels)

    ranked = np.argsort(random.random((rows, classes)), axis=1)[:, : 1 + classes // 2]
    top = parse_loss("top-k", k=ranked.shape[1])
    missed = [label not in row for row, label in zip(ranked.tolist(), labels, strict=True)]
    assert top(ranked, labels).tolist() == missed

    shares = random.dirichlet(np.ones(classes), rows)
    corners = np.eye(classes)[labels]
    brier = parse_loss("brier")(shares, labels)
    np.testing.assert_allclose(brier, ((shares - corners) ** 2).sum(axis=1) / 2, atol=1e-14)

    low, high = -3.0, 17.5
    guessed, true = random.uniform(low, high, rows), random.uniform(low, high, rows)
    error = np.abs(guessed - true) / 20.5
    np.testing.assert_allclose(parse_loss("absolute[-3,17.5]")(guessed, true), error, rtol=1e-14)
    squared = parse_loss("squared", low=low, high=high)(guessed, true)
    np.testing.assert_allclose(squared, error**2, rtol=1e-14)


@given(st.lists(st.tuples(st.floats(-1, 1), st.floats(-1, 1)), min_size=1))
def test_losses_are_in_the_unit_interval_and_sums_are_within_a_trillionth(
    pairs: list[tuple[float, float]],
) -> None:
    guessed, true = np.array(pairs).T
    for text in ("absolute[-1,1]", "squared[-1,1]"):
        loss = parse_loss(text)
        losses = loss(guessed, true)
        assert losses.min() >= 0
        assert losses.max() <= 1
        assert loss.sums(guessed, true).losses / UNIT == pytest.approx(
            losses.sum(), abs=1e-12 * len(true)
        )


def test_a_label_outside_the_class_list_is_wrong_for_everybody() -> None:
    unknown = np.array([3])
    assert parse_loss("0-1")(np.array([2]), unknown).tolist() == [True]
    assert parse_loss("top-2")(np.array([[0, 2]]), unknown).tolist() == [True]
    assert parse_loss("brier")(np.array([[1.0, 0.0, 0.0]]), unknown).tolist() == [1.0]


@pytest.mark.parametrize(
    "text",
    [
        *("0-1", "top-3", "absolute[0,100]", "squared[-1.5,1]", "brier", f"{MINE}:half[class]"),
        *("score[0-1]", "score[0,1]", "score[-5,15]"),
    ],
)
def test_names_go_there_and_back(text: str) -> None:
    loss = parse_loss(text)
    assert loss.name == text
    assert parse_loss(loss.name) == loss
    assert pickle.loads(pickle.dumps(loss)) == loss  # noqa: S301
    assert loss.zero_one == is_zero_one(text)


@pytest.mark.parametrize(
    ("text", "parameters"),
    [
        ("top-k", {}),
        ("top-0", {}),
        ("top-k", {"k": 0}),
        ("top-k", {"k": 2.5}),
        ("top-k", {"low": 1}),
        ("0-1", {"k": 1}),
        ("top-" + LARGE, {}),
        ("absolute", {}),
        ("absolute[1,1]", {}),
        ("absolute[2,1]", {}),
        ("absolute[nan,1]", {}),
        ("absolute[0,inf]", {}),
        ("absolute[-1e308,1e308]", {}),
        ("absolute[a,b]", {}),
        ("squared", {"low": 0}),
        ("score[1-2]", {}),
        ("score[1,0]", {}),
        ("score[]", {}),
        ("squared", {"low": "0", "high": 1}),
        ("hinge", {}),
        ("", {}),
        (LARGE, {}),
        ("a\nb", {}),
        (None, {}),
        ("no.such.module:f", {}),
        (f"{MINE}:missing", {}),
        (f"{MINE}:NO_FUNCTION", {}),
        (f"{MINE}:half[classes]", {}),
    ],
    ids=lambda value: str(value)[:30],
)
def test_other_names_are_refused_in_one_line(text: Any, parameters: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_loss(text, **parameters)
    line = str(refused.value)
    assert line.startswith("loss: ")
    assert line.isprintable()
    assert len(line) < 400


@pytest.mark.parametrize(
    "name", ["too_few", "too_large", "negative", "not_finite", "raising", "no_numbers"]
)
def test_a_loss_of_ones_own_is_checked_on_every_batch(name: str) -> None:
    loss = parse_loss(f"{MINE}:{name}")
    with pytest.raises(LossFailed, match=name) as failed:
        loss(np.zeros(3), np.arange(3))
    assert "[0, 1, 2]" not in str(failed.value)
    assert failed.value.__cause__ is None


def test_a_loss_of_ones_own_says_what_it_needs() -> None:
    needs = {"": Output.ANY, "[class]": Output.CLASS, "[real]": Output.REAL}
    for ending, output in needs.items():
        loss: Loss = parse_loss(f"{MINE}:half{ending}")
        assert loss.output is output
        assert not loss.zero_one


def test_which_losses_have_names_as_labels() -> None:
    for name in ("0-1", "top-3", "brier", "package.module:function", "no.such:function[class]"):
        assert names_as_labels(name)
    assert names_as_labels("recall[real]")  # a class, as are fakes
    for name in ("absolute[0,100]", "squared[-1,1]", "no.such:function[real]"):
        assert not names_as_labels(name)


def picky(predictions: Any, labels: Any) -> Any:
    """Take texts of one letter; a digit is a loss that is too large."""
    return [float(each) if each.isdigit() else {"a": 0.0, "b": 1.0}[each] for each in predictions]


@pytest.mark.parametrize(
    ("predictions", "place"),
    [
        ("ab", None),
        ("abab1", None),
        ("aba2b", 3),
        ("abxab", 2),
        ("x", 0),
        ("2", 0),
        ("bbbbbbbx2", 7),
    ],
)
def test_the_first_prediction_without_a_loss(predictions: str, place: int | None) -> None:
    loss = Custom(f"{__name__}:picky")
    assert loss.unfit(np.array([*predictions], object), np.array([*"uvw"], object)) == place


def test_a_prediction_that_has_a_loss_with_some_label_is_fit() -> None:
    loss = Custom(f"{__name__}:distance", Output.REAL)
    assert loss.unfit(np.array([12.0, 3.0]), np.array([0.0, 5.0])) is None
    assert loss.unfit(np.array([3.0, 16.0]), np.array([0.0, 5.0])) == 1


def distance(predictions: Any, labels: Any) -> Any:
    return np.abs(predictions - labels) / 10
