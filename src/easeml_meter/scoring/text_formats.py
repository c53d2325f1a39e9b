"""CSV and JSON Lines."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

import pyarrow as pa

from easeml_meter.errors import InvalidInput
from easeml_meter.scoring.files import Batches, Table

BLOCK_BYTES = 1 << 22
"""CSV and JSON Lines are read in blocks of this size; no line may be longer."""


@dataclass(frozen=True)
class CsvTable(Table):
    """CSV with a header line; every value is text until the loss says otherwise."""

    kind: ClassVar[str] = "CSV file"

    @classmethod
    def open(cls, path: Path, stamp: tuple[int, ...], **_: bool) -> CsvTable:
        """Count the quotes and read the header."""
        _check_quotes(path)
        with _csv(path) as reader:
            return cls(path, tuple(reader.schema.names), None, stamp)

    def _read(self, columns: list[str]) -> Batches:
        with _csv(self.path, columns) as reader:
            for batch in reader:
                yield [batch.column(name) for name in columns]


def _check_quotes(path: Path) -> None:
    """Refuse an opening quote without a closing one: Arrow would read on to the end of the file."""
    with path.open("rb") as file:
        quotes = 0
        while chunk := file.read(1 << 20):
            quotes += chunk.count(b'"')
        if quotes % 2:
            raise InvalidInput(f"line {_line_of_odd_quote(file)}: a quote that is not closed")


def _line_of_odd_quote(file: BinaryIO) -> int:
    file.seek(0)
    line, odd = 1, 0
    while chunk := file.read(1 << 20):
        for index, piece in enumerate(chunk.split(b"\n")):
            if index and odd:
                return line
            line += index > 0
            odd ^= piece.count(b'"') % 2
    return line


@contextmanager
def _csv(path: Path, columns: list[str] | None = None) -> Iterator[Any]:
    from pyarrow import csv

    with csv.open_csv(
        str(path),
        read_options=csv.ReadOptions(block_size=BLOCK_BYTES, use_threads=False),
        convert_options=csv.ConvertOptions(
            include_columns=columns,
            column_types=dict.fromkeys(columns or (), pa.string()),
            strings_can_be_null=False,
        ),
    ) as reader:
        yield reader


@dataclass(frozen=True)
class JsonTable(Table):
    """JSON Lines; the first line says which columns there are and of what type."""

    types: tuple[Any, ...]
    kind: ClassVar[str] = "JSON Lines file"

    @classmethod
    def open(cls, path: Path, stamp: tuple[int, ...], *, reals: bool = False) -> JsonTable:
        """Read the first line; `reals`: whole numbers there may turn out to be fractions later."""
        with path.open("rb") as file:
            first = file.readline(BLOCK_BYTES).lstrip()
            while not first and file.tell() < stamp[2]:
                first = file.readline(BLOCK_BYTES).lstrip()
        record = json.loads(first)
        if not isinstance(record, dict):
            raise InvalidInput('every line must be an object, as in {"prediction": 3}')
        types = tuple(_json_type(value, reals=reals) for value in record.values())
        return cls(path, tuple(record), None, stamp, types)

    def _read(self, columns: list[str]) -> Batches:
        from pyarrow import json as arrow_json

        schema = pa.schema([(name, self.types[self.columns.index(name)]) for name in columns])
        parsing = arrow_json.ParseOptions(
            explicit_schema=schema, unexpected_field_behavior="ignore"
        )
        done = 0
        try:
            with arrow_json.open_json(
                str(self.path),
                read_options=arrow_json.ReadOptions(block_size=BLOCK_BYTES, use_threads=False),
                parse_options=parsing,
            ) as reader:
                for batch in reader:
                    yield [batch.column(name) for name in columns]
                    done += batch.num_rows
        except pa.ArrowInvalid as error:  # it counts from 0 and from the start of the block
            text = str(error)
            if found := re.search(r"^(.*) in row (\d+)$", text, re.DOTALL):
                text = f"row {done + int(found[2]) + 1}: {found[1]}"
            raise pa.ArrowInvalid(text) from None


def _json_type(value: object, *, reals: bool) -> Any:
    match value:
        case bool():
            return pa.bool_()
        case int():
            return pa.float64() if reals else pa.int64()
        case float():
            return pa.float64()
        case str():
            return pa.string()
        case [first, *_]:
            fraction = any(isinstance(item, float) for item in value)
            return pa.list_(_json_type(0.5 if fraction else first, reals=reals))
        case _:
            return pa.null()
