"""A table without some of its columns."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from easeml_meter.errors import InvalidInput
from easeml_meter.tables.choosing import choose_columns
from easeml_meter.tables.opening import open_table

TABLE = pa.table({"id": [1, 2], "x": [3, 4], "annotator": ["ann", "bob"], "label": [0, 1]})


@pytest.mark.parametrize(
    ("columns", "drop", "left"),
    [
        (None, (), ["id", "x", "annotator", "label"]),
        (None, ["annotator"], ["id", "x", "label"]),
        (["x"], (), ["id", "x", "label"]),
        (["annotator", "x"], ["x"], ["id", "annotator", "label"]),
    ],
)
def test_label_and_id_are_always_there(
    columns: Sequence[str] | None, drop: Sequence[str], left: list[str]
) -> None:
    chosen = choose_columns(open_table(TABLE), columns, drop, always=["label", "id"])
    assert pa.Table.from_batches(chosen.batches()).to_pydict() == TABLE.select(left).to_pydict()


@pytest.mark.parametrize(
    ("columns", "drop", "words"),
    [(["y"], (), "no column 'y'"), (None, ["y"], "no column 'y'"), (None, ["id"], "is needed")],
)
def test_columns_that_cannot_be_chosen(
    columns: Sequence[str] | None, drop: Sequence[str], words: str
) -> None:
    with pytest.raises(InvalidInput, match=words):
        choose_columns(open_table(TABLE), columns, drop, always=["label", "id"])


def test_a_file_that_changed_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("id,x,label\n1,2,0\n")
    chosen = choose_columns(open_table(path), None, ["x"], always=["label"])
    path.write_text("id,x,label\n1,2,0\n2,3,1\n")
    with pytest.raises(InvalidInput, match="changed while it was read"):
        chosen.check_unchanged()
