"""The class list, and class labels of any encoding turned into small whole numbers by it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from easeml_meter.core.model import ValidationSet
from easeml_meter.errors import InvalidInput, invalid
from easeml_meter.spec import MeterSpec
from easeml_meter.tables.wording import excerpt

_WHOLE_NUMBER = re.compile(r"(0|-?[1-9][0-9]{0,17})(?:\.0+)?")
_LARGEST_TABLE = 1 << 16


def classes_in_force(spec: MeterSpec, validation: ValidationSet | None) -> Classes | None:
    """Return the class list: declared, or the validation set's.

    It never comes from test labels: a list that follows them would tell which ones occur.
    """
    listed = spec.classes or (validation and validation.settings["classes"])
    return Classes.of(listed) if listed else None


class WrongType(InvalidInput):
    """A column of a type that cannot hold what is asked for."""


@dataclass(frozen=True)
class Classes:
    """The classes in their order: declared, or taken from the validation set; never from labels.

    A *code* is a class's place in the list; `len(classes)` stands for "none of them", which no
    prediction may be but a hidden label may: it then counts as wrong for everybody.
    """

    values: tuple[str, ...] | tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.values:
            raise invalid("classes", "none", "at least one")
        if len(set(self.values)) != len(self.values):
            raise InvalidInput("classes: one stands there twice, each must stand there once")

    @classmethod
    def of(cls, values: Iterable[object]) -> Self:
        """Take a list of texts or of whole numbers; texts that are all whole numbers are numbers.

        So a column of numbers means the same in a CSV file, where all is text, as in Parquet.
        """
        given = [int(value) if isinstance(value, bool | np.bool_) else value for value in values]
        for value in given:
            if not isinstance(value, str | int | np.integer):
                raise InvalidInput(f"classes: {excerpt(value)} given, text or whole numbers needed")
        texts = [str(value) for value in given]
        numbers = [_number_in(text) for text in texts]
        if None not in numbers:
            return cls(tuple(number for number in numbers if number is not None))
        for value in given:
            if not isinstance(value, str):
                allowed = "either all text or all whole numbers of at most 18 digits"
                raise InvalidInput(f"classes: {excerpt(value)} among texts or too long, {allowed}")
        return cls(tuple(texts))

    def __len__(self) -> int:
        return len(self.values)

    def __str__(self) -> str:
        shown = [excerpt(value, 20) for value in self.values[:5]]
        rest = len(self) - len(shown)
        return ", ".join(shown) + (f" and {rest} more" if rest else "")

    @cached_property
    def numeric(self) -> bool:
        """Whether the classes are whole numbers."""
        return isinstance(self.values[0], int)

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """The smallest type for a code: memory is what limits how many are kept."""
        return np.min_scalar_type(len(self))

    def codes(self, column: Any, *, or_places: bool = False) -> NDArray[Any]:
        """Return the code of each value of a column without nulls; `len(self)` for strangers.

        `or_places`: whole numbers for classes that are texts are places in the list, from 0.
        """
        if isinstance(column.type, pa.ExtensionType):
            column = column.storage
        kind = column.type
        if pa.types.is_dictionary(kind):
            if column.dictionary.null_count:
                return self.codes(column.dictionary_decode(), or_places=or_places)
            places: NDArray[Any] = column.indices.to_numpy(zero_copy_only=False)
            return np.take(self.codes(column.dictionary, or_places=or_places), places)
        if pa.types.is_string_view(kind):
            column = column.cast(pa.large_string())
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            return self._codes_of_texts(column)
        if pa.types.is_boolean(kind) and not self.numeric:
            false, true = (self._truths.get(word, len(self)) for word in ("false", "true"))
            return np.where(column.to_numpy(zero_copy_only=False), true, false).astype(self.dtype)
        if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
            numbers = column.to_numpy(zero_copy_only=False)
            if self.numeric:
                return self._codes_of_numbers(numbers)
            if or_places:
                return _places(numbers, 0, len(self), len(self), self.dtype)
        if pa.types.is_floating(kind) and self.numeric:
            return self._codes_of_floats(column.to_numpy(zero_copy_only=False))
        needed = "whole numbers" if self.numeric else "text"
        raise WrongType(f"type {excerpt(kind)} given, classes as {needed} needed ({self})")

    def _codes_of_texts(self, column: Any) -> NDArray[Any]:
        texts = pa.array([str(value) for value in self.values], type=column.type)
        found = pc.index_in(column, value_set=texts)
        if self.numeric and found.null_count:  # perhaps 3.0 for 3
            words = column.dictionary_encode()
            numbers = [_number_in(word) for word in words.dictionary.to_pylist()]
            per_word = self._codes_of_numbers(np.array([n or 0 for n in numbers], np.int64))
            strange = np.array([number is None for number in numbers])
            per_word[strange] = len(self)
            places: NDArray[Any] = words.indices.to_numpy()
            return np.take(per_word, places)
        return self._filled(found)

    def _codes_of_floats(self, numbers: NDArray[Any]) -> NDArray[Any]:
        numbers = numbers.astype(np.float64, copy=False)
        # Beyond 2**53 a float no longer says which whole number is meant.
        whole = (np.abs(numbers) <= 2.0**53) & (np.floor(numbers) == numbers)
        codes = self._codes_of_numbers(np.where(whole, numbers, 0).astype(np.int64))
        return codes if whole.all() else np.where(whole, codes, self.dtype.type(len(self)))

    def _codes_of_numbers(self, numbers: NDArray[Any]) -> NDArray[Any]:
        low, high = self._span
        if high - low + 1 == len(self) and self._ascending:
            return _places(numbers, low, len(self), len(self), self.dtype)
        if high - low < _LARGEST_TABLE:
            places = _places(numbers, low, high - low + 1, high - low + 1, np.dtype(np.uint32))
            return np.take(self._table, places)
        found = pc.index_in(pa.array(_signed(numbers)), value_set=pa.array(self._numbers))
        return self._filled(found)

    def _filled(self, found: Any) -> NDArray[Any]:
        return np.asarray(found.fill_null(len(self)).to_numpy()).astype(self.dtype)

    @cached_property
    def _truths(self) -> dict[str, int]:
        """The places of "true" and "false", however they are written."""
        return {str(value).lower(): place for place, value in enumerate(self.values)}

    @cached_property
    def _numbers(self) -> NDArray[np.int64]:
        return np.array(self.values, dtype=np.int64)

    @cached_property
    def _span(self) -> tuple[int, int]:
        return int(self._numbers.min()), int(self._numbers.max())

    @cached_property
    def _ascending(self) -> bool:
        return bool((np.diff(self._numbers) > 0).all())

    @cached_property
    def _table(self) -> NDArray[Any]:
        low, high = self._span
        table = np.full(high - low + 2, len(self), dtype=self.dtype)
        table[self._numbers - low] = np.arange(len(self), dtype=self.dtype)
        return table


def _number_in(text: str) -> int | None:
    found = _WHOLE_NUMBER.fullmatch(text)
    return int(found[1]) if found else None


def _places(
    numbers: NDArray[Any], low: int, size: int, outside: int, dtype: np.dtype[Any]
) -> NDArray[Any]:
    """Count from `low`; whatever is not in [low, low + size) becomes `outside`."""
    if not len(numbers):
        return np.empty(0, dtype)
    least, most = int(numbers.min()), int(numbers.max())
    if low <= least and most < low + size:
        return (numbers if low == 0 else _signed(numbers) - low).astype(dtype)
    numbers = _signed(numbers)
    inside = (numbers >= low) & (numbers < low + size)
    return np.where(inside, np.where(inside, numbers, low) - low, outside).astype(dtype)


def _signed(numbers: NDArray[Any]) -> NDArray[np.int64]:
    if numbers.dtype == np.uint64:  # beyond the largest class anyway
        numbers = np.minimum(numbers, np.uint64(np.iinfo(np.int64).max))
    return numbers.astype(np.int64)
