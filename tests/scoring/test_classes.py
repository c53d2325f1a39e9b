"""Class labels of every encoding become the same codes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from easeml_meter.errors import InvalidInput
from easeml_meter.scoring.classes import Classes, WrongType

TEXT_TYPES = [
    pa.string(),
    pa.large_string(),
    pa.string_view(),
    pa.dictionary(pa.int8(), pa.string()),
    pa.dictionary(pa.int32(), pa.large_string()),
]
NUMBER_TYPES = [
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64()),
    *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    *(pa.float16(), pa.float32(), pa.float64()),
    pa.dictionary(pa.int32(), pa.int64()),
]


@pytest.mark.parametrize("kind", TEXT_TYPES, ids=str)
def test_texts_of_every_type(kind: Any) -> None:
    column = pa.array(["owl", "cat", "bee", "owl"]).cast(kind)
    codes = Classes.of(["cat", "dog", "owl"]).codes(column)
    assert codes.tolist() == [2, 0, 3, 2]
    assert codes.dtype == np.uint8


@pytest.mark.parametrize("kind", [*NUMBER_TYPES, *TEXT_TYPES], ids=str)
@pytest.mark.parametrize("values", [(0, 1, 2), (7, 3, 5), (3, 5, 10**6), (-1, 3, 5)], ids=str)
def test_whole_numbers_of_every_type(kind: Any, values: tuple[int, ...]) -> None:
    given = [3, 0, 5, 100, 1]
    if kind == pa.float16():
        column = pa.array(np.array(given, np.float16))
    elif pa.types.is_dictionary(kind):
        column = pa.array([str(v) for v in given]) if kind in TEXT_TYPES else pa.array(given)
        column = column.dictionary_encode()
    else:
        column = pa.array(given, pa.int64()).cast(kind)
    codes = Classes.of(values).codes(column)
    assert codes.tolist() == [values.index(v) if v in values else 3 for v in given]


@given(
    st.lists(st.integers(-(10**17), 10**17), min_size=1, unique=True)
    | st.lists(st.integers(-50, 50), min_size=1, unique=True),
    st.data(),
)
def test_numbers_against_a_plain_lookup(values: list[int], data: st.DataObject) -> None:
    known = st.sampled_from(values)
    given = data.draw(st.lists(known | st.integers(-(2**63), 2**63 - 1)))
    column = pa.array(given, pa.int64())
    plain = [values.index(v) if v in values else len(values) for v in given]
    assert Classes.of(values).codes(column).tolist() == plain


def test_numbers_beyond_all_types() -> None:
    huge = pa.array([2**64 - 1, 1], pa.uint64())
    assert Classes.of([0, 1]).codes(huge).tolist() == [2, 1]
    assert Classes.of([1, 10**12]).codes(huge).tolist() == [2, 0]
    assert Classes.of([1, 3]).codes(pa.array([], pa.int8())).tolist() == []
    odd = pa.array([1.5, np.nan, np.inf, -np.inf, 1e300, 1.0])
    assert Classes.of([0, 1]).codes(odd).tolist() == [2, 2, 2, 2, 2, 1]


def test_truth_values_are_0_and_1() -> None:
    column = pa.array([True, False])
    assert Classes.of([0, 1]).codes(column).tolist() == [1, 0]
    assert Classes.of([False, True]) == Classes.of([0, 1])
    assert Classes.of(["True", "False"]).codes(column).tolist() == [0, 1]
    assert Classes.of(["cat", "dog"]).codes(column, or_places=True).tolist() == [2, 2]


def test_texts_that_are_whole_numbers_are_numbers() -> None:
    assert Classes.of(["0", "1", "-5"]).values == (0, 1, -5)
    assert Classes.of(["0", "01"]).values == ("0", "01")
    assert Classes.of(["1.0", "2.0"]).values == (1, 2)
    assert Classes.of(["1.0", "1.5"]).values == ("1.0", "1.5")
    given = pa.array(["2.0", "1", "x", "01", "2.5", "", "7"])
    assert Classes.of([1, 2]).codes(given).tolist() == [1, 0, 2, 2, 2, 2, 2]
    assert Classes.of([1, 10**9]).codes(given).tolist() == [2, 0, 2, 2, 2, 2, 2]


def test_places_in_a_list_of_texts_only_where_allowed() -> None:
    animals, column = Classes.of(["cat", "dog"]), pa.array([1, 0, 2, -1])
    assert animals.codes(column, or_places=True).tolist() == [1, 0, 2, 2]
    with pytest.raises(WrongType):
        animals.codes(column)


@pytest.mark.parametrize("count", [255, 256, 65535, 65536])
def test_codes_are_as_small_as_they_can_be_and_none_is_lost(count: int) -> None:
    classes = Classes.of(f"c{i}" for i in range(count))
    codes = classes.codes(pa.array([f"c{count - 1}", "other"]))
    assert codes.tolist() == [count - 1, count]
    assert codes.dtype.itemsize == (1 if count < 256 else 2 if count < 65536 else 4)


@pytest.mark.parametrize(
    "values", [[], ["a", "a"], [0, "0"], ["a", 1], [1.5], [None], [10**30, 1]], ids=str
)
def test_bad_lists(values: list[Any]) -> None:
    with pytest.raises(InvalidInput, match="classes"):
        Classes.of(values)


def test_other_types_are_refused() -> None:
    for column in (pa.array([b"cat"]), pa.array([[1]]), pa.array([1.0]), pa.nulls(1)):
        with pytest.raises(WrongType):
            Classes.of(["cat", "dog"]).codes(column)


def test_a_long_list_is_shown_by_its_beginning() -> None:
    assert str(Classes.of(["a" * 10**7, *"bcdefg"])).endswith("'b', 'c', 'd', 'e' and 2 more")
    assert len(str(Classes.of(["a" * 10**7]))) < 60
