"""A table without some of its columns, and labels and a judge's word in one column."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pytest

from easeml_meter.errors import InvalidInput
from easeml_meter.tables.choosing import (
    apart,
    choose_columns,
    joined,
    looks_like_id,
    split,
    with_judge,
)
from easeml_meter.tables.memory import as_source
from easeml_meter.tables.opening import open_table
from easeml_meter.tables.table import MemoryTable

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


@pytest.mark.parametrize(
    ("columns", "found"),
    [
        ({"x": [0.5, 1.5], "user_id": ["a", "b"]}, "user_id"),
        ({"x": [0.5, 1.5], "rowId": [2, 1], "label": [0, 1]}, "rowId"),
        ({"name": ["a", "b"], "label": ["c", "d"]}, "name"),
        ({"label": ["c", "d"], "UUID": ["a", "b"]}, "UUID"),
        ({"text": ["a b", "b c"], "id": [1, 1]}, None),
        ({"x": [0.5, 1.5], "paid": [1, 2]}, None),
    ],
)
def test_ids_are_told_by_name_and_place(
    columns: dict[str, list[object]], found: str | None, tmp_path: Path
) -> None:
    pa.csv.write_csv(pa.table(columns), tmp_path / "rows.csv")
    for source in (tmp_path / "rows.csv", as_source(pa.table(columns), "rows")):
        assert looks_like_id(source, ["label"]) == found


def table(**columns: Any) -> MemoryTable:
    content = pa.table(columns)
    return MemoryTable("rows", content.schema, content.num_rows, content)


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (["a", None, "b", ""], ["a", "b", "a", "a"]),
        ([None, 1, None, 0], [0, 1, 1, 1]),
        ([float("nan"), 1.0, None, 0.0], [0.0, 1.0, 1.0, 1.0]),
        ([None, True, None, False], [False, True, True, True]),
        ([None, None], ["a", "b"]),
    ],
)
def test_what_is_joined_comes_apart_again(labels: list[Any], words: list[Any]) -> None:
    both = joined(pa.array(labels, from_pandas=True), pa.array(words))
    found, said = split(both)
    missing = [each in (None, "") or str(each) == "nan" for each in labels]
    assert [each is None for each in found.to_pylist()] == missing
    assert None not in said.to_pylist()
    again, once_more = split(both.dictionary_encode())
    assert (again, once_more) == (found, said)


def test_the_column_of_the_judge_is_no_input() -> None:
    whole = with_judge(table(x=[1.0, 2.0], y=["a", None], judge=["b", "a"]), "y", "judge")
    assert whole.columns == ("x", "y")
    assert [batch.to_pydict() for batch in whole.batches(["x"])] == [{"x": [1.0, 2.0]}]
    schema, batches = apart(whole.schema, whole.batches(), "y")
    assert schema.names == ["x", "y", "judge"]
    assert pa.Table.from_batches(batches, schema).to_pydict() == {
        "x": [1.0, 2.0],
        "y": ["a", None],
        "judge": ["b", "a"],
    }


@pytest.mark.parametrize(
    ("labels", "words", "problem"),
    [
        (["a"], [""], "judge: one word is missing"),
        (["a"], pa.array([None], pa.string()), "judge: one is missing"),
        (["a\x1f"], ["a"], "control character"),
        ([0.5], [1.0], "fractions given"),
    ],
)
def test_what_is_no_class_is_refused(labels: Any, words: Any, problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        joined(pa.array(labels), pa.array(words))


def test_columns_must_be_there_and_two() -> None:
    rows = table(y=["a"], judge=["a"])
    with pytest.raises(InvalidInput, match="another column"):
        with_judge(rows, "y", "y")
    with pytest.raises(InvalidInput, match="column of the judge"):
        with_judge(rows, "y", "z")
    with pytest.raises(InvalidInput, match="without a judge"):
        split(pa.array(["a"]))
