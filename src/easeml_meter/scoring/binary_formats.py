"""Parquet, Arrow IPC and npy."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from easeml_meter.errors import InvalidInput
from easeml_meter.scoring.files import BATCH_ROWS, LIST_ROWS, Batches, Part, Table
from easeml_meter.scoring.wording import excerpt


@dataclass(frozen=True)
class ParquetTable(Table):
    """Parquet; text is left in its dictionary encoding, which is fast and small."""

    groups: tuple[int, ...]
    text: tuple[str, ...]
    lists: tuple[str, ...]
    kind: ClassVar[str] = "Parquet file"

    @classmethod
    def open(cls, path: Path, stamp: tuple[int, ...], **_: bool) -> ParquetTable:
        """Read the footer."""
        import pyarrow.parquet as pq

        with pq.ParquetFile(path) as file:
            schema, metadata = file.schema_arrow, file.metadata
            # Only what is asked here is safe to ask: a broken footer makes pyarrow end the process
            # when it is asked about a column of a row group.
            groups = range(metadata.num_row_groups)
            is_text = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
            return cls(
                path=path,
                columns=tuple(schema.names),
                rows=metadata.num_rows,
                stamp=stamp,
                groups=tuple(metadata.row_group(index).num_rows for index in groups),
                text=tuple(f.name for f in schema if any(test(f.type) for test in is_text)),
                lists=tuple(f.name for f in schema if pa.types.is_nested(f.type)),
            )

    def parts(self, columns: Sequence[str], at_most: int) -> list[Part]:
        """Split between row groups, into parts of about the same number of rows."""
        bounds, done = [0], 0
        for index, rows in enumerate(self.groups, 1):
            done += rows
            if done * at_most >= sum(self.groups) * len(bounds):
                bounds.append(index)
        parts = []
        for start, stop in pairwise(bounds):
            parts.append(
                Part(
                    1 + sum(self.groups[:start]),
                    sum(self.groups[start:stop]),
                    partial(self._valid, partial(self._read, [*columns], range(start, stop))),
                )
            )
        return parts

    def _read(self, columns: list[str], groups: Sequence[int] | None = None) -> Batches:
        import pyarrow.parquet as pq

        size = LIST_ROWS if set(columns) & set(self.lists) else BATCH_ROWS
        # Without names, a file of one column may call it what it likes, dots included.
        wanted = None if len(self.columns) == 1 else columns
        with pq.ParquetFile(self.path, read_dictionary=list(self.text)) as file:
            for batch in file.iter_batches(
                size, columns=wanted, row_groups=groups, use_threads=False
            ):
                yield [batch.column(name) for name in columns]


@dataclass(frozen=True)
class ArrowTable(Table):
    """Arrow IPC, as a file or as a stream."""

    kind: ClassVar[str] = "Arrow file"

    @classmethod
    def open(cls, path: Path, stamp: tuple[int, ...], **_: bool) -> ArrowTable:
        """Read the schema."""
        with _arrow(path) as reader:
            return cls(path, tuple(reader.schema.names), None, stamp)

    def _read(self, columns: list[str]) -> Batches:
        places = [self.columns.index(name) for name in columns]
        with _arrow(self.path, sorted(places)) as reader:
            count = getattr(reader, "num_record_batches", None)
            batches = reader if count is None else map(reader.get_batch, range(count))
            for batch in batches:
                lists = any(pa.types.is_nested(batch.column(name).type) for name in columns)
                size = LIST_ROWS if lists else BATCH_ROWS
                for start in range(0, batch.num_rows, size):
                    piece = batch.slice(start, size)
                    yield [piece.column(name) for name in columns]


@contextmanager
def _arrow(path: Path, places: list[int] | None = None) -> Iterator[Any]:
    options = pa.ipc.IpcReadOptions(included_fields=places)
    with pa.OSFile(str(path), "rb") as file:
        is_file = file.read(6) == b"ARROW1"
        file.seek(0)
        opener = pa.ipc.open_file if is_file else pa.ipc.open_stream
        with opener(file, options=options) as reader:
            yield reader


@dataclass(frozen=True)
class NpyTable(Table):
    """A numpy array of one or two dimensions; pickled objects are never loaded."""

    dtype: np.dtype[Any]
    width: int
    offset: int
    kind: ClassVar[str] = "npy file"

    @classmethod
    def open(cls, path: Path, stamp: tuple[int, ...], **_: bool) -> NpyTable:
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
        if dtype.kind not in "biufU" or dtype.itemsize > (8 if dtype.kind != "U" else 1 << 16):
            raise InvalidInput(f"type {excerpt(dtype)} given, numbers or text needed")
        width = shape[1] if len(shape) == 2 else 1
        if columns_first and width > 1 and shape[0] > 1:
            raise InvalidInput("column order given, row order needed: np.ascontiguousarray")
        if stamp[2] - offset != shape[0] * width * dtype.itemsize:
            raise InvalidInput("its length does not fit its header: save it again with np.save")
        return cls(path, ("prediction",), shape[0], stamp, dtype, width, offset)

    def _read(self, columns: list[str]) -> Batches:
        size = (LIST_ROWS if self.width > 1 else BATCH_ROWS) * self.width
        with self.path.open("rb") as file:
            file.seek(self.offset)
            while data := file.read(size * self.dtype.itemsize):
                flat = np.frombuffer(data, self.dtype).astype(self.dtype.newbyteorder("="))
                column = pa.array(flat)
                if self.width > 1:
                    column = pa.FixedSizeListArray.from_arrays(column, self.width)
                yield [column for _ in columns]
