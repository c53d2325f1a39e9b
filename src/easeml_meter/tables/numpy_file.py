"""npy: one numpy array."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from easeml_meter.errors import InvalidInput
from easeml_meter.tables.files import Stamp
from easeml_meter.tables.source import Source
from easeml_meter.tables.table import LIST_ROWS, MOST_ROWS, Batches, FileTable, Manner
from easeml_meter.tables.wording import excerpt, named

COLUMN = "prediction"
"""An array has no names; this is what its one column is called."""

_LONGEST_TEXT = 1 << 16


@dataclass(frozen=True)
class NpyTable(FileTable):
    """A numpy array of one or two dimensions; pickled objects are never loaded."""

    dtype: np.dtype[Any]
    width: int
    offset: int
    kind: ClassVar[str] = "npy"

    @classmethod
    def open(cls, path: Source, stamp: Stamp, manner: Manner) -> Self:
        """Read the header."""
        with path.open("rb") as file, warnings.catch_warnings(action="ignore"):
            version = np.lib.format.read_magic(file)
            if version == (1, 0):
                shape, columns_first, dtype = np.lib.format.read_array_header_1_0(file)
            else:
                shape, columns_first, dtype = np.lib.format.read_array_header_2_0(file)
            offset = file.tell()
        if len(shape) not in (1, 2) or 0 in shape:
            raise InvalidInput(f"shape {excerpt(shape)} given, one row per example needed")
        if dtype.kind not in "biufU" or dtype.itemsize > (
            _LONGEST_TEXT if dtype.kind == "U" else 8
        ):
            raise InvalidInput(f"type {excerpt(dtype)} given, numbers or text needed")
        width = shape[1] if len(shape) == 2 else 1
        if columns_first and width > 1 and shape[0] > 1:
            raise InvalidInput("column order given, row order needed: np.ascontiguousarray")
        if stamp[2] - offset != shape[0] * width * dtype.itemsize:
            raise InvalidInput("its length does not fit its header: save it again with np.save")
        column = _column(np.empty(0, dtype), width)
        schema = pa.schema([(COLUMN, column.type)])
        return cls(named(path), schema, shape[0], path, stamp, dtype, width, offset)

    def _read(self, columns: list[str]) -> Batches:
        size = (LIST_ROWS if self.width > 1 else MOST_ROWS) * self.width
        with self.path.open("rb") as file:
            file.seek(self.offset)
            while data := file.read(size * self.dtype.itemsize):
                column = _column(np.frombuffer(data, self.dtype), self.width)
                yield pa.RecordBatch.from_arrays([column], schema=self.schema)


def _column(flat: Any, width: int) -> pa.Array:
    column = pa.array(flat.astype(flat.dtype.newbyteorder("=")))
    return column if width == 1 else pa.FixedSizeListArray.from_arrays(column, width)
