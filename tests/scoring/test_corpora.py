"""Scores of a whole test set: against counting by hand, in any pieces and under any executor."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from easeml_meter.errors import InvalidInput
from easeml_meter.scoring.classes import Classes
from easeml_meter.scoring.corpora import CorpusLoss, RocCurve, counted_in
from easeml_meter.scoring.losses import Output, parse_loss
from easeml_meter.scoring.outputs import Expected, read_predictions
from easeml_meter.scoring.score import total_loss

CLASSES = Classes.of(["a", "b", "c"])
NAMED = ("recall[b]", "precision[b]", "f1[b]", "macro-recall", "macro-f1")


def by_hand(name: str, told: list[int], truth: list[int]) -> Fraction:
    """The score by its definition; 3 is a label outside the list."""

    def one(place: int) -> Fraction:
        hits = sum(p == t == place for p, t in zip(told, truth, strict=True))
        missed = sum(t == place != p for p, t in zip(told, truth, strict=True))
        wrong = sum(p == place != t for p, t in zip(told, truth, strict=True))
        kind = name.partition("[")[0].removeprefix("macro-")
        of = {"recall": hits + missed, "precision": hits + wrong}.get(kind)
        return Fraction(hits, of) if of else Fraction(2 * hits, 2 * hits + missed + wrong)

    return one(1) if "[" in name else sum(map(one, range(3)), Fraction(0)) / 3


def bound(name: str) -> Any:
    return Expected(1, parse_loss(name), CLASSES).loss


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), max_size=40), st.integers(0, 40))
def test_counts_in_pieces_are_the_score_by_its_definition(
    pairs: list[tuple[int, int]], cut: int
) -> None:
    told, truth = (list(each) for each in zip(*pairs, (0, 0), (1, 1), (2, 2), strict=True))
    for name in NAMED:
        loss = bound(name)
        parts = [
            total_loss(loss, np.array(told[piece], np.uint8), np.array(truth[piece], np.uint8))
            for piece in (slice(cut), slice(cut, None))
        ]
        assert sum(parts, loss.nothing).mean(1) == 1 - by_hand(name, told, truth)


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=30), st.integers(0, 30))
def test_the_auc_is_the_share_of_pairs_in_order(pairs: list[tuple[int, bool]], cut: int) -> None:
    pairs = [*pairs, (3, True), (2, False)]
    levels = np.array([level / 5 for level, _ in pairs])
    truth = np.array([int(positive) for _, positive in pairs])
    given = np.stack([1 - levels, levels, 0 * levels], axis=1)
    loss = bound("auc[b]")
    parts = [loss.sums(given[each], truth[each]) for each in (slice(cut), slice(cut, None))]
    positives = [level for level, positive in pairs if positive]
    others = [level for level, positive in pairs if not positive]
    ordered = sum(
        Fraction(1, 2) if p == o else Fraction(int(p > o)) for p in positives for o in others
    )
    assert sum(parts, loss.nothing).mean(1) == 1 - Fraction(ordered, len(positives) * len(others))


levels = st.lists(st.integers(0, 5), min_size=1, max_size=12)


@given(levels, levels, levels, levels, st.integers(0, 30))
def test_curves_are_as_far_apart_as_their_rates_at_the_worst_threshold(
    positives: list[int], others: list[int], seen: list[int], seen_others: list[int], cut: int
) -> None:
    def share(of: list[int], threshold: Fraction) -> Fraction:
        return Fraction(sum(level >= threshold for level in of), len(of))

    loss = bound("roc[b]")
    sums = [_ranked(loss, *each, cut) for each in ((positives, others), (seen, seen_others))]
    expected = max(
        abs(share(here, threshold) - share(there, threshold))
        for here, there in ((positives, seen), (others, seen_others))
        for threshold in (Fraction(k, 2) for k in range(-1, 13))
    )
    here, visible = sums
    kept = RocCurve.from_bytes(visible.corpus, visible.to_bytes())
    for each in (visible, kept):
        assert here.beside(each).mean(1) == each.beside(here).mean(1) == expected
    assert here.mean(1) == here.beside(here).mean(1) == 0
    assert here.beside(visible).counted == here.counted == min(len(positives), len(others))


def _ranked(loss: Any, positives: list[int], others: list[int], cut: int) -> Any:
    """Count rows in two pieces."""
    levels = np.array([*positives, *others]) / 5
    truth = np.array([1] * len(positives) + [0] * len(others))
    given = np.stack([1 - levels, levels, 0 * levels], axis=1)
    parts = [loss.sums(given[each], truth[each]) for each in (slice(cut), slice(cut, None))]
    return sum(parts, loss.nothing)


def test_what_is_counted_shows_in_labels_alone() -> None:
    columns = [["a", "b", "b"], ["b", "a", "x"]]
    assert counted_in(parse_loss("f1[b]"), CLASSES, columns) == 3
    assert counted_in(parse_loss("auc[b]"), CLASSES, columns) == 3
    assert counted_in(parse_loss("roc[b]"), CLASSES, columns) == 3
    assert counted_in(parse_loss("macro-recall"), CLASSES, columns) == 0
    assert counted_in(parse_loss("precision[b]"), CLASSES, columns) is None
    assert counted_in(parse_loss("0-1"), CLASSES, columns) is None
    with pytest.raises(InvalidInput, match="validation set first"):
        counted_in(parse_loss("f1[b]"), None, columns)


def test_a_score_of_nothing_is_refused_in_words() -> None:
    none = np.zeros(3, np.uint8)
    for name, word in (("recall[b]", "has the label 'b'"), ("precision[b]", "is predicted 'b'")):
        with pytest.raises(InvalidInput, match=word):
            bound(name).sums(none, none).mean(1)
    for name in ("auc[b]", "roc[b]"):
        with pytest.raises(InvalidInput, match="two classes"):
            bound(name).nothing.mean(1)
    with pytest.raises(InvalidInput, match="nothing to count"):
        bound("macro-f1").nothing.mean(1)


def test_a_positive_class_must_be_in_the_list() -> None:
    with pytest.raises(InvalidInput, match="one of the classes, a, b, c"):
        bound("f1[d]")


def test_predictions_are_classes_and_for_curves_probabilities() -> None:
    outputs = {name: parse_loss(name).output for name in (*NAMED, "auc[b]", "roc[b]")}
    assert outputs.pop("auc[b]") is outputs.pop("roc[b]") is Output.PROBABILITIES
    assert set(outputs.values()) == {Output.CLASS}
    with pytest.raises(AssertionError):
        CorpusLoss.__call__(bound("f1[b]"), np.zeros(1), np.zeros(1))


def test_probabilities_are_ranked_as_they_are() -> None:
    """Divided by their sum, tenths of three digits parted ties: the AUC was off."""
    needed = Expected(2, parse_loss("auc[a]"), CLASSES)
    rows = np.array([[0.3, 0.3, 0.4], [0.3, 0.3, 0.3995]])
    found = read_predictions([pa.FixedSizeListArray.from_arrays(rows.ravel(), 3)], needed, 1)
    assert (found == rows).all()
