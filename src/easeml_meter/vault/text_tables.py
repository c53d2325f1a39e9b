"""CSV and JSON Lines as tables: formats without types, whose rows can be broken anywhere.

Both are cut into blocks of whole rows, which Arrow then parses one by one. Arrow's own streams
would settle the types by the first block alone, and read far ahead of a slow consumer.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.json

from easeml_meter.errors import InvalidInput
from easeml_meter.vault.tables import Table, reading

BLOCK = 8 << 20

Types = Mapping[str, pa.DataType]


@dataclass(frozen=True)
class _Block:
    """Whole rows of a file, and how many rows stand before them."""

    path: Path
    text: bytes = field(repr=False)
    before: int
    names: Sequence[str] | None = None
    """The columns, where an earlier block held the header."""


Parse = Callable[[_Block, Types, Sequence[str] | None], pa.Table]


def csv_table(path: Path, delimiter: str, types: Types) -> Table:
    """Open a CSV file: UTF-8, with a header, and quotes as in RFC 4180."""

    def parse(block: _Block, settled: Types, columns: Sequence[str] | None) -> pa.Table:
        return _parse_csv(block, delimiter, settled, columns)

    table = _text_table(path, types, lambda: _csv_blocks(path, delimiter), parse, lenient=True)
    for name, found in zip(table.schema.names, table.schema.types, strict=True):
        if pa.types.is_binary(found) and name not in types:
            raise InvalidInput(f"{path}: column {name!r} is not UTF-8 text")
    return table


def json_table(path: Path, types: Types) -> Table:
    """Open a file with one JSON object per line."""
    return _text_table(path, types, lambda: _json_blocks(path), _parse_json, lenient=False)


def _text_table(
    path: Path, types: Types, blocks: Callable[[], Iterator[bytes]], parse: Parse, *, lenient: bool
) -> Table:
    """Read all rows once, to settle the types of the columns that `types` leaves open."""

    def parsed(settled: Types, columns: Sequence[str] | None) -> Iterator[pa.Table]:
        block = _Block(path, b"", 0)
        for text in blocks():
            part = parse(replace(block, text=text), settled, columns)
            yield part
            names = part.schema.names if columns is None else list(settled)
            block = replace(block, before=block.before + part.num_rows, names=names)

    found = pa.schema([])
    rows = 0
    for part in parsed(types, None):
        if len(set(part.schema.names)) < len(part.schema.names):
            return Table(str(path), part.schema, None, lambda _: iter(()))
        found = _merge(path, found, part.schema, lenient=lenient)
        rows += part.num_rows
    settled = dict(zip(found.names, found.types, strict=True))

    def read(columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        for part in parsed(settled, found.names if columns is None else columns):
            yield from part.to_batches()

    return Table(str(path), found, rows, read)


def _merge(path: Path, known: pa.Schema, new: pa.Schema, *, lenient: bool) -> pa.Schema:
    """Join what two blocks say: numbers widen, and what only looked like a date becomes text.

    CSV is `lenient`: every value has a text. In JSON a number is not text, and that is an error.
    """
    for column in new:
        index = known.get_field_index(column.name)
        if index < 0:
            known = known.append(column)
            continue
        kinds = [known.field(index).type, column.type]
        try:
            pair = [pa.schema([(column.name, kind)]) for kind in kinds]
            merged = pa.unify_schemas(pair, promote_options="permissive").field(0)
        except pa.ArrowException:
            texts = all(pa.types.is_string(kind) or pa.types.is_timestamp(kind) for kind in kinds)
            if not (lenient or texts):
                raise InvalidInput(
                    f"{path}: column {column.name!r} holds values of different types"
                ) from None
            merged = pa.field(column.name, pa.string())
        known = known.set(index, merged)
    return known


# --- CSV ---


def _csv_blocks(path: Path, delimiter: str) -> Iterator[bytes]:
    """Cut the file after rows; a line break within quotes ends none."""
    line = 1
    with reading(path, "CSV"), open(path, "rb") as stream:
        text = stream.read(BLOCK).removeprefix(codecs.BOM_UTF8)
        while text:
            _check_quotes(path, text, delimiter, line)
            following = stream.read(BLOCK)
            if not following and text.count(b'"') % 2:
                line += text.count(b"\n", 0, text.rfind(b'"'))
                raise InvalidInput(f"{path} has a broken quote in line {line:,}: it is not closed")
            end = _last_row_end(text) if following else len(text)
            if end:
                yield text[:end]
                line += text.count(b"\n", 0, end)
            elif len(text) > 4 * BLOCK:
                raise InvalidInput(
                    f"{path}: the row in line {line:,} does not end within {4 * BLOCK:,} bytes"
                )
            text = text[end:] + following


def _last_row_end(text: bytes) -> int:
    """Return where the last whole row ends; 0 if none does."""
    quotes, end = text.count(b'"'), len(text)
    while (newline := text.rfind(b"\n", 0, end)) >= 0:
        quotes -= text.count(b'"', newline, end)
        if quotes % 2 == 0:
            return newline + 1
        end = newline
    return 0


def _check_quotes(path: Path, text: bytes, delimiter: str, line: int) -> None:
    """Refuse a quote that is out of place, in `text` that starts with a row, in `line`.

    Arrow would let it pass, and take whole rows into one value: labels would move. Quotes open
    and close in turn; one that opens stands at a field's start, one that closes at its end, and
    a doubled quote within a field is both, a closing one and an opening one.
    """
    is_edge = np.zeros(256, bool)
    is_edge[[*delimiter.encode(), *b'\r\n"']] = True
    padded = np.frombuffer(b"\n" + text + b"\n", np.uint8)
    places = np.flatnonzero(padded == ord('"'))
    opening, closing = places[::2], places[1::2]
    wrong = np.append(
        opening[~is_edge[padded[opening - 1]]], closing[~is_edge[padded[closing + 1]]]
    )
    if len(wrong):
        line += text.count(b"\n", 0, int(wrong.min()) - 1)
        raise InvalidInput(f"{path} has a broken quote in line {line:,}")


def _parse_csv(
    block: _Block, delimiter: str, settled: Types, columns: Sequence[str] | None
) -> pa.Table:
    broken: list[str] = []

    def note(row: pa.csv.InvalidRow) -> str:
        number = block.before + row.number - (block.names is None)  # the header counts as one
        fields = f"{row.actual_columns} fields where {row.expected_columns} are expected"
        broken.append(f"row {number:,} has {fields}")
        return "error"

    try:
        return pa.csv.read_csv(
            pa.BufferReader(block.text),
            read_options=pa.csv.ReadOptions(
                block_size=len(block.text) + 1, column_names=block.names, use_threads=False
            ),
            parse_options=pa.csv.ParseOptions(
                delimiter=delimiter, newlines_in_values=True, invalid_row_handler=note
            ),
            convert_options=pa.csv.ConvertOptions(
                column_types=dict(settled),
                include_columns=None if columns is None else list(columns),
            ),
        )
    except (pa.ArrowException, UnicodeDecodeError) as error:
        if broken:
            raise InvalidInput(f"{block.path}: {broken[0]}") from None
        if column := re.match(r"In CSV column #(\d+): ", str(error)):
            raise InvalidInput(
                f"{block.path}: column {int(column[1]) + 1} is not of the type given for it"
            ) from None
        raise InvalidInput(f"{block.path} is not a readable CSV file, or is damaged") from None


# --- JSON Lines ---


def _json_blocks(path: Path) -> Iterator[bytes]:
    """Cut the file after lines."""
    rest = b""
    with reading(path, "JSON Lines"), open(path, "rb") as stream:
        while text := stream.read(BLOCK):
            head, newline, tail = text.rpartition(b"\n")
            if newline:
                yield rest + head + newline
                rest = tail
            else:
                rest += tail
            if len(rest) > 4 * BLOCK:
                raise InvalidInput(f"{path} has a line of more than {4 * BLOCK:,} bytes")
    yield rest


def _parse_json(block: _Block, settled: Types, columns: Sequence[str] | None) -> pa.Table:
    wanted = pa.schema([(name, settled[name]) for name in columns or () if name in settled])
    if not block.text.strip():
        return wanted.empty_table()
    options = pa.json.ParseOptions(
        explicit_schema=None if columns is None else wanted,
        unexpected_field_behavior="infer" if columns is None else "ignore",
    )
    try:
        table = pa.json.read_json(
            pa.BufferReader(block.text),
            read_options=pa.json.ReadOptions(block_size=len(block.text) + 1, use_threads=False),
            parse_options=options,
        )
        if columns is None and settled:
            return _parse_json(block, _known(table.schema, settled), table.schema.names)
        return table
    except (pa.ArrowException, UnicodeDecodeError) as error:
        row = re.search(r" in row (\d+)$", str(error))
        where = f"row {block.before + int(row[1]) + 1:,} is" if row else "it is"
        raise InvalidInput(
            f"{block.path}: {where} not a JSON object of the same kind as the rows before it"
        ) from None


def _known(schema: pa.Schema, settled: Types) -> Types:
    return {column.name: settled.get(column.name, column.type) for column in schema}
