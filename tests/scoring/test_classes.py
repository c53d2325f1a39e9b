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
from easeml_meter.spec import classes_of

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


@pytest.mark.parametrize(
    "column",
    [
        pa.array([True, False]),
        pa.array(["true", "false"]),
        pa.array(["True", "False"]),
        pa.array(["TRUE", "FALSE"]).dictionary_encode(),
    ],
    ids=str,
)
def test_booleans_of_every_spelling_are_the_same_classes(column: Any) -> None:
    assert Classes.of([0, 1]).codes(column).tolist() == [1, 0]
    assert Classes.of([False, True]) == Classes.of([0, 1])
    assert Classes.of(["True", "False"]).codes(column).tolist() == [0, 1]
    assert Classes.of(["true", "maybe", "false"]).codes(column).tolist() == [0, 2]


def test_booleans_are_no_classes_of_other_names() -> None:
    for values in (["cat", "dog"], [2, 3], ["True", "true", "x"]):
        with pytest.raises(WrongType):
            Classes.of(values).codes(pa.array([True, False]), or_places=True)
    both = Classes.of(["True", "true", "x"])
    assert both.codes(pa.array(["true", "True", "TRUE"])).tolist() == [1, 0, 3]


def test_classes_typed_with_commas_are_those_of_a_file() -> None:
    for typed, values in (
        ("0, 1, 10", (0, 1, 10)),
        ("01, 02", ("01", "02")),
        ("0, 00", ("0", "00")),
        ("\u0663, \u0664", ("\u0663", "\u0664")),
        ("-1, 1", (-1, 1)),
    ):
        assert Classes.of(classes_of(typed)).values == values
    long = "1234567890123456789, 1"
    assert Classes.of(classes_of(long)).values == ("1234567890123456789", "1")


def test_texts_that_are_whole_numbers_are_numbers() -> None:
    assert Classes.of(["0", "1", "-5"]).values == (0, 1, -5)
    assert Classes.of(["0", "01"]).values == ("0", "01")
    assert Classes.of(["1.0", "2.0"]).values == (1, 2)
    assert Classes.of(["1.0", "1.5"]).values == ("1.0", "1.5")
    given = pa.array(["2.0", "1", "x", "01", "2.5", "", "7"])
    assert Classes.of([1, 2]).codes(given).tolist() == [1, 0, 2, 2, 2, 2, 2]
    assert Classes.of([1, 10**9]).codes(given).tolist() == [2, 0, 2, 2, 2, 2, 2]


PLACES = [
    pa.array([1, 0, 1]),
    pa.array(["1", "0", "1"]),
    pa.array(["1", "0", "1"]).dictionary_encode(),
]


@pytest.mark.parametrize("column", PLACES, ids=lambda column: str(column.type))
def test_places_in_a_list_of_texts_only_where_allowed(column: Any) -> None:
    animals = Classes.of(["cat", "dog"])
    assert animals.codes(column, or_places=True).tolist() == [1, 0, 1]
    far = pa.array([1, 2, -1, 10**17]).cast(column.type) if column.type == pa.int64() else None
    if far is not None:
        assert animals.codes(far, or_places=True).tolist() == [1, 2, 2, 2]


def test_whole_numbers_are_no_labels_of_text_classes() -> None:
    animals = Classes.of(["cat", "dog"])
    with pytest.raises(WrongType):
        animals.codes(pa.array([1, 0]))
    assert animals.codes(pa.array(["1", "0"])).tolist() == [2, 2]


@pytest.mark.parametrize("column", PLACES, ids=lambda column: str(column.type))
def test_whole_numbers_mean_nothing_in_a_list_nobody_declared(column: Any) -> None:
    """A perfect model with another order of classes once had the losses 1 and 1, and band 1."""
    found = Classes.of(["cat", "dog"], declared=False)
    with pytest.raises(WrongType, match="whole numbers given for classes of unknown order"):
        found.codes(column, or_places=True)
    assert Classes.of([1, 0], declared=False).codes(column).tolist() == [0, 1, 0]


@pytest.mark.parametrize("column", PLACES, ids=lambda column: str(column.type))
@pytest.mark.parametrize("declared", [True, False])
def test_a_number_that_names_a_class_is_never_a_place(column: Any, declared: bool) -> None:
    """In Parquet, 1 was the second class of "1", "2", "x"; in CSV it was the first."""
    classes = Classes.of(["1", "0", "x"], declared=declared)
    assert classes.codes(column, or_places=True).tolist() == [0, 1, 0]
    assert classes.codes(column).tolist() == [0, 1, 0]


def test_names_and_places_do_not_mix() -> None:
    mixed = pa.array(["cat", "1"])
    assert Classes.of(["cat", "dog"]).codes(mixed, or_places=True).tolist() == [0, 2]


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
