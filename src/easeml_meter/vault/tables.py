"""Rows in batches, from CSV, Parquet, Arrow or JSON Lines: what labelers and developers hand in.

A table is streamed and can be read again and again; nothing is copied to disk. What is wrong with
a file is said in one line that names rows and columns, never their content.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from easeml_meter.errors import InvalidInput, invalid
from easeml_meter.vault.files import readable

Read = Callable[[Sequence[str] | None], Iterator[pa.RecordBatch]]

MOST_ROWS = 1 << 16
_BATCH_BYTES = 16 << 20


@dataclass(frozen=True)
class Table:
    """Named columns of rows in a fixed order. `rows` is None where only reading would tell."""

    name: str
    schema: pa.Schema
    rows: int | None
    _read: Read = field(repr=False)

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Stream the rows, in order, at most `MOST_ROWS` at a time; only `columns` if given."""
        for column in columns or ():
            self.require(column)
        names = self.schema.names if columns is None else list(columns)
        for batch in self._read(columns):
            chosen = batch if batch.schema.names == names else batch.select(names)
            for start in range(0, chosen.num_rows, MOST_ROWS):
                yield chosen.slice(start, MOST_ROWS)

    def require(self, column: str, role: str = "column") -> pa.DataType:
        """Return the type of `column`, or say in one line that there is none."""
        if column not in self.schema.names:
            raise invalid(role, column, f"{self.name} has the columns {some(self.schema.names)}")
        return self.schema.field(column).type


def open_table(
    source: str | os.PathLike[str] | pa.Table, *, types: Mapping[str, pa.DataType] | None = None
) -> Table:
    """Open a file by its ending, or take a table in memory.

    The types of CSV and JSON Lines columns are found by looking at every row; `types` settles
    them instead, say to read a file as the sealed test set was read.
    """
    from easeml_meter.vault import text_tables

    if isinstance(source, pa.Table):
        return _checked(_in_memory(source))
    path = Path(source)
    formats: dict[str, Callable[[], Table]] = {
        ".csv": lambda: text_tables.csv_table(path, ",", types or {}),
        ".tsv": lambda: text_tables.csv_table(path, "\t", types or {}),
        ".jsonl": lambda: text_tables.json_table(path, types or {}),
        ".ndjson": lambda: text_tables.json_table(path, types or {}),
        ".parquet": lambda: _parquet(path),
        ".pq": lambda: _parquet(path),
        ".arrow": lambda: _arrow(path),
        ".arrows": lambda: _arrow(path),
        ".feather": lambda: _arrow(path),
        ".ipc": lambda: _arrow(path),
    }
    opener = formats.get(path.suffix.lower())
    if opener is None:
        raise invalid("file", str(path), f"the name must end in {', '.join(formats)}")
    if readable(path, "file").stat().st_size == 0:
        raise InvalidInput(f"{path} is empty")
    return _checked(opener())


def some(items: Sequence[object], most: int = 5) -> str:
    """List the first few of `items` and how many more there are, for an error of one line."""
    shown = ", ".join(str(item)[:40] for item in items[:most])
    return shown if len(items) <= most else f"{shown} and {len(items) - most:,} more"


@contextmanager
def reading(path: Path, kind: str) -> Iterator[None]:
    """Turn Arrow's errors, which quote the file's content, into one line without it."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        raise InvalidInput(f"{path} is not a readable {kind} file, or is damaged") from None


def _checked(table: Table) -> Table:
    names = Counter(table.schema.names)
    if twice := [name for name, count in names.items() if count > 1]:
        raise InvalidInput(f"{table.name} has more than one column named {some(twice)}")
    if not names or table.rows == 0:
        raise InvalidInput(f"{table.name} has no rows")
    return table


def _in_memory(table: pa.Table) -> Table:
    plain = table.replace_schema_metadata(None)

    def read(columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        chosen = plain if columns is None else plain.select(list(columns))
        yield from chosen.to_batches(max_chunksize=MOST_ROWS)

    return Table("the table", plain.schema, plain.num_rows, read)


def _parquet(path: Path) -> Table:
    def opened() -> pq.ParquetFile:
        # Buffered and without prefetch, a row group of any size is read in small pieces.
        return pq.ParquetFile(path, pre_buffer=False, buffer_size=1 << 20)

    def read(columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        with reading(path, "Parquet"), opened() as file:
            groups = [file.metadata.row_group(i) for i in range(file.num_row_groups)]
            width = sum(group.total_byte_size for group in groups) / max(1, file.metadata.num_rows)
            rows = min(MOST_ROWS, max(256, int(_BATCH_BYTES / max(1, width))))
            yield from file.iter_batches(rows, columns=None if columns is None else list(columns))

    with reading(path, "Parquet"), opened() as file:
        schema = file.schema_arrow.remove_metadata()
        return Table(str(path), schema, file.metadata.num_rows, read)


def _arrow(path: Path) -> Table:
    def read(columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        with reading(path, "Arrow"), pa.OSFile(str(path)) as file:
            # Both kinds share their endings; only the file format starts with this word.
            if file.read(6) == b"ARROW1":
                opened = pa.ipc.open_file(file)
                for index in range(opened.num_record_batches):
                    yield opened.get_batch(index)
            else:
                file.seek(0)
                yield from pa.ipc.open_stream(file)

    with reading(path, "Arrow"), pa.OSFile(str(path)) as file:
        is_file = file.read(6) == b"ARROW1"
        file.seek(0)
        opened = pa.ipc.open_file(file) if is_file else pa.ipc.open_stream(file)
        return Table(str(path), opened.schema.remove_metadata(), None, read)
