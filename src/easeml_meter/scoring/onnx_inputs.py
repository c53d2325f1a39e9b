"""Columns of a table, made into the tensors that an ONNX model takes, or refused by their types."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from easeml_meter.errors import InvalidInput
from easeml_meter.scoring.onnx_checks import NUMERIC, Tensor, listing
from easeml_meter.scoring.predictor import ModelFailed
from easeml_meter.tables.source import excerpt, some

_BLOCK_ROWS = 1 << 11
"""Rows that are packed at a time: few enough to stay in the processor's cache."""


@dataclass(frozen=True)
class Feed:
    """One model input and the columns it is made of: one, or, for a matrix, several numeric ones.

    `shape` is that of one row.
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    columns: tuple[str, ...]

    @property
    def type(self) -> Any:
        """The Arrow type of the packed column."""
        one = pa.string() if self.kind == "str" else pa.from_numpy_dtype(np.dtype(self.kind))
        return one if self.shape in ((), (1,)) else pa.list_(one, math.prod(self.shape))

    @property
    def row_bytes(self) -> int:
        """Bytes that a row takes; texts count as 16."""
        size = 16 if self.kind == "str" else np.dtype(self.kind).itemsize
        return size * math.prod(self.shape)

    def pack(self, batch: Any) -> Any:
        """Return the column that the model's process reads."""
        if len(self.columns) > 1:
            values = pa.array(self._matrix(batch).ravel())
        else:
            column = batch.column(self.columns[0])
            if pa.types.is_fixed_size_list(column.type):
                if column.null_count:
                    raise _missing(self.columns[0], self)
                column = column.flatten()
            values = self._texts(column) if self.kind == "str" else pa.array(self._numbers(column))
        return self._shaped(values)

    def zero(self) -> Any:
        """Return one row, of zeros or empty texts."""
        count = math.prod(self.shape)
        texts = self.kind == "str"
        return self._shaped(pa.array([""] * count if texts else np.zeros(count, self.kind)))

    def _shaped(self, values: Any) -> Any:
        if pa.types.is_fixed_size_list(self.type):
            return pa.FixedSizeListArray.from_arrays(values, type=self.type)
        return values

    def _matrix(self, batch: Any) -> NDArray[Any]:
        matrix = np.empty((batch.num_rows, len(self.columns)), self.kind)
        columns = [self._readable(batch.column(name), name) for name in self.columns]
        for at in range(0, len(matrix), _BLOCK_ROWS):
            block = matrix[at : at + _BLOCK_ROWS]
            for place, column in enumerate(columns):
                block[:, place] = column[at : at + _BLOCK_ROWS]
        return matrix

    def _numbers(self, column: Any) -> NDArray[Any]:
        return self._readable(column, self.columns[0]).astype(self.kind, copy=False)

    def _readable(self, column: Any, name: str) -> NDArray[Any]:
        """Return numbers that numpy casts to the tensor's type; what is missing becomes NaN."""
        column = _plain(column)
        if pa.types.is_decimal(column.type):
            column = column.cast(pa.string()).cast(pa.float64())  # as `read_reals` does
        elif pa.types.is_boolean(column.type):
            column = column.cast(pa.uint8())
        if column.null_count and np.dtype(self.kind).kind != "f":
            raise _missing(name, self)
        numbers: NDArray[Any] = column.to_numpy(zero_copy_only=False)
        return numbers

    def _texts(self, column: Any) -> Any:
        if column.null_count:
            raise _missing(self.columns[0], self)
        return _plain(column).cast(pa.string())


def feeds_for(inputs: tuple[Tensor, ...], columns: Any) -> tuple[Feed, ...]:
    """Find out which columns each model input takes, or refuse them in one line."""
    if not inputs:
        raise InvalidInput("a model without inputs given, one that takes the columns needed")
    for tensor in inputs:
        _check_rows(tensor)
    if len(inputs) == 1:
        (tensor,) = inputs
        if len(columns) == 1:
            return (_of_column(tensor, columns.field(0)),)
        if not _takes_one(tensor, columns):
            return (_of_all(tensor, columns),)
    strange = [tensor for tensor in inputs if tensor.name not in columns.names]
    if strange:
        given = f"model inputs {listing(inputs)}"
        needed = f"one for each column, named as it, or a single matrix of all: {_named(columns)}"
        raise InvalidInput(f"{given} given, {needed} needed")
    return tuple(_of_column(tensor, columns.field(tensor.name)) for tensor in inputs)


