"""Tables written to files, in the format that the name of the file says."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from easeml_meter.errors import InvalidInput, invalid
from easeml_meter.tables.writing import new_file

ENDINGS = (".parquet", ".arrow", ".csv", ".jsonl")


def check_ending(path: Path) -> str:
    """Return the ending of a file that a table can be written to.

    Raises:
        InvalidInput: it names no format that is written.
    """
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        needed = f"the name must end in {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}"
        raise invalid("file", str(path), needed)
    return ending


def write_table(path: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
    """Write rows to a new file as they come, and return how many there were.

    Raises:
        InvalidInput: the name says no format, or one that cannot hold these columns.
    """
    ending, rows = check_ending(path), 0
    with new_file(path) as stream:
        try:
            with _writer(ending, stream, schema) as writer:
                for batch in batches:
                    writer.write_batch(batch)
                    rows += batch.num_rows
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, TypeError):
            line = f"{ending} cannot hold these columns; choose a name that ends in .parquet"
            raise InvalidInput(line) from None
    return rows


def _writer(ending: str, stream: BinaryIO, schema: pa.Schema) -> Any:
    match ending:
        case ".parquet":
            import pyarrow.parquet as pq

            return pq.ParquetWriter(stream, schema)
        case ".arrow":
            return pa.ipc.new_file(stream, schema)
        case ".csv":
            return pa.csv.CSVWriter(stream, schema)
    return _LineWriter(stream)


class _LineWriter:
    """Writes JSON Lines."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave the stream to its owner."""

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Write a line for each row; JSON has no NaN, so that becomes null."""
        columns = [_without_nan(column) for column in batch.columns]
        for row in pa.RecordBatch.from_arrays(columns, batch.schema.names).to_pylist():
            line = json.dumps(row, ensure_ascii=False, default=_plain)
            self._stream.write(line.encode() + b"\n")


def _without_nan(column: Any) -> Any:
    with suppress(pa.ArrowNotImplementedError):  # only numbers can be NaN
        return pc.if_else(pc.is_nan(column), None, column)
    return column


def _plain(value: object) -> str:
    match value:
        case datetime.datetime() | datetime.date() | datetime.time():
            return value.isoformat()
        case Decimal():
            return str(value)
    raise TypeError("no JSON")
