"""The estimate from few labels and a judge's words, against its definition."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from easeml_meter.errors import InvalidInput
from easeml_meter.scoring.classes import Classes
from easeml_meter.scoring.judged import Judged, hidden_loss, judged_in, read_pairs
from easeml_meter.scoring.losses import ZeroOne, parse_loss
from easeml_meter.scoring.outputs import Expected, read_labels
from easeml_meter.scoring.score import total_loss
from easeml_meter.spec import MeterSpec
from easeml_meter.tables.choosing import joined

CLASSES = Classes.of(["a", "b"])
Row = tuple[int, int, int | None]
rows = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1), st.sampled_from([0, 1, 2, None])))


@given(rows, st.integers(0, 20))
def test_the_estimate_is_what_its_definition_says(drawn: list[Row], cut: int) -> None:
    drawn = [*drawn, (0, 0, 1), (1, 0, None)]
    told = np.array([model for model, _, _ in drawn], np.uint8)
    names = ["a", "b", "x"]
    words = pa.array([names[word] for _, word, _ in drawn])
    known = pa.array([None if label is None else names[label] for *_, label in drawn])
    codes = read_labels(joined(known, words), Judged(), CLASSES)
    loss = Expected(len(drawn), Judged(), CLASSES).loss
    parts = [total_loss(loss, told[each], codes[each]) for each in (slice(cut), slice(cut, None))]
    found = sum(parts, loss.nothing).mean(1)
    pool = [int(model != word) for model, word, label in drawn if label is None]
    labelled = [
        int(model != label) - int(model != word)
        for model, word, label in drawn
        if label is not None
    ]
    estimate = Fraction(sum(pool), len(pool)) + Fraction(sum(labelled), len(labelled))
    assert found == min(max(estimate, Fraction(0)), Fraction(1))


def test_the_judge_is_counted_by_its_errors() -> None:
    both = joined(pa.array(["a", "b", None, "b"]), pa.array(["a", "a", "b", "b"]))
    found = judged_in(CLASSES, [both, both])
    assert (found.labels, found.wrong, found.pool) == (6, 2, 2)
    assert read_pairs(both, CLASSES).tolist() == [[0, 0], [1, 0], [-1, 1], [1, 1]]
    with pytest.raises(InvalidInput, match="validation set first"):
        judged_in(None, [both])


def test_only_a_meter_with_a_judge_estimates() -> None:
    plain = MeterSpec.uniform(tolerance=0.05, steps=3, delta=0.1)
    assert hidden_loss(parse_loss("0-1"), plain) == ZeroOne()
    judged = plain.replace(judge_error=0.1, pool=1_000)
    assert hidden_loss(parse_loss("0-1"), judged) == Judged()
    with pytest.raises(AssertionError):
        Judged()(np.zeros(1), np.zeros((1, 2)))
