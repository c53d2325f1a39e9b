"""Open a table by the ending of its file."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, cast

import pyarrow as pa

from easeml_meter.errors import InvalidInput, TooLarge
from easeml_meter.tables.apart import Work, answer_apart
from easeml_meter.tables.binary import ArrowTable, NpyTable, ParquetTable
from easeml_meter.tables.comma_separated import CsvTable
from easeml_meter.tables.json_lines import JsonArrayTable, JsonTable
from easeml_meter.tables.source import (
    USUAL_LIMITS,
    Given,
    Held,
    Source,
    Stamp,
    TableLimits,
    TableTally,
    about,
    excerpt,
    for_arrow,
    named,
    reading,
    source_of,
    stamp_of,
    written_out,
)
from easeml_meter.tables.table import (
    Batches,
    FileTable,
    Manner,
    MemoryTable,
    Table,
    Types,
    check_columns,
    plain_schema,
)

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

PACKED = {".gz": "gzip", ".zst": "zstd"}
_MOST_UNPACKED = 4 << 30
"""Bytes; strangers have less (`most_decoded_bytes`)."""

_INNER, _SAVE = "let its name say what is in it, such as .csv.gz", "save the sheet as CSV"
_REMEDIES = {".gz": _INNER, ".zst": _INNER, ".zip": "unpack it first"}
_REMEDIES |= dict.fromkeys((".xlsx", ".xls", ".ods"), _SAVE)
"""What to do about files that are often given, and not read."""

_NOT_TEXT = {
    b"\x1f\x8b": f"packed by gzip: {_INNER}",
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
    schema = plain_schema(source.schema)
    table = MemoryTable("the table", schema, source.num_rows, source)
    with about(table.name):
        _check(table)
    return table


def open_raw(
    path: Given, *, reals: bool = False, settled: bool = False, texts: Sequence[str] = ()
) -> FileTable:
    """Open a file for values as they stand there, before any of them is read.

    Those of CSV are all text; JSON has the columns and types of its first row (`reals`: whole
    numbers there may be fractions later, except in the columns `texts`; `settled`: of all rows,
    at the cost of reading them).
    """
    return _open(path, Manner(texts=texts, raw=True, reals=reals, settled=settled))


def unpacked(source: Source) -> Source:
    """Return what gzip or zstd packed, in memory; any other file as it is."""
    inner = Held(source.name[: -len(source.suffix)] if source.suffix else "", b"")
    if source.suffix.lower() not in PACKED or inner.suffix.lower() not in FORMATS:
        return source
    title, limits = named(source), source.limits if isinstance(source, Held) else None
    if isinstance(source, Held) and limits:
        content = _apart(_unpacked, source)[1].column(0)[0].as_py()
    else:
        content = _unpack(source, _MOST_UNPACKED)
    return Held(inner.name, content, title, limits)


def _unpack(source: Source, most: int) -> bytes:
    stamp_of(source)
    codec = PACKED[source.suffix.lower()]
    with reading(source, codec), pa.input_stream(for_arrow(source), compression=codec) as stream:
        content: bytes = stream.read(most + 1)
    if len(content) > most:
        raise TooLarge(
            f"{named(source)}: more than {most:,} bytes in it: unpack it first, or give "
            "fewer rows (setting most_decoded_bytes of a server)"
        )
    return content


def _unpacked(source: Held, limits: TableLimits) -> tuple[None, pa.Table]:
    content = _unpack(source, limits.most_decoded_bytes)
    return None, pa.table({"content": pa.array([content], pa.large_binary())})


def check_whole(source: Source) -> None:
    """Read all of a limited table once, as `open_table` does.

    Most columns of a validation set are first read when a test set is compared with it; by then
    it is too late to refuse them.
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
    if isinstance(source, Held) and source.limits:
        return LimitedTable.open(source, stamp, manner)
    if not stamp[2]:
        raise InvalidInput(f"{named(path)}: an empty file given, one row per example needed")
    kind = FORMATS[ending]
    with reading(source, kind.kind):
        if issubclass(kind, CsvTable | JsonTable | JsonArrayTable):
            _check_text(source)
        table = kind.open(source, stamp, manner)
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


@dataclass(frozen=True)
class LimitedTable(FileTable):
    """A stranger's table, which only child processes decode; it arrives here as plain Arrow."""

    path: Held
    manner: Manner
    kind: ClassVar[str] = "readable"

    @classmethod
    def open(cls, path: Source, stamp: Stamp, manner: Manner) -> Self:
        """Have a child find out the columns."""
        held = cast(Held, path)
        rows, found = _apart(_described, held, manner)
        return cls(named(path), found.schema, rows, held, stamp, manner)

    def _read(self, columns: list[str]) -> Batches:
        _, found = _apart(_decoded, self.path, self.manner, columns)
        yield from found.to_batches()


def _apart(work: Work, source: Held, *given: object) -> tuple[Any, pa.Table]:
    limits = source.limits or USUAL_LIMITS
    whole = replace(source, limits=None)
    size, memory = len(source.content), limits.memory
    value, found = answer_apart(
        work, whole, limits, *given, size=size, memory=memory, source=named(source)
    )
    return value, found


def _described(source: Held, limits: TableLimits, manner: Manner) -> tuple[int | None, pa.Table]:
    table = _open(source, manner)
    with about(source):
        limits.check("most_columns", len(table.columns))
        limits.check("most_rows", table.rows or 0)
    return table.rows, pa.Table.from_batches([], written_out(table.schema))


def _decoded(
    source: Held, limits: TableLimits, manner: Manner, columns: Sequence[str]
) -> tuple[None, pa.Table]:
    table, tally = _open(source, manner), TableTally(limits)
    with about(source):
        found = [tally.add(batch) for batch in table.batches(columns)]
    return None, pa.Table.from_batches(found, None if found else written_out(table.schema))
