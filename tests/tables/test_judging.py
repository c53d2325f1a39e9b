"""Labels and a judge's word in one column, and apart again."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from easeml_meter.errors import InvalidInput
from easeml_meter.tables.judging import apart, joined, split, with_judge
from easeml_meter.tables.table import MemoryTable


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
