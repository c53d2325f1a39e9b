"""The class list, never made of test labels, and labels of any encoding as numbers by it."""

from __future__ import annotations

import re
import unicodedata
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
from easeml_meter.tables.source import excerpt
from easeml_meter.tables.spelling import as_texts, is_text

_WHOLE_NUMBER = re.compile(r"(0|-?[1-9][0-9]{0,17})(?:\.0+)?")
_PLACE = re.compile(r"0|[1-9][0-9]{0,17}")
_LARGEST_TABLE = 1 << 16


def classes_in_force(spec: MeterSpec, validation: ValidationSet | None) -> Classes | None:
    """Return the class list: declared, or the validation set's.

    It never comes from test labels: a list that follows them would tell which ones occur.
    """
    if spec.meter.sample.classes:
        return Classes.of(spec.meter.sample.classes)
    found = validation and validation.settings["classes"]
    return Classes.of(found, declared=False) if found else None


def folded(text: str) -> str:
    """Return what texts share that differ by case, space around them or Unicode form alone."""
    return unicodedata.normalize("NFC", text).strip().casefold()


class WrongType(InvalidInput):
    """A column of a type that cannot hold what is asked for."""


@dataclass(frozen=True)
class Classes:
    """The classes in their order: declared, or taken from the validation set; never from labels.

    A *code* is a class's place in the list; `len(classes)` stands for "none of them", which no
    prediction may be but a hidden label may: it then counts as wrong for everybody.
    """

    values: tuple[str, ...] | tuple[int, ...]
    declared: bool = True
    """Whether meter.toml lists them, so that developers know their order."""

    def __post_init__(self) -> None:
        if not self.values:
            raise invalid("classes", "none", "at least one")
        if len(set(self.values)) != len(self.values):
            raise InvalidInput("classes: one stands there twice, each must stand there once")

    @classmethod
    def of(cls, values: Iterable[object], *, declared: bool = True) -> Self:
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
            return cls(tuple(number for number in numbers if number is not None), declared)
        for value in given:
            if not isinstance(value, str):
                allowed = "either all text or all whole numbers of at most 18 digits"
                raise InvalidInput(f"classes: {excerpt(value)} among texts or too long, {allowed}")
        return cls(tuple(texts), declared)

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

    @property
    def ordered(self) -> bool:
        """Whether everybody knows the order of the classes, so that a place in it means one.

        Texts found in a validation set are listed alphabetically, which no model follows for
        certain. Whole numbers have one order.
        """
        return self.declared or self.numeric

    def near(self, text: str) -> str | None:
        """Return the class that a text differs from by case, space or Unicode form alone."""
        return self._by_fold.get(folded(text))

    def check_order(self, given: str) -> None:
        """Refuse what is read by the order of the classes, unless everybody knows that order."""
        if self.ordered:
            return
        names = "class names, or one column probability_CLASS for each class"
        remedy = f"give {names}, or list the classes in meter.toml before meter init"
        raise WrongType(f"{given} given for classes of unknown order ({self}): {remedy}")

    def codes(self, column: Any, *, or_places: bool = False) -> NDArray[Any]:
        """Return the code of each value of a column without nulls; `len(self)` for strangers.

        `or_places`: whole numbers for classes that are texts are places in the list, from 0,
        unless some class is itself named by a whole number.
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
        if is_text(kind):
            return self._codes_of_texts(column, or_places)
        if pa.types.is_boolean(kind) and self._truths:
            false, true = (self._truths.get(word, len(self)) for word in ("false", "true"))
            return np.where(column.to_numpy(zero_copy_only=False), true, false).astype(self.dtype)
        if pa.types.is_integer(kind):
            numbers = column.to_numpy(zero_copy_only=False)
            if self.numeric:
                return self._codes_of_numbers(numbers)
            if self._named_by_numbers:
                return self._codes_of_texts(as_texts(column, "classes"), or_places)
            if or_places:
                self.check_order("whole numbers")
                return _places(numbers, 0, len(self), len(self), self.dtype)
        if pa.types.is_floating(kind) and self.numeric:
            return self._codes_of_floats(column.to_numpy(zero_copy_only=False))
        needed = "whole numbers" if self.numeric else "text"
        raise WrongType(f"type {excerpt(kind)} given, classes as {needed} needed ({self})")

    def _codes_of_texts(self, column: Any, or_places: bool) -> NDArray[Any]:
        texts = pa.array([str(value) for value in self.values], type=column.type)
        found = pc.index_in(column, value_set=texts)
        if not found.null_count:
            return self._filled(found)
        # Few words are left, as a rule: 3.0 for 3, True for true, or places of all rows.
        words = column.dictionary_encode()
        listed = words.dictionary.to_pylist()
        by_place = or_places and found.null_count == len(column)
        by_place = by_place and all(map(_PLACE.fullmatch, listed))
        if by_place and not (self.numeric or self._named_by_numbers):
            self.check_order("whole numbers")
            codes = np.array([min(int(word), len(self)) for word in listed], self.dtype)
        else:
            codes = np.array([self._code_of(word) for word in listed], self.dtype)
        places: NDArray[Any] = words.indices.to_numpy()
        return np.take(codes, places)

    def _code_of(self, word: str) -> int:
        number = _number_in(word) if self.numeric else None
        known = self._by_value.get(word if number is None else number)
        return self._truths.get(word.lower(), len(self)) if known is None else known

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
    def _by_fold(self) -> dict[str, str]:
        return {folded(str(value)): str(value) for value in self.values}

    @cached_property
    def _by_value(self) -> dict[object, int]:
        return {value: place for place, value in enumerate(self.values)}

    @cached_property
    def _named_by_numbers(self) -> bool:
        """Whether a whole number could be the name of a class rather than its place."""
        return any(_number_in(str(value)) is not None for value in self.values)

    @cached_property
    def _truths(self) -> dict[str, int]:
        """The places of the classes that are true and false, however written, or 1 and 0."""
        if self.numeric:
            words = {0: "false", 1: "true"}
            return {words[v]: i for i, v in enumerate(self.values) if v in words}
        lower = [str(value).lower() for value in self.values]
        # Where "True" and "true" are two classes, only their own spelling tells them apart.
        return {w: lower.index(w) for w in ("false", "true") if lower.count(w) == 1}

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
