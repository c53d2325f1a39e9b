"""Open a table by the ending of its file."""

from __future__ import annotations

import codecs
from collections.abc import Sequence

import pyarrow as pa

from easeml_meter.errors import InvalidInput, TooLarge
from easeml_meter.tables.binary import ArrowTable, ParquetTable
from easeml_meter.tables.comma_separated import CsvTable
from easeml_meter.tables.files import reading, stamp_of
from easeml_meter.tables.json_array import JsonArrayTable
from easeml_meter.tables.json_lines import JsonTable
from easeml_meter.tables.numpy_file import NpyTable
from easeml_meter.tables.source import Given, Held, Source, source_of
from easeml_meter.tables.table import (
    FileTable,
    Manner,
    MemoryTable,
    Table,
    Types,
    check_columns,
    without_views,
)
from easeml_meter.tables.wording import about, excerpt, named

FORMATS: dict[str, type[FileTable]] = {
    ".parquet": ParquetTable,
    ".pq": ParquetTable,
    ".arrow": ArrowTable,
    ".arrows": ArrowTable,
    ".feather": ArrowTable,
    ".ipc": ArrowTable,
    ".csv": CsvTable,
    ".tsv": CsvTable,
    ".jsonl": JsonTable,
    ".ndjson": JsonTable,
    ".json": JsonArrayTable,
    ".npy": NpyTable,
}

_UNPACK, _SAVE = "unpack it first", "save the sheet as CSV"
_REMEDIES = {".gz": _UNPACK, ".zip": _UNPACK, ".xlsx": _SAVE, ".xls": _SAVE, ".ods": _SAVE}
"""What to do about files that are often given, and not read."""

_NOT_TEXT = {
    b"\x1f\x8b": f"packed by gzip: {_UNPACK}",
    b"PK\3\4": f"a zip file or a spreadsheet (.xlsx): {_SAVE}",
    b"PAR1\x15": "a Parquet file: let its name end in .parquet",
    b"ARROW1\0": "an Arrow file: let its name end in .arrow",
    codecs.BOM_UTF16_LE: "UTF-16: write the file as UTF-8",
    codecs.BOM_UTF16_BE: "UTF-16: write the file as UTF-8",
}
"""How files begin that are called .csv or .json, and are none: a parser blames their contents."""


def open_table(
    source: Given | pa.Table, *, types: Types | None = None, texts: Sequence[str] = ()
) -> Table:
    """Open a file, or take a table in memory; every column has one type, in every batch.

    The types of CSV and JSON columns are found by looking at every row; `types` settles them
    instead, say to read a file as the sealed test set was read. `texts` are columns of CSV that
    stay as they are written: true is no boolean there, and 007 no number.
    """
    if not isinstance(source, pa.Table):
        return _open(source, Manner(types or {}, texts))
    plain = source.cast(without_views(source.schema))
    table = MemoryTable("the table", plain.schema, plain.num_rows, plain)
    with about(table.name):
        _check(table)
    return table


def open_raw(
    path: Given, *, reals: bool = False, settled: bool = False, texts: Sequence[str] = ()
) -> FileTable:
    """Open a file for values as they stand there, before any of them is read.

    Those of CSV are all text; JSON has the columns and types of its first row (`reals`: whole
    numbers there may be fractions later, except in the columns `texts`; `settled`: of all rows,
    at the cost of reading them); text in Parquet may come as dictionaries.
    """
    return _open(path, Manner(texts=texts, raw=True, reals=reals, settled=settled))


def check_whole(source: Source) -> None:
    """Read all of a limited table once, as `open_table` does.

    Most columns of a validation set are first read when a test set is compared with it; by then
    it is too late to refuse them.

    Raises:
        TooLarge: it holds more than its limits allow.
    """
    if isinstance(source, Held) and source.limits:
        try:
            for _ in open_table(source).batches():
                pass
        except TooLarge:
            raise
        except InvalidInput:
            return  # what cannot be read so is not compared


def _open(path: Given, manner: Manner) -> FileTable:
    source = source_of(path)
    ending = source.suffix.lower()
    if ending not in FORMATS:
        given = f"ending {excerpt(ending, 20)}" if ending else "no ending"
        needed = f"one of {' '.join(FORMATS)} needed"
        remedy = f": {_REMEDIES[ending]}" if ending in _REMEDIES else ""
        raise InvalidInput(f"{named(path)}: {given} given, {needed}{remedy}")
    stamp = stamp_of(source)
    if not stamp[2]:
        raise InvalidInput(f"{named(path)}: an empty file given, one row per example needed")
    kind = FORMATS[ending]
    with reading(source, kind.kind):
        if issubclass(kind, CsvTable | JsonTable | JsonArrayTable):
            _check_text(source)
        table = kind.open(source, stamp, manner)
        if limits := table.limits:
            limits.check("most_columns", len(table.columns))
            limits.check("most_rows", table.rows or 0)
        _check(table)
    return table


def _check_text(source: Source) -> None:
    with source.open("rb") as stream:
        begins = stream.read(max(map(len, _NOT_TEXT)))
    for magic, what in _NOT_TEXT.items():
        if begins.startswith(magic):
            raise InvalidInput(f"it is {what}")


def _check(table: Table) -> None:
    check_columns(table.columns)
    if table.rows == 0:
        raise InvalidInput("no rows given, one per example needed")
