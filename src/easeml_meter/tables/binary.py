"""Parquet, Arrow IPC, and npy: one numpy array."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from easeml_meter.errors import InvalidInput
from easeml_meter.tables.source import Held, Source, Stamp, excerpt, for_arrow, named
from easeml_meter.tables.table import (
    LEAST_ROWS,
    LIST_ROWS,
    MOST_ROWS,
    Batches,
    FileTable,
    Manner,
    RowRange,
    plain_schema,
    rows_at_once,
)

_BATCH_BYTES = 16 << 20
_BUFFER = 1 << 20
"""Bytes of a column that are read from a file at once: Parquet is read piece by piece."""


@dataclass(frozen=True)
class ParquetTable(FileTable):
    """Parquet, read in small pieces whatever the size of its row groups."""

    groups: tuple[int, ...]
    """The rows of each row group."""
    row_bytes: float
    opened: Any = field(repr=False, compare=False)
    """The reader; of memory only, since a file may be another one by now."""
    kind: ClassVar[str] = "Parquet"

    @classmethod
    def open(cls, path: Source, stamp: Stamp, manner: Manner) -> Self:
        """Read the footer."""
        import pyarrow.parquet as pq

        with pq.ParquetFile(for_arrow(path), **_manner(path)) as file:  # memory stays open
            # Only what is asked here is safe to ask: a broken footer makes pyarrow end the process
            # when it is asked about a column of a row group.
            schema, metadata = plain_schema(file.schema_arrow), file.metadata
            rows = metadata.num_rows
            groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
            size = sum(group.total_byte_size for group in groups)
            return cls(
                name=named(path),
                schema=schema,
                rows=rows,
                path=path,
                stamp=stamp,
                groups=tuple([group.num_rows for group in groups]),
                row_bytes=size / max(1, rows),
                opened=file if isinstance(path, Held) else None,
            )

    def parts(self, columns: Sequence[str], at_most: int) -> list[RowRange]:
        """Split between row groups, into parts of about the same number of rows."""
        if at_most == 1:
            return [RowRange(1, sum(self.groups), partial(self.batches, columns))]
        names = self._names(columns)
        bounds, done = [0], 0
        for index, rows in enumerate(self.groups, 1):
            done += rows
            if done * at_most >= sum(self.groups) * len(bounds):
                bounds.append(index)
        parts = []
        for start, stop in pairwise(bounds):
            read = partial(self._read, names, range(start, stop))
            rows = sum(self.groups[start:stop])
            first = 1 + sum(self.groups[:start])
            parts.append(RowRange(first, rows, partial(self._stream, names, read)))
        return parts

    def _read(self, columns: list[str], groups: Sequence[int] | None = None) -> Batches:
        most = rows_at_once([self.schema.field(name).type for name in columns])
        rows = min(most, max(LEAST_ROWS, int(_BATCH_BYTES / max(1.0, self.row_bytes))))
        # A dot in a name is no path: more columns may come than were asked for. Without names, a
        # file of one column may call it what it likes.
        wanted = None if len(self.columns) == 1 else columns
        whole = groups is None or len(groups) == len(self.groups)
        with self._reader(whole=whole) as file:
            yield from file.iter_batches(
                rows, columns=wanted, row_groups=groups, use_threads=len(columns) > 1
            )

    def _reader(self, *, whole: bool) -> AbstractContextManager[Any]:
        """Return what reads the file: its own reader, unless several read at the same time."""
        file: AbstractContextManager[Any] = self.opened  # leaving it does not close memory
        if self.opened is None or not whole:
            import pyarrow.parquet as pq

            file = pq.ParquetFile(
                for_arrow(self.path),
                metadata=None if self.opened is None else self.opened.metadata,
                **_manner(self.path),
            )
        return file


def _manner(path: Source) -> dict[str, Any]:
    # What is in memory already needs no buffer to be copied to.
    return {"pre_buffer": False, "buffer_size": 0 if isinstance(path, Held) else _BUFFER}


@dataclass(frozen=True)
class ArrowTable(FileTable):
    """Arrow IPC, as a file or as a stream."""

    kind: ClassVar[str] = "Arrow"

    @classmethod
    def open(cls, path: Source, stamp: Stamp, manner: Manner) -> Self:
        """Read the schema."""
        with _arrow(path) as reader:
            return cls(named(path), plain_schema(reader.schema), None, path, stamp)

    def _read(self, columns: list[str]) -> Batches:
        places = sorted(self.schema.get_field_index(name) for name in columns)
        with _arrow(self.path, places) as reader:
            count = getattr(reader, "num_record_batches", None)
            yield from reader if count is None else map(reader.get_batch, range(count))


@contextmanager
def _arrow(path: Source, places: list[int] | None = None) -> Iterator[Any]:
    options = pa.ipc.IpcReadOptions(included_fields=places)
    source = for_arrow(path)
    with pa.OSFile(source, "rb") if isinstance(source, str) else source as file:
        # Both kinds share their endings; only the file format starts with this word.
        is_file = file.read(6) == b"ARROW1"
        file.seek(0)
        opener = pa.ipc.open_file if is_file else pa.ipc.open_stream
        with opener(file, options=options) as reader:
            yield reader


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
