"""Columns of values taken apart: numbers, lists, and where a refused value stands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from easeml_meter.errors import InvalidInput
from easeml_meter.scoring.classes import WrongType
from easeml_meter.tables.spelling import is_text
from easeml_meter.tables.wording import excerpt


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
