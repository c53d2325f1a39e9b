"""Values in columns: refused by their row, secrets not told, and in one form for all files."""

from __future__ import annotations

from decimal import Decimal
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from easeml_meter.errors import InvalidInput
from easeml_meter.scoring.classes import WrongType
from easeml_meter.scoring.columns import (
    ColumnForm,
    RowPlaces,
    flattened,
    form_of,
    form_of_both,
    no_nulls,
    read_in_form,
    read_reals,
)


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


COLUMNS = {
    ColumnForm.TEXT: pa.array(["7", "-3"]),
    ColumnForm.WHOLE: pa.array([7, -3]),
    ColumnForm.REAL: pa.array([7.0, -3.0]),
    ColumnForm.BOOLEAN: pa.array([True, False]),
    ColumnForm.LISTS: pa.array([[1, 2], [3, 4]]),
}
BOTH = {
    (ColumnForm.TEXT, ColumnForm.WHOLE): ColumnForm.TEXT,
    (ColumnForm.REAL, ColumnForm.WHOLE): ColumnForm.REAL,
    **{(form, form): form for form in ColumnForm},
}
"""The pairs of label columns that go together."""
READ = {
    (ColumnForm.TEXT, ColumnForm.TEXT): ["7", "-3"],
    (ColumnForm.TEXT, ColumnForm.WHOLE): ["7", "-3"],
    (ColumnForm.WHOLE, ColumnForm.WHOLE): [7, -3],
    (ColumnForm.WHOLE, ColumnForm.TEXT): [7, -3],
    (ColumnForm.WHOLE, ColumnForm.REAL): [7.0, -3.0],
    (ColumnForm.REAL, ColumnForm.WHOLE): [7.0, -3.0],
    (ColumnForm.REAL, ColumnForm.REAL): [7.0, -3.0],
    (ColumnForm.BOOLEAN, ColumnForm.BOOLEAN): [True, False],
    **{(form, ColumnForm.LISTS): [[1.0, 2.0], [3.0, 4.0]] for form in ColumnForm},
}
"""The columns that are read in each form."""


def test_the_forms_of_types() -> None:
    assert {form_of(column.type): column for column in COLUMNS.values()} == COLUMNS
    assert form_of(pa.dictionary(pa.int8(), pa.large_string())) is ColumnForm.TEXT
    for kind in (pa.date32(), pa.binary(), pa.null(), pa.struct([])):
        with pytest.raises(WrongType, match="numbers, text or lists of them needed"):
            form_of(kind)


@pytest.mark.parametrize(("test", "validation"), list(product(ColumnForm, ColumnForm)))
def test_label_columns_that_go_together(test: ColumnForm, validation: ColumnForm) -> None:
    known = BOTH.get((test, validation)) or BOTH.get((validation, test))
    if known is not None:
        assert form_of_both(test, validation) is known
        return
    with pytest.raises(InvalidInput, match=f"are {validation}, those of the test set {test}"):
        form_of_both(test, validation)


@pytest.mark.parametrize(("form", "own"), list(product(ColumnForm, ColumnForm)))
def test_columns_that_are_read_in_a_form(form: ColumnForm, own: ColumnForm) -> None:
    if (form, own) not in READ:
        with pytest.raises(WrongType, match=f"{own} given, {form} needed, as the labels are"):
            read_in_form(COLUMNS[own], form, RowPlaces(1))
        return
    found = read_in_form(COLUMNS[own], form, RowPlaces(1))
    assert found.tolist() == READ[form, own]
    assert [type(each) for each in found.flat] == [
        type(each) for each in np.array(READ[form, own], found.dtype).flat
    ]


@pytest.mark.parametrize("text", ["07", "7.0", "+7", " 7", "-0", "x", "", "9" * 30])
def test_text_is_a_whole_number_only_in_its_digits(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"row 4: .* given, a whole number needed"):
        read_in_form(pa.array(["7", text]), ColumnForm.WHOLE, RowPlaces(3))
    with pytest.raises(InvalidInput, match="row 4: a label that does not fit given"):
        read_in_form(pa.array(["7", text]), ColumnForm.WHOLE, RowPlaces(3, secret=True))


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint8(), pa.int32(), pa.uint64()])
def test_whole_numbers_have_one_type(kind: Any) -> None:
    found = read_in_form(pa.array([100, 5], kind), None, RowPlaces(1))
    assert found.dtype == np.int64
    assert (found[1] - found[0], *found) == (-95, 100, 5)


def test_what_no_number_of_64_bits_holds() -> None:
    with pytest.raises(WrongType, match="give them as text"):
        read_in_form(pa.array([2**64 - 1], pa.uint64()), ColumnForm.WHOLE, RowPlaces(1))
    assert read_in_form(pa.array([2**64 - 1], pa.uint64()), ColumnForm.TEXT, RowPlaces(1)) == [
        str(2**64 - 1)
    ]


def test_floats_that_no_longer_say_which_whole_number_is_meant() -> None:
    """As floats, 2**53 and the label 2**53 + 1 are equal."""
    for number in (2.0**53, -(2.0**53), 1e300):
        with pytest.raises(InvalidInput, match=r"row 2: .* give whole numbers .* as such"):
            read_in_form(pa.array([7.0, number]), ColumnForm.WHOLE, RowPlaces(1))
    largest = 2.0**53 - 1
    assert read_in_form(pa.array([largest]), ColumnForm.WHOLE, RowPlaces(1)) == [largest]
    for number in (2**53, -(2**53), 2**63 - 1):
        with pytest.raises(InvalidInput, match=r"row 2: .* give longer ones as text"):
            read_in_form(pa.array([[7], [number]]), None, RowPlaces(1))
    assert read_in_form(pa.array([[2**53 - 1]]), None, RowPlaces(1)) == [[largest]]
    assert read_in_form(pa.array([[1e300]]), None, RowPlaces(1)) == [[1e300]]


def test_lists_hold_numbers_or_texts_of_one_length() -> None:
    for lists in ([[1, 2]], [[1.0, 2.0]], [[True, False]]):
        assert read_in_form(pa.array(lists), None, RowPlaces(1)).dtype == np.float64
    assert read_in_form(pa.array([["a"], ["b"]]), None, RowPlaces(1)).tolist() == [["a"], ["b"]]
    with pytest.raises(InvalidInput, match="row 2: a list of 1 given"):
        read_in_form(pa.array([["a", "b"], ["b"]]), None, RowPlaces(1))
    with pytest.raises(WrongType, match="lists of numbers or text needed"):
        read_in_form(pa.array([[[1]]]), None, RowPlaces(1))
    with pytest.raises(InvalidInput, match="row 1: nan given, a finite number needed"):
        read_in_form(pa.array([[1.0, np.nan]]), None, RowPlaces(1))
