"""Values in columns: what is refused is named by its row, and secrets are not told."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from easeml_meter.errors import InvalidInput
from easeml_meter.scoring.classes import WrongType
from easeml_meter.scoring.columns import RowPlaces, flattened, no_nulls, read_reals


def test_a_refusal_names_the_row_and_never_a_label() -> None:
    assert (
        str(RowPlaces(11).refuse(3, "'x'", "a number needed"))
        == "row 14: 'x' given, a number needed"
    )
    assert str(RowPlaces(11, width=2).refuse(3, "'x'", "a number needed")).startswith("row 12: ")
    assert "x" not in str(RowPlaces(11, secret=True).refuse(3, "'x'", "a number needed"))
    assert RowPlaces(11, secret=True)[2] == RowPlaces(11, 2, secret=True)


def test_missing_values() -> None:
    coded = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["a", None]))
    for column in (pa.array([1, None]), coded):
        with pytest.raises(InvalidInput, match="row 2: None given, no value may be missing"):
            no_nulls(column, RowPlaces(1))


def test_numbers_in_text() -> None:
    column = pa.array([" 1.50", "2e1"]).dictionary_encode()
    assert read_reals(column, RowPlaces(1)).tolist() == [1.5, 20.0]
    with pytest.raises(InvalidInput, match="row 2: 'x' given, a finite number needed"):
        read_reals(pa.array(["1", "x"]), RowPlaces(1))
    with pytest.raises(WrongType, match="finite number needed"):
        read_reals(pa.array([b"1"]), RowPlaces(1))


def test_decimals_are_the_numbers_that_their_digits_are() -> None:
    written = [f"{number / 1000:.3f}" for number in range(-1000, 1001)] + ["12345678901.023"]
    wanted = read_reals(pa.array(written), RowPlaces(1)).tolist()
    for kind in (pa.decimal128(18, 3), pa.decimal128(30, 9), pa.decimal256(50, 20)):
        column = pa.array(list(map(Decimal, written)), kind)
        assert read_reals(column, RowPlaces(1)).tolist() == wanted


def test_decimals_of_an_absurd_scale_are_refused() -> None:
    content = [None, pa.py_buffer(bytes(16))]
    column = pa.Array.from_buffers(pa.decimal128(38, -1000), 1, content)
    column.validate(full=True)
    with pytest.raises(WrongType, match=r"decimal128\(38, -1000\) given, a finite number needed"):
        read_reals(column, RowPlaces(1))


def test_lists_of_one_length() -> None:
    lists = pa.array([[1, 2], [3, 4]])
    for column in (
        lists,
        lists.cast(pa.list_(pa.int64(), 2)),
        lists.cast(pa.large_list(pa.int8())),
    ):
        values, width = flattened(column, RowPlaces(1))
        assert (values.to_pylist(), width) == ([1, 2, 3, 4], 2)
    with pytest.raises(InvalidInput, match="row 1: a list of 2 given, a list of 3 in every row"):
        flattened(lists, RowPlaces(1), 3)