def packed(feeds: tuple[Feed, ...], batches: Iterable[Any], rows: int) -> Iterator[Any]:
    """Pack batches, all of this size but the last.

    What a model computes may depend, in its last digits, on how many rows it gets at once; so how
    the table was cut into batches must not show.
    """
    schema = schema_of(feeds)
    for batch in _cut(batches, rows):
        yield pa.record_batch([feed.pack(batch) for feed in feeds], schema)


def made_up(feeds: tuple[Feed, ...]) -> Any:
    """Return a packed batch of one row that stands in no table."""
    return pa.record_batch([feed.zero() for feed in feeds], schema_of(feeds))


def schema_of(feeds: tuple[Feed, ...]) -> Any:
    """The columns that `packed` gives."""
    return pa.schema([(feed.name, feed.type) for feed in feeds])


def _cut(batches: Iterable[Any], rows: int) -> Iterator[Any]:
    held: list[Any] = []
    for whole in batches:
        batch = whole
        while batch.num_rows:
            held.append(batch.slice(0, rows - sum(piece.num_rows for piece in held)))
            batch = batch.slice(held[-1].num_rows)
            if sum(piece.num_rows for piece in held) == rows:
                yield _joined(held)
                held = []
    if held:
        yield _joined(held)


def _joined(pieces: list[Any]) -> Any:
    return pieces[0] if len(pieces) == 1 else pa.concat_batches(pieces)


def _check_rows(tensor: Tensor) -> None:
    if not tensor.shape:
        raise InvalidInput(f"model input {tensor} given, a tensor of shape [rows, ...] needed")
    if tensor.shape[0] is not None:
        needed = "one that takes any number of rows needed: export it with a dynamic first size"
        raise InvalidInput(f"model input {tensor} given, {needed}")


def _takes_one(tensor: Tensor, columns: Any) -> bool:
    """Whether a model's only input is one column among several."""
    if tensor.name not in columns.names:
        return False
    listed = pa.types.is_fixed_size_list(columns.field(tensor.name).type)
    return listed or tensor.shape in ((None,), (None, 1))


def _of_all(tensor: Tensor, columns: Any) -> Feed:
    size = len(columns)
    if tensor.shape not in ((None, size), (None, None)):
        needed = f"a matrix [?, {size}] needed, for the columns {_named(columns)}"
        raise InvalidInput(f"model input {tensor} given, {needed}")
    for field in columns:
        if tensor.kind == "str" or not _fits(field.type, tensor.kind):
            raise _wrong_type(tensor, field)
    return Feed(tensor.name, tensor.kind, (size,), tuple(columns.names))


def _of_column(tensor: Tensor, field: Any) -> Feed:
    kind, size = field.type, 1
    if listed := pa.types.is_fixed_size_list(kind):
        kind, size = kind.value_type, kind.list_size
    if not _fits(kind, tensor.kind):
        raise _wrong_type(tensor, field)
    row = (tensor.shape or ())[1:]
    unknown = row.count(None)
    known = math.prod(length for length in row if length is not None)
    if unknown > 1 or size % known or (not unknown and known != size) or (listed and not row):
        needed = f"[?, {size}] needed" if listed else "[?] or [?, 1] needed"
        line = f"model input {tensor} given, {needed} for the column {excerpt(field.name, 40)}"
        raise InvalidInput(line)
    shape = tuple(size // known if length is None else length for length in row)
    return Feed(tensor.name, tensor.kind, shape, (field.name,))


def _fits(kind: Any, wanted: str) -> bool:
    """Whether all values of a column can be cast; to fewer digits is fine, to integers not."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if _is_text(kind) or wanted == "str":
        return _is_text(kind) and wanted == "str"
    if pa.types.is_boolean(kind):
        return wanted == "bool" or wanted in NUMERIC
    if wanted not in NUMERIC:
        return False
    if pa.types.is_integer(kind):
        safe = np.can_cast(kind.to_pandas_dtype(), wanted, "safe")
        return safe or np.dtype(wanted).kind == "f"
    return np.dtype(wanted).kind == "f" and (
        pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )


def _is_text(kind: Any) -> bool:
    return any(
        is_kind(kind)
        for is_kind in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    )


def _plain(column: Any) -> Any:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _wrong_type(tensor: Tensor, field: Any) -> InvalidInput:
    column = f"{excerpt(field.name, 40)} of type {excerpt(field.type)}"
    return InvalidInput(f"model input {tensor} given, one that takes the column {column} needed")


def _missing(column: str, feed: Feed) -> ModelFailed:
    line = f"column {excerpt(column, 40)}: a value is missing, which {feed.kind} cannot say"
    return ModelFailed(f"{line}: train the model on float inputs, or without this column")


def _named(columns: Any) -> str:
    return some([f"{field.name} ({field.type})" for field in columns])
