"""Two models on the same labels, counted as a loop over the rows counts them."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from easeml_meter.conditions import Comparison
from easeml_meter.scoring.classes import Classes
from easeml_meter.scoring.comparing import compare, losses_of
from easeml_meter.scoring.losses import TopK, ZeroOne
from easeml_meter.scoring.outputs import Expected
from easeml_meter.scoring.predictions import Predictions
from easeml_meter.scoring.score import Unscorable
from easeml_meter.tables.source import Held

CLASSES = Classes((0, 1, 2))
codes = st.integers(0, 2)


def predictions(values: list[int]) -> Predictions:
    rows = "".join(f"{value}\n" for value in values)
    held = Held("p.csv", f"prediction\n{rows}".encode())
    return Predictions.open(held, expected=Expected(len(values), ZeroOne(), CLASSES, None))


@given(st.lists(st.tuples(codes, codes, codes), min_size=1, max_size=30), st.integers(1, 7))
def test_rows_are_counted_whatever_the_row_groups(
    rows: list[tuple[int, int, int]], size: int
) -> None:
    new, old, labels = map(list, zip(*rows, strict=True))
    groups = [pa.array(labels[at : at + size]) for at in range(0, len(labels), size)]
    assert compare(predictions(new), predictions(old), groups) == Comparison(
        rows=len(rows),
        gained=sum(n == label != o for n, o, label in rows),
        lost=sum(o == label != n for n, o, label in rows),
        differing=sum(n != o for n, o, _ in rows),
    )


def test_ranked_predictions_differ_where_any_rank_does() -> None:
    def ranked(first: list[int], second: list[int]) -> Predictions:
        pairs = zip(first, second, strict=True)
        rows = "".join(f"{a},{b}\n" for a, b in pairs)
        held = Held("p.csv", f"prediction_1,prediction_2\n{rows}".encode())
        return Predictions.open(held, expected=Expected(2, TopK(2), CLASSES, None))

    found = compare(ranked([0, 1], [1, 2]), ranked([0, 1], [2, 2]), [pa.array([1, 0])])
    assert found == Comparison(rows=2, gained=1, lost=0, differing=1)


def test_what_goes_wrong_with_labels_is_not_said() -> None:
    with pytest.raises(Unscorable) as caught:
        compare(predictions([0]), predictions([1]), [pa.array([{"a": 1}])])
    assert caught.value.__context__ is None


@given(st.lists(st.tuples(codes, codes), max_size=30), st.integers(1, 7))
def test_every_example_has_its_loss(rows: list[tuple[int, int]], size: int) -> None:
    said, labels = [each for each, _ in rows], [label for _, label in rows]
    groups = [pa.array(labels[at : at + size]) for at in range(0, len(labels), size)]
    if rows:
        assert losses_of(predictions(said), groups).tolist() == [float(a != b) for a, b in rows]


def test_a_label_without_a_loss_is_not_said() -> None:
    with pytest.raises(Unscorable):
        losses_of(predictions([0]), [pa.array([{"a": 1}])])
