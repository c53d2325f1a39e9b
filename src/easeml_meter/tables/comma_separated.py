"""CSV: UTF-8, with a header, and quotes as in RFC 4180.

Fields may be separated by tabs or semicolons too, which the header shows. With semicolons, numbers
may have a decimal comma, as a spreadsheet writes them where that is the custom.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from numpy.typing import NDArray

from easeml_meter.errors import InvalidInput
from easeml_meter.tables import table as blocks
from easeml_meter.tables.source import Source, Stamp, excerpt, named
from easeml_meter.tables.table import Block, Manner, TextTable, Types

_HEADER_BYTES = 1 << 12
"""A header is looked for in so much of a file, and in a whole block if that holds no row."""
_PIECE = 1 << 16
_QUOTED = re.compile(rb'"[^"]*"')
_DECIMAL_COMMA = r"^\s*([+-]?([0-9]+(,[0-9]*)?|,[0-9]+)([eE][+-]?[0-9]+)?)?\s*$"


@dataclass(frozen=True)
class CsvTable(TextTable):
    """CSV; TSV by its ending."""

    delimiter: str
    texts: frozenset[str] = frozenset()
    """Columns that are text, unless they hold nothing but whole numbers in plain digits."""
    commas: frozenset[str] = frozenset()
    """Columns of numbers with a decimal comma."""
    kind: ClassVar[str] = "CSV"
    mixed: ClassVar[bool] = True

    @classmethod
    def open(cls, path: Source, stamp: Stamp, manner: Manner) -> Self:
        """Look at all rows to settle the types; raw columns are text, only the header is needed."""
        delimiter = "\t" if path.suffix.lower() == ".tsv" else _delimiter(path)
        table = cls(named(path), pa.schema([]), None, path, stamp, delimiter)
        if delimiter == ";" and (manner.reals or not manner.raw):
            table = replace(table, commas=table._with_commas(manner.texts))
        if manner.raw:
            names = table._header()
            return replace(table, schema=pa.schema([(name, pa.string()) for name in names]))
        types = {**dict.fromkeys(manner.texts, pa.string()), **manner.types}
        types = dict.fromkeys(table.commas, pa.float64()) | types
        table = replace(table, texts=frozenset(manner.texts) - {*manner.types}).settled(types)
        for column in table.schema:
            if pa.types.is_binary(column.type) and column.name not in types:
                raise _not_text(column.name)
        return table

    def _header(self) -> list[str]:
        text = next(self._blocks()).lstrip(b"\r\n")
        few = text[: _last_row_end(text[:_HEADER_BYTES]) or len(text)]
        names: list[str] = self._parse(Block(few), {}, None).schema.names
        return names

    def _with_commas(self, texts: Sequence[str]) -> frozenset[str]:
        """Return the columns whose values all are numbers, some with a decimal comma."""
        names = [name for name in self._header() if name not in texts]
        table = replace(self, schema=pa.schema([(name, pa.string()) for name in names]))
        others, found = set[str](), set[str]()
        for part in table._parsed(dict.fromkeys(names, pa.string()), None):
            for name in names:
                numbers = pc.match_substring_regex(part.column(name), _DECIMAL_COMMA)
                if not pc.all(numbers).as_py():
                    others.add(name)
                elif pc.any(pc.match_substring(part.column(name), ",")).as_py():
                    found.add(name)
        return frozenset(found - others)

    def _blocks(self) -> Iterator[bytes]:
        """Cut the file after rows; a line break within quotes ends none."""
        line = 1
        with self.path.open("rb") as stream:
            text = stream.read(blocks.BLOCK).removeprefix(codecs.BOM_UTF8)
            while text:
                _check_quotes(text, self.delimiter, line)
                following = stream.read(blocks.BLOCK)
                if not following and text.count(b'"') % 2:
                    line += text.count(b"\n", 0, text.rfind(b'"'))
                    raise InvalidInput(f"line {line}: a quote that is not closed")
                end = _last_row_end(text) if following else len(text)
                if end:
                    yield text[:end]
                    line += text.count(b"\n", 0, end)
                elif len(text) > 4 * blocks.BLOCK:
                    most = f"{4 * blocks.BLOCK:,} bytes"
                    raise InvalidInput(f"line {line}: a row that does not end within {most}")
                text = text[end:] + following

    def _kept(self, part: pa.Table, column: pa.Field) -> pa.Field:
        """Take whole numbers for numbers where nothing is lost: 7, but not 007."""
        if column.name not in self.texts:
            return column
        texts = part.column(column.name)
        try:
            numbers = texts.cast(pa.int64())
        except pa.ArrowInvalid:
            return column
        return column.with_type(pa.int64()) if numbers.cast(pa.string()).equals(texts) else column

    def _parse(self, block: Block, types: Types, columns: Sequence[str] | None) -> pa.Table:
        broken: list[str] = []

        def note(row: pa.csv.InvalidRow) -> str:
            number = block.before + row.number - (block.names is None)  # the header counts as one
            fields = f"{row.actual_columns:,} fields given, {row.expected_columns:,} needed"
            broken.append(f"row {number}: {fields}, as in the header")
            return "error"

        try:
            found = pa.csv.read_csv(
                pa.BufferReader(block.text),
                read_options=pa.csv.ReadOptions(
                    block_size=len(block.text) + 1, column_names=block.names, use_threads=False
                ),
                parse_options=pa.csv.ParseOptions(
                    delimiter=self.delimiter,
                    newlines_in_values=b'"' in block.text,  # slower, so only where it can be
                    # pyarrow hands over rows as text; where they are none, it fails in a way
                    # that nobody can catch, and that ends up in the log.
                    invalid_row_handler=note if _is_text(block.text) else None,
                ),
                convert_options=pa.csv.ConvertOptions(
                    column_types={**types, **dict.fromkeys(self.commas, pa.string())},
                    include_columns=None if columns is None else list(columns),
                ),
            )
        except pa.ArrowInvalid as error:
            if broken:
                raise InvalidInput(broken[0]) from None
            place = re.match(r"In CSV column #(\d+): ", str(error))
            if not place:
                raise
            names = block.names or self.columns or self._parse(block, {}, None).schema.names
            raise _misfit(names[int(place[1])], types, str(error)) from None
        return self._decimal(found, types)

    def _decimal(self, found: pa.Table, types: Types) -> pa.Table:
        """Return numbers with a decimal point in the place of a comma."""
        for name in self.commas.intersection(found.schema.names):
            texts = pc.replace_substring(found.column(name), ",", ".", max_replacements=1)
            kind = types.get(name, pa.string())
            if not pa.types.is_string(kind):
                trimmed = pc.utf8_trim_whitespace(texts)
                texts = pc.if_else(pc.equal(trimmed, ""), None, trimmed).cast(kind)
            found = found.set_column(found.schema.get_field_index(name), name, texts)
        return found


def _delimiter(path: Source) -> str:
    """Tell by the header what separates fields: a comma, wherever there is one."""
    with path.open("rb") as stream:
        header = _QUOTED.sub(b"", stream.read(_HEADER_BYTES)).lstrip(b"\r\n").splitlines()
    marks = header[0] if header else b""
    return next((mark for mark in ",;\t" if mark.encode() in marks), ",")


def _misfit(name: str, types: Types, reason: str) -> InvalidInput:
    if "UTF8" in reason:
        return _not_text(name)
    kind = excerpt(types[name]) if name in types else "its type"
    return InvalidInput(f"column {excerpt(name)}: a value that is not of the type {kind}")


def _not_text(name: str) -> InvalidInput:
    return InvalidInput(f"column {excerpt(name)}: no UTF-8 text: write the file as UTF-8")


def _is_text(content: bytes) -> bool:
    try:
        return content.isascii() or bool(content.decode())
    except UnicodeDecodeError:
        return False


def _last_row_end(text: bytes) -> int:
    """Return where the last whole row ends; 0 if none does."""
    if b'"' not in text:
        return text.rfind(b"\n") + 1
    quotes, end = text.count(b'"'), len(text)
    # Piece by piece, since most often the last line ends a row, and never line by line: between
    # two quotes there may be millions.
    while end:
        start = max(0, end - _PIECE)
        quotes -= text.count(b'"', start, end)
        if len(ends := _row_ends(text[start:end], quotes)):
            return start + int(ends[-1]) + 1
        end = start
    return 0


def _row_ends(text: bytes, quotes: int) -> NDArray[np.intp]:
    """Return the places of line breaks that end a row; so many quotes stand before `text`."""
    marks = np.frombuffer(text, np.uint8)
    closed = (quotes + np.cumsum(marks == ord('"'))) % 2 == 0
    return np.flatnonzero(closed & (marks == ord("\n")))


def _check_quotes(text: bytes, delimiter: str, line: int) -> None:
    """Refuse a quote that is out of place, in `text` that starts with a row, in `line`.

    Arrow would let it pass, and take whole rows into one value: labels would move. Quotes open
    and close in turn; one that opens stands at a field's start, one that closes at its end, and
    a doubled quote within a field is both, a closing one and an opening one.
    """
    if b'"' not in text:
        return
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
        raise InvalidInput(f"line {line}: a quote out of place: put the whole field in quotes")
