"""Rolling test sets as a whole: what developers can tell, and whether the promise holds.

What a developer observes is a function of the answers and of the batches that were released.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.properties.test_noninterference_in_a_folder import Side, perform
from tests.service.helpers import rows, small_spec, write_predictions

from easeml_meter.core.questions.planning import labels_needed
from easeml_meter.meter import Meter
from easeml_meter.spec import MeterSpec

WINDOW = 4


def spec() -> MeterSpec:
    return small_spec(signals=2, edges=[0.5], steps=3, window=WINDOW, inputs="public")


def next_batch(side: Side, number: int) -> tuple[object, str, str]:
    """Let the labeler of one side deliver a batch, the same on both; return what is shown of it."""
    batch = labels_needed(side.spec, 2)
    labels = np.random.default_rng(number).integers(0, 2, batch)
    first = labels_needed(side.spec, 1) + batch * number
    table = rows(labels, seed=40 + number).set_column(
        0, "id", pa.array(np.arange(first, first + batch))
    )
    pq.write_table(table, side.folder / "plain.parquet")
    with Meter.open(side.folder / "meter", clock=side.clock) as meter:
        sealed = side.folder / f"{number}.sealed"
        meter.seal(side.folder / "plain.parquet", sealed, label="label", id_column="id")
        meter.add_test_set(sealed)
    return side.run("testset", "batches", "--json")


def submitted(side: Side, number: int, salt: int) -> tuple[object, str, str]:
    """Submit the same predictions for window `number` on one side."""
    size, first = labels_needed(side.spec, 1), labels_needed(side.spec, 2) * number
    guess = np.random.default_rng(salt).integers(0, 2, size)
    table = pa.table({"id": np.arange(first, first + size), "prediction": guess})
    pq.write_table(table, side.folder / "t.parquet")
    write_predictions(side.folder / "v.parquet", np.zeros(30, dtype=np.int64))
    return side.run("submit", "--test", "t.parquet", "--validation", "v.parquet", "--json")


def shown_alike(flip: int) -> None:
    """Tell the story of two developers whose test sets differ in one row of the first window."""
    size = labels_needed(spec(), 1)
    first = np.random.default_rng(0).integers(0, 2, size)
    second = first.copy()
    second[flip] ^= 1
    with tempfile.TemporaryDirectory() as left, tempfile.TemporaryDirectory() as right:
        sides = [Side(Path(left), first, spec()), Side(Path(right), second, spec())]
        for number in range(WINDOW - 1):
            for salt in (1, 2):  # the second one is refused: its batch is missing
                shown = [submitted(side, number, salt) for side in sides]
                assert sides[0].answers() == sides[1].answers()
                assert shown[0] == shown[1]
            for look in ("status", "history", "report", "audit"):
                shown = [perform(side, ("look", look), number) for side in sides]
                assert shown[0] == shown[1]
            shown = [next_batch(side, number) for side in sides]
            assert shown[0] == shown[1]
            assert sides[0].files() == sides[1].files()
        assert len(sides[0].answers()) == WINDOW - 1


def test_rows_in_use_do_not_show() -> None:
    """The last batch of the first window stays in use to the end of the story."""
    shown_alike(labels_needed(spec(), 1) - 1)


def test_a_row_that_was_released_shows() -> None:
    """The test above can fail: two first batches that differ are two different files."""
    with pytest.raises(AssertionError):
        shown_alike(0)
