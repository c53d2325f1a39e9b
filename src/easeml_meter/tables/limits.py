"""How much a table may hold that a stranger sent: what is refused before memory is spent on it.

A few kilobytes can unpack to gigabytes. So what a file says about itself is read first, without
the library that decodes it (`parquet_layout`, `arrow_layout`), and what no header says is counted
batch by batch. The files of a meter's owner are not limited.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from easeml_meter.errors import InvalidInput, TooLarge

_WORDS = {
    "most_rows": "rows",
    "most_columns": "columns",
    "most_decoded_bytes": "bytes when decoded",
    "longest_text": "bytes in one text",
    "most_classes": "classes",
}
_OFFSET = 8
"""Bytes that a text or list takes beside its content."""
_VIEW = 16
"""Bytes of a view of a text; the first four are its length."""


@dataclass(frozen=True)
class TableLimits:
    """What one table may hold; each limit is a setting of a server, of the same name."""

    most_rows: int = 10_000_000
    most_columns: int = 10_000
    most_decoded_bytes: int = 256 << 20
    longest_text: int = 1 << 20
    most_classes: int = 25_000

    def check(self, setting: str, given: int) -> None:
        """Refuse more than a setting allows.

        Raises:
            TooLarge: it is more.
        """
        if given > (most := getattr(self, setting)):
            line = f"{given:,} {_WORDS[setting]} given, at most {most:,}"
            raise TooLarge(f"{line} (setting {setting} of the server)")


USUAL_LIMITS = TableLimits()


class TableTally:
    """What was read of a table so far, against its limits."""

    def __init__(self, limits: TableLimits) -> None:
        self._limits = limits
        self._rows = self.bytes = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Count a valid batch, before dictionaries and views in it are written out.

        Raises:
            TooLarge: it is too much.
            InvalidInput: it is of a type whose values may share their storage.
        """
        self._rows += batch.num_rows
        self._limits.check("most_rows", self._rows)
        for column in batch.columns:
            self.bytes += self._size(column)
        self._limits.check("most_decoded_bytes", self.bytes)

    def _size(self, column: Any) -> int:
        width = _width(column.type)
        return int(self._sizes(column).sum()) if width is None else width * len(column)

    def _sizes(self, column: Any) -> NDArray[Any]:
        """Return how many bytes each value takes when it is written out."""
        if isinstance(column, pa.ExtensionArray):
            column = column.storage
        kind, types, rows = column.type, pa.types, len(column)
        if (width := _width(kind)) is not None:
            return np.full(rows, width)
        if types.is_dictionary(kind):
            # Nulls are counted as the first entry: too much, and never too little.
            places = column.indices.fill_null(0).to_numpy(zero_copy_only=False)
            sizes = self._sizes(column.dictionary)
            return np.take(sizes, places) if len(sizes) else np.zeros(rows, int)
        if types.is_struct(kind):
            fields = [self._sizes(column.field(place)) for place in range(kind.num_fields)]
            return np.asarray(np.sum([np.ones(rows, int), *fields], axis=0))
        if types.is_fixed_size_list(kind):
            first, many = column.offset * kind.list_size, rows * kind.list_size
            items = self._sizes(column.values)[first : first + many]
            return np.asarray(items.reshape(rows, kind.list_size).sum(axis=1))
        if types.is_map(kind):
            return self._in_lists(column, self._sizes(column.keys) + self._sizes(column.items))
        if types.is_list(kind) or types.is_large_list(kind):
            return self._in_lists(column, self._sizes(column.values))
        lengths = _lengths(column)
        self._limits.check("longest_text", int(lengths.max(initial=0)))
        return np.asarray(lengths + _OFFSET)

    @staticmethod
    def _in_lists(column: Any, sizes: NDArray[Any]) -> NDArray[Any]:
        ends, total = column.offsets.to_numpy(), np.append(0, np.cumsum(sizes))
        return np.asarray(np.diff(total[ends]) + _OFFSET)


@cache
def _width(kind: pa.DataType) -> int | None:
    """Return the bytes of each value; None where they differ."""
    if pa.types.is_null(kind):
        return 1
    if isinstance(kind, pa.BaseExtensionType) or pa.types.is_nested(kind):
        return None
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return None
    try:
        return max(1, int(kind.bit_width) // 8)
    except ValueError:
        return None


def _lengths(column: Any) -> NDArray[Any]:
    """Return the length of each text."""
    kind, types, start, rows = column.type, pa.types, column.offset, len(column)
    buffers: list[Any] = column.buffers()
    if types.is_string_view(kind) or types.is_binary_view(kind):
        numbers = np.frombuffer(buffers[1] or b"", np.int32)[:: _VIEW // 4]
        return numbers[start : start + rows].astype(np.int64)
    if types.is_string(kind) or types.is_binary(kind):
        dtype: Any = np.int32
    elif types.is_large_string(kind) or types.is_large_binary(kind):
        dtype = np.int64
    else:
        # Lists that are views, runs and unions may show the same value any number of times.
        shown = str(kind)[:40]
        raise InvalidInput(f"type {shown!r} given, numbers, texts or lists of them needed")
    ends = np.frombuffer(buffers[1] or b"", dtype)[start : start + rows + 1]
    return np.diff(ends).astype(np.int64)
