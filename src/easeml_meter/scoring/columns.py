"""Columns of values taken apart: numbers, lists, and where a refused value stands.

A loss of one's own gets labels and predictions in one form, whatever files they come from. All of a
CSV file is text, while columns of Parquet have types: a function that got text from one file and
numbers from another would find other losses in the same data. So the label columns of both sets
decide on a form, and predictions are read in that form or refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from easeml_meter.errors import InvalidInput
from easeml_meter.scoring.classes import WrongType
from easeml_meter.tables.source import excerpt
from easeml_meter.tables.spelling import as_texts, is_text


@dataclass(frozen=True)
class RowPlaces:
    """Where values stand in their file, to say which one is refused."""

    first: int
    """The number of the first row, counted from 1 and without a header."""
    width: int = 1
    """Values per row."""
    secret: bool = False
    """Labels: no content in any message."""

    def refuse(self, index: int, given: str, needed: str) -> InvalidInput:
        """Name the row of a value, what was given unless it is secret, and what is needed."""
        shown = "a label that does not fit" if self.secret else given
        return InvalidInput(f"row {self.first + index // self.width}: {shown} given, {needed}")

    def refuse_first(self, bad: Any, column: Any, needed: str) -> InvalidInput:
        """Refuse the first value that is marked as bad."""
        index = int(np.argmax(bad))
        value = column[index]
        value = value.as_py() if isinstance(value, pa.Scalar) else value
        return self.refuse(index, excerpt(value), needed)

    def __getitem__(self, width: int) -> RowPlaces:
        return RowPlaces(self.first, width, self.secret)


def no_nulls(column: Any, rows: RowPlaces) -> None:
    """Refuse a column that lacks a value."""
    if pa.types.is_dictionary(column.type) and column.dictionary.null_count:
        column = column.dictionary_decode()
    if column.null_count:
        missing = column.is_null().to_numpy(zero_copy_only=False)
        raise rows.refuse_first(missing, column, "no value may be missing")


def flattened(column: Any, rows: RowPlaces, width: int | None = None) -> tuple[Any, int]:
    """Take the lists of a column apart; all must have the same length, `width` if given."""
    no_nulls(column, rows)
    if pa.types.is_fixed_size_list(column.type):
        lengths = np.full(len(column), column.type.list_size)
    else:
        lengths = pc.list_value_length(column).to_numpy(zero_copy_only=False)
    if width is None:
        width = int(lengths[0])
    wrong = lengths != width
    if wrong.any() or width == 0:
        index = int(np.argmax(wrong))
        needed = f"a list of {width} in every row" if width else "a list of values"
        raise rows.refuse(index, f"a list of {lengths[index]}", needed)
    return column.flatten(), width


def read_reals(column: Any, rows: RowPlaces) -> NDArray[np.float64]:
    """Return finite numbers, read from text too."""
    needed = "a finite number needed"
    no_nulls(column, rows)
    kind = column.type
    if pa.types.is_dictionary(kind):
        return read_reals(column.dictionary_decode(), rows)
    if is_text(kind):
        column = _numbers_in_text(column, rows, needed)
    elif pa.types.is_decimal(kind):
        # By its digits, as text is read: Arrow multiplies by a rounded 0.1, which makes 0.3 no 0.3.
        try:
            column = column.cast(pa.string()).cast(pa.float64())
        except pa.ArrowInvalid:  # a scale that Arrow cannot write out
            raise WrongType(f"type {excerpt(kind)} given, {needed}") from None
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        raise WrongType(f"type {excerpt(kind)} given, {needed}")
    numbers: NDArray[np.float64] = np.asarray(column.to_numpy(zero_copy_only=False), np.float64)
    finite = np.isfinite(numbers)
    if not finite.all():
        raise rows.refuse_first(~finite, numbers, needed)
    return numbers


def _numbers_in_text(column: Any, rows: RowPlaces, needed: str) -> Any:
    if pa.types.is_string_view(column.type):
        column = column.cast(pa.large_string())
    trimmed = pc.utf8_trim_whitespace(column)
    try:
        return trimmed.cast(pa.float64())
    except pa.ArrowInvalid:
        for index, text in enumerate(trimmed):
            try:
                text.cast(pa.float64())
            except pa.ArrowInvalid:
                raise rows.refuse(index, excerpt(text.as_py()), needed) from None
        raise


def is_list(kind: Any) -> bool:
    """Whether a type is one of those of lists."""
    return bool(
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )


_DIGITS = re.compile(r"0|-?[1-9][0-9]{0,17}")
_EXACT = 2.0**53
"""From here on a float no longer says which whole number is meant."""


class ColumnForm(StrEnum):
    """What the values of a column are."""

    TEXT = "text"
    WHOLE = "whole numbers"
    REAL = "numbers"
    BOOLEAN = "booleans"
    LISTS = "lists"


def form_of(kind: pa.DataType) -> ColumnForm:
    """Return the form of a type, or raise `WrongType` for one that no loss takes."""
    if pa.types.is_dictionary(kind):
        return form_of(kind.value_type)
    if is_text(kind):
        return ColumnForm.TEXT
    if pa.types.is_integer(kind):
        return ColumnForm.WHOLE
    if pa.types.is_floating(kind):
        return ColumnForm.REAL
    if pa.types.is_boolean(kind):
        return ColumnForm.BOOLEAN
    if is_list(kind):
        return ColumnForm.LISTS
    raise WrongType(f"type {excerpt(kind)} given, numbers, text or lists of them needed")


def form_of_both(test: ColumnForm, validation: ColumnForm) -> ColumnForm:
    """Return the form in which the labels of both sets are read."""
    if test is validation:
        return test
    for form in (ColumnForm.REAL, ColumnForm.TEXT):
        if {test, validation} == {form, ColumnForm.WHOLE}:
            return form
    given = f"the labels of the validation set are {validation}, those of the test set {test}"
    raise InvalidInput(f"{given}: give both in the same form")


def read_in_form(column: Any, form: ColumnForm | None, rows: RowPlaces) -> NDArray[Any]:
    """Turn a column into what a function gets: in this form, or in its own.

    Text and whole numbers become each other only where the text is the number's digits. Nothing
    else becomes text, and nothing else is read from it: 0.5 could be written in many ways.
    """
    no_nulls(column, rows)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    own = form_of(column.type)
    if form is None or own is ColumnForm.LISTS:
        form = own  # lists may be predicted whatever the labels are: the function knows
    match form, own:
        case ColumnForm.LISTS, ColumnForm.LISTS:
            return _matrix(column, rows)
        case ColumnForm.TEXT, ColumnForm.TEXT | ColumnForm.WHOLE:
            texts: NDArray[Any] = as_texts(column, "values").to_numpy(zero_copy_only=False)
            return texts
        case ColumnForm.WHOLE, ColumnForm.WHOLE:
            return _whole(column)
        case ColumnForm.WHOLE, ColumnForm.TEXT:
            return _whole(_from_digits(column, rows))
        case ColumnForm.REAL, ColumnForm.WHOLE | ColumnForm.REAL:
            return read_reals(column, rows)
        case ColumnForm.WHOLE, ColumnForm.REAL:
            return _exact(column, rows, "give whole numbers from 2**53 on as such")
        case ColumnForm.BOOLEAN, ColumnForm.BOOLEAN:
            truths: NDArray[Any] = column.to_numpy(zero_copy_only=False)
            return truths
    hint = ": write them as JSON, Parquet, Arrow or npy" if own is ColumnForm.TEXT else ""
    raise WrongType(f"{own} given, {form} needed, as the labels are{hint}")


def _whole(column: Any) -> NDArray[Any]:
    # One type for all: differences of 8-bit numbers would overflow.
    try:
        numbers: NDArray[Any] = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        raise WrongType("whole numbers of more than 63 bits given, give them as text") from None
    return numbers


def _from_digits(column: Any, rows: RowPlaces) -> Any:
    texts = column.to_pylist()
    strange = np.array([_DIGITS.fullmatch(text) is None for text in texts])
    if strange.any():
        needed = "a whole number needed, written in its digits, as the labels are"
        raise rows.refuse_first(strange, column, needed)
    return column.cast(pa.int64())


def _matrix(column: Any, rows: RowPlaces) -> NDArray[Any]:
    """Return one row of values per list: numbers, or texts."""
    values, width = flattened(column, rows)
    own = form_of(values.type)
    if own is ColumnForm.LISTS:
        raise WrongType(f"type {excerpt(column.type)} given, lists of numbers or text needed")
    if own is ColumnForm.TEXT:
        read = read_in_form(values, own, rows[width])
    elif own is ColumnForm.WHOLE:
        # In lists all numbers may have fractions: many programs write 1 for 1.0.
        read = _exact(values, rows[width], "below 2**53 in lists: give longer ones as text")
    else:
        read = read_reals(values, rows[width])
    return read.reshape(-1, width)


def _exact(column: Any, rows: RowPlaces, needed: str) -> NDArray[Any]:
    """Return numbers as floats, unless two whole numbers could be the same one."""
    numbers = read_reals(column, rows)
    large = np.abs(numbers) >= _EXACT
    if large.any():
        raise rows.refuse_first(large, column, needed)
    return numbers
