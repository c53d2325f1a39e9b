"""Data in memory is read as a file of it would be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from easeml_meter.errors import InvalidInput
from easeml_meter.tables.memory import as_source
from easeml_meter.tables.opening import open_table
from easeml_meter.tables.source import Held

IDS = ["a", "b", "c"]
VALUES = ["cat", "dog", "cat"]
SCORES = [[0.1, 0.9], [0.4, 0.6], [1.0, 0.0]]
FRAME = pd.DataFrame({"id": IDS, "prediction": VALUES})


def read(data: Any) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = open_table(as_source(data, "test")).in_memory().to_pydict()
    return found


@pytest.mark.parametrize(
    "data",
    [
        pd.Series(VALUES),
        pl.Series(VALUES),
        pa.array(VALUES),
        pa.chunked_array([VALUES[:1], VALUES[1:]]),
    ],
    ids=lambda data: f"{type(data).__module__}.{type(data).__name__}",
)
def test_single_columns(data: Any) -> None:
    assert read(data) == {"prediction": VALUES}


@pytest.mark.parametrize("data", [np.array(SCORES), SCORES, np.asfortranarray(SCORES)])
def test_scores(data: Any) -> None:
    assert read(data) == {"prediction": SCORES}


def test_whole_numbers_stay_whole_and_missing_values_missing() -> None:
    assert read([2**60 + 1, 3]) == {"prediction": [2**60 + 1, 3]}
    assert read(["a", None]) == {"prediction": ["a", None]}
    assert read(pd.Series([1.5, None])) == {"prediction": [1.5, None]}


def test_what_is_masked_is_missing() -> None:
    for values in ([3, 4], [0.5, 1.5], ["a", "b"], SCORES[:2]):
        array: Any = np.ma.array(values)
        assert read(array) == read(np.array(values))
        array[0] = np.ma.masked
        missing = [None, None] if array.ndim == 2 else None
        assert read(array) == {"prediction": [missing, values[1]]}
        assert read({"a": array[1], "b": array[1]})["prediction"] == [values[1], values[1]]


def test_lists_of_ids_are_no_columns_and_those_of_a_set_are() -> None:
    lists = dict(zip(IDS, SCORES, strict=True))
    assert read(lists) == {"id": IDS, "prediction": SCORES}
    mixed = {"id": pd.Series(IDS), "prediction": pl.Series(VALUES)}
    assert read(mixed) == {"id": IDS, "prediction": VALUES}
    table = {"row": IDS, "label": VALUES}
    assert open_table(as_source(table, "rows", a_set=True)).in_memory().to_pydict() == table


def test_a_set_keeps_its_order_whatever_the_index_was() -> None:
    shuffled = FRAME.sample(frac=1, random_state=2)
    found = open_table(as_source(shuffled, "rows", a_set=True)).in_memory()
    assert found.to_pydict() == shuffled.to_dict("list")


def test_a_path_stays_a_path(tmp_path: Path) -> None:
    held = Held("a.csv", b"x\n1\n")
    assert as_source(str(tmp_path), "test") == tmp_path
    assert as_source(tmp_path, "test") == tmp_path
    assert as_source(held, "test") is held


def test_the_same_data_has_the_same_bytes() -> None:
    arrow = as_source(pa.Table.from_pandas(FRAME), "test")
    assert as_source(FRAME, "test").read_bytes() == arrow.read_bytes()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (FRAME["prediction"].iloc[::-1], r"test \(Series\): an index without a name"),
        (FRAME.iloc[1:], r"test \(DataFrame\): an index without a name"),
        ([1, "a"], r"test \(list\): .* values of one type"),
        (7, r"test \(int\): int given, a path, DataFrame, Series"),
        (object(), r"test \(object\): object given"),
        (pl.LazyFrame({"a": [1]}), r"test \(LazyFrame\): LazyFrame given"),
        ({"a": 1, "b": "x"}, r"test \(dict\): .* values of one type"),
    ],
)
def test_what_cannot_be_taken_is_refused_in_one_line(data: Any, said: str) -> None:
    with pytest.raises(InvalidInput, match=said) as refusal:
        as_source(data, "test")
    assert "\n" not in str(refusal.value)
